"""Exit codes, and the options that errors name."""

import errno

import click
import pytest
from filelock import Timeout

from pricekit.cli.common import add_hint, exit_code, explain
from pricekit.cli.main import cli
from pricekit.errors import BundleError, ConfigError, DataError, ExportError, PluginError, TrainingError


def _caused_by(error, cause):
    try:
        try:
            raise cause
        except type(cause):
            raise error from None  # hides the cause in tracebacks only
    except type(error) as raised:
        return raised


CODES = {
    1: [DataError("x"), TrainingError("x"), BundleError("x"), ExportError("x"), FileNotFoundError(2, "x")],
    2: [ConfigError("x"), click.UsageError("x"), click.BadParameter("x")],
    3: [PluginError("x"), _caused_by(PluginError("x"), ValueError("x"))],
    4: [
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EDQUOT, "full"),
        BlockingIOError(errno.EAGAIN, "locked"),
        Timeout("lock"),
        OSError(errno.EMFILE, "too many open files"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
        MemoryError(),
        _caused_by(ExportError("x"), OSError(errno.ENOSPC, "full")),
        _caused_by(TrainingError("x"), MemoryError()),
    ],
    130: [KeyboardInterrupt(), click.Abort()],
}


@pytest.mark.parametrize(
    ("code", "error"), [(code, error) for code, errors in CODES.items() for error in errors]
)
def test_each_kind_of_error_has_its_exit_code(code, error):
    assert exit_code(error) == code


def test_an_unexpected_error_is_not_a_success():
    assert exit_code(ZeroDivisionError()) == 1
    assert "PRICEKIT_TRACEBACK=1" in explain(ZeroDivisionError())


@pytest.mark.parametrize(
    ("parameters", "hint"),
    [
        (("text",), "Set --text."),
        (("text", "id", "nothing"), "Set --text or --id."),
        (("out", "resume", "overwrite"), "Set --out, or add --resume or --overwrite."),
        (("settings", "config"), "Set --config, or use --set."),
        (("unpriced", "teacher"), "Use --unpriced or --teacher."),
        (("table",), "Check TABLE."),
    ],
)
def test_an_error_names_the_options_of_the_command_that_runs(parameters, hint):
    context = click.Context(cli.get_command(click.Context(cli), "train"))
    error = DataError("something is wrong", parameters=parameters)
    add_hint(error, context)
    assert explain(error) == f"something is wrong. {hint}"


def test_an_error_without_matching_options_gets_no_hint():
    context = click.Context(cli.get_command(click.Context(cli), "compare"))
    error = DataError("something is wrong", parameters=("text",))  # which compare does not have
    add_hint(error, context)
    assert explain(error) == "something is wrong"


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "{catalog}", "--set", "training.epoch=3"],
        ["train", "{catalog}", "--epochs", "0"],
        ["cv", "{catalog}", "--folds", "1"],
        ["predict", "{run}", "{catalog}", "--interval", "most"],
        ["train", "{catalog}", "--polcy", "quick"],
        ["trian", "{catalog}"],
    ],
)
def test_wrong_usage_is_2(pricekit, catalog, run, tmp_path, arguments):
    given = [word.format(catalog=catalog, run=run) for word in arguments]
    code, out, err = pricekit(*given, "--out", tmp_path / "out")
    assert (code, out) == (2, ""), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["cv", "products.csv"], "--out"),
        (["ensemble", "one", "two"], "--out"),
        (["pretrain", "products.csv", "--out", "weights"], "--backbone"),
    ],
)
def test_a_missing_option_is_wrong_usage(pricekit, arguments, option):
    code, _, err = pricekit(*arguments)
    assert (code, f"Missing option '{option}'" in err) == (2, True), err


def test_help_lists_the_exit_codes(pricekit):
    code, out, _ = pricekit("--help")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line.strip()[:1].isdigit()] == [
        *list("0123456"),
        "130",
    ]


def test_the_hint_for_a_given_option_is_to_check_it(pricekit, catalog, tmp_path):
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "run", "--text", "titel")
    assert (code, err.endswith("Check --text.\n")) == (1, True), err
