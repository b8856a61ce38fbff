"""Each command has the options of the Python function or method with its name, with the same defaults."""

import inspect

import click
import pytest

import pricekit as pk
from pricekit.cli.main import cli

FUNCTIONS = {
    "check": pk.check,
    "train": pk.train,
    "tune": pk.tune,
    "cv": pk.cross_validate,
    "ensemble": pk.ensemble,
    "compare": pk.compare,
    "pretrain": pk.pretrain,
    "evaluate": pk.Model.evaluate,
    "explain": pk.Model.explain,
    "comparables": pk.Model.comparables,
    "importance": pk.Model.importance,
    "report": pk.Model.report,
    "drift": pk.Model.drift,
    "features": pk.Model.features,
    "export": pk.Model.export,
    "predict": pk.Model.predict_file,
    "bundle inspect": pk.bundles.inspect,
    "bundle sign": pk.bundles.sign,
    "bundle push": pk.bundles.push,
    "bundle pull": pk.bundles.pull,
}
TERMINAL_ONLY = {
    *(
        "as_json",
        "dry_run",
        "quiet",
        "verbose",
        "log_format",
        "write",
        "plugin_files",
        "no_plugins",
        "help",
    ),
}
"""Options for the output of a command and for the plugins to load."""
LOADED = {"model", "run", "engine", "trust"}
"""Options of commands that call a method: `pricekit.load` takes them."""
NEEDED = {("train", "out"), ("tune", "out"), ("cv", "out"), ("ensemble", "out")}
"""A command has no object that a temporary folder could live with: it needs a folder, or chooses one."""


def is_method(name: str) -> bool:
    return "self" in inspect.signature(FUNCTIONS[name]).parameters


def parameters_of(name: str) -> dict[str, click.Parameter]:
    first, _, second = name.partition(" ")
    command = cli.get_command(click.Context(cli), first)
    if second:
        assert isinstance(command, click.Group)
        command = command.commands[second]
    assert command is not None
    own = TERMINAL_ONLY | ({"overwrite"} if name == "check" else set())  # of --write
    own |= {"out"} if name == "features" else set()  # in Python, a frame is returned
    own |= LOADED if is_method(name) else set()
    return {str(p.name): p for p in command.params if p.name not in own}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_command_has_the_options_of_its_function(name):
    parameters = set(inspect.signature(FUNCTIONS[name]).parameters) - {"self"}
    assert set(parameters_of(name)) == parameters


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if is_method(name)])
def test_a_command_that_calls_a_method_opens_a_model(name):
    command = cli.get_command(click.Context(cli), name)
    opened = {"run"} if name == "export" else {"model", "engine", "trust"}
    assert {parameter.name for parameter in command.params} & LOADED == opened


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_defaults_are_the_same(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    for option, found in parameters_of(name).items():
        expected = parameters[option].default
        if expected is inspect.Parameter.empty or (name, option) in NEEDED:
            continue
        given = found.get_default(click.Context(click.Command(name)))
        given = None if str(given) == "Sentinel.UNSET" else given  # click 8.3 and later
        nothing = (None, (), False, inspect.Parameter.empty)
        assert given == expected or (given in nothing and expected in nothing), (
            name,
            option,
            given,
            expected,
        )


def test_every_command_has_a_function_or_exists_only_on_the_terminal():
    from pricekit.cli.main import COMMANDS

    assert set(COMMANDS) - {name.partition(" ")[0] for name in FUNCTIONS} == {
        "config",
        "plugins",
        "demo",
        "completion",
    }
