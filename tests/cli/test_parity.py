"""Each command has the options of the Python function with its name, with the same defaults."""

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
    "evaluate": pk.evaluate,
    "compare": pk.compare,
    "leaderboard": pk.leaderboard,
    "errors": pk.worst_rows,
    "explain": pk.explain,
    "comparables": pk.comparables,
    "importance": pk.importance,
    "report": pk.report,
    "drift": pk.drift,
    "ensemble": pk.ensemble,
    "export": pk.export,
    "sign": pk.bundles.sign,
    "push": pk.bundles.push,
    "pull": pk.bundles.pull,
    "inspect": pk.bundles.inspect,
    "predict": pk.predict,
    "features": pk.compute_features,
    "pretrain": pk.pretrain,
}
TERMINAL_ONLY = {
    *(
        "as_json",
        "dry_run",
        "worst",
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
NEEDED = {("train", "out"), ("tune", "out"), ("cv", "out"), ("ensemble", "out"), ("features", "out")}
"""A command has no object that a temporary folder could live with: it needs a folder, or chooses one."""


def parameters_of(name: str) -> dict[str, click.Parameter]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    own = TERMINAL_ONLY | ({"overwrite"} if name == "check" else set())  # of --write
    return {str(p.name): p for p in command.params if p.name not in own}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_command_has_the_options_of_its_function(name):
    assert set(parameters_of(name)) == set(inspect.signature(FUNCTIONS[name]).parameters)


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

    assert set(COMMANDS) - set(FUNCTIONS) <= {"config", "plugins", "demo", "completion"}
