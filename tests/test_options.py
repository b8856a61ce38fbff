"""Options are declared once: functions, commands, settings and `PriceRegressor` agree on each of them."""

import inspect
import json
import re

import click
import pytest

import pricekit as pk
from pricekit.cli.main import COMMANDS, cli
from pricekit.config.schema import config_schema
from pricekit.errors import ConfigError

FUNCTIONS = {
    "check": pk.check,
    "train": pk.train,
    "cv": pk.cross_validate,
    "tune": pk.tune,
    "ensemble": pk.ensemble,
    "compare": pk.compare,
    "pretrain": pk.pretrain,
    "evaluate": pk.Model.evaluate,
    "explain": pk.Model.explain,
    "comparables": pk.Model.comparables,
    "importance": pk.Model.importance,
    "report": pk.Model.report,
    "drift": pk.Model.drift,
    "export": pk.Model.export,
    "predict": pk.Model.predict_file,
}
"""The functions that commands call; `pricekit bundle` and what exists on the command line only have others."""

SETTINGS = {
    "policy": ("policy.name", "fast"),
    "backbone": ("backbone.name", "bag"),
    "features": ("features", ["fast15"]),
    "weights": ("backbone.weights", "folder"),
    "metric": ("metric", "mae"),
    "loss": ("loss.name", "log-l1"),
    "max_length": ("max_length", 77),
    "epochs": ("training.epochs", 7),
    "time_budget": ("training.time_budget", 90),
    "max_latency": ("max_latency", 0.5),
    "track": ("track", ["mlflow"]),
}
"""Options for a model, its setting, and a value."""


def test_every_command_is_in_this_list_or_exists_only_on_the_terminal():
    assert set(COMMANDS) - set(FUNCTIONS) == {"bundle", "config", "plugins", "demo", "completion"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_command_has_every_parameter_of_its_function(name):
    command = cli.get_command(click.Context(cli), name)
    shown = {parameter.name for parameter in command.params}
    assert set(inspect.signature(FUNCTIONS[name]).parameters) - {"self"} <= shown
    opens = "self" in inspect.signature(FUNCTIONS[name]).parameters and name != "export"
    assert {"model", "engine", "trust"} <= shown or not opens


def test_export_also_has_every_parameter_for_a_model_of_transformers():
    shown = {parameter.name for parameter in cli.get_command(click.Context(cli), "export").params}
    assert set(inspect.signature(pk.bundles.from_transformers).parameters) <= shown


@pytest.mark.parametrize("option", SETTINGS)
def test_an_option_sets_its_setting_from_the_command_line(pricekit, option):
    setting, value = SETTINGS[option]
    word = value[0] if isinstance(value, list) else str(value)
    base = () if option != "weights" else ("--backbone", "distilroberta")
    code, out, err = pricekit("config", "show", "--json", *base, f"--{option.replace('_', '-')}", word)
    assert code == 0, err
    values = {row["setting"]: (row["value"], row["source"]) for row in json.loads(out)}
    assert values[setting] == (value, f"flag --{option.replace('_', '-')}")


def test_a_regressor_takes_what_train_takes_apart_from_tables_and_folders():
    about_tables = set(inspect.signature(pk.read_table).parameters) | {"weight", "group", "time", "vectors"}
    about_runs = {"out", "overwrite", "resume", "allow_leak", "unpriced", "teacher", "valid", "init"}
    of_train = set(inspect.signature(pk.train).parameters) - about_tables - about_runs
    own = {"engine", "random_state"}
    assert set(pk.PriceRegressor().get_params()) - own == of_train - {"seed"}
    assert set(SETTINGS) <= set(pk.PriceRegressor().get_params())
    with pytest.raises(TypeError, match="Did you mean 'epochs'"):
        pk.PriceRegressor(epoch=1)


@pytest.mark.parametrize("option", [*SETTINGS, "refit", "random_weights", "config", "settings"])
def test_a_regressor_passes_the_option_on(option):
    value = {"policy": "none such"} if option in ("config", "settings") else "none such"
    texts = [f"tea {number}" for number in range(50)]
    with pytest.raises(pk.PricekitError) as caught:
        pk.PriceRegressor(**{option: value}).fit(texts, range(1, 51))
    assert {option, "settings", "policy"} & set(caught.value.parameters)


def test_what_is_required_is_named():
    with pytest.raises(TypeError, match="backbone"):
        pk.pretrain("none.csv", "weights")
    with pytest.raises(TypeError, match="table"):
        pk.train(epochs=1)


def test_help_docstring_and_schema_have_the_description_of_the_setting(pricekit):
    schema, _ = config_schema()
    described = schema["$defs"]["TrainingConfig"]["properties"]["refit"]["description"]
    text, _, default = described.partition("; default: ")
    assert text.startswith("train once more")
    flat = {
        "help": " ".join(pricekit("train", "--help")[1].split()),
        "docstring": " ".join((pk.train.__doc__ or "").split()),
        "regressor": " ".join((pk.PriceRegressor.__doc__ or "").split()),
    }
    assert f"{text[0].upper()}{text[1:]}. [default: {default}]" in flat["help"]
    assert f"refit: {described}." in flat["docstring"]
    assert f"refit: {described}." in flat["regressor"]


def test_help_names_the_other_options_as_they_are_on_the_command_line(pricekit):
    out = " ".join(pricekit("train", "--help")[1].split())
    assert "with prices predicted by --teacher" in out
    assert "[default: a part of TABLE]" in out
    assert "`" not in out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_describes_every_parameter_once(name):
    documented = re.findall(
        r"^ +(\w+): ", (FUNCTIONS[name].__doc__ or "").partition("Returns:")[0], re.MULTILINE
    )
    for parameter in set(inspect.signature(FUNCTIONS[name]).parameters) - {"self"}:
        assert documented.count(parameter) == 1, parameter


@pytest.mark.parametrize("limit", [0, 1.5, True, "2"])
def test_a_number_has_its_limits_in_python(limit, raises):
    with raises(ConfigError, "limit"):
        pk.read_table("none.csv", limit=limit)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("predict", "none", "none.csv", "--out", "p.csv", "--interval", "1"),
            "a number above 0 and below 1",
        ),
        (("comparables", "none", "none.csv", "-k", "1001"), "a whole number, at least 1, at most 1,000"),
        (
            ("pretrain", "none.csv", "--out", "w", "--backbone", "b", "--learning-rate", "0"),
            "a number above 0",
        ),
    ],
)
def test_a_number_has_its_limits_on_the_command_line(pricekit, words, error):
    code, _, err = pricekit(*words)
    assert (code, f"expected {error}" in err) == (2, True), err
