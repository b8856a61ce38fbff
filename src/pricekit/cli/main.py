"""The entry point: finds commands by name and reports each error in one clear message."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from traceback import walk_tb

import click

from pricekit import __version__
from pricekit.cli.common import INTERRUPTED, exit_code, explain, output_options, with_common_options
from pricekit.cli.terminal import logging_to_terminal, print_json, prints_json
from pricekit.errors import LostProcessError, PluginError, PricekitError
from pricekit.io.log import logger
from pricekit.io.stdout import kept_for_data
from pricekit.training.launched import launched_rank
from pricekit.wording import did_you_mean

GROUP = "pricekit.commands"
"""The entry-point group in which a package names its commands, each a `click.Command`."""

PACKAGES = {
    "mcp": "Let an assistant check, train and price in one folder.",
    "mlflow": "Register a bundle as a model of MLflow.",
    "serve": "Answer requests for prices over HTTP.",
}
"""Commands in packages that this project publishes as pricekit-NAME, with their summaries."""


def installed() -> dict[str, str]:
    """Return those of `PACKAGES` that are installed.

    `pricekit --help` lists them. It does not search for commands of other packages, because this takes as long as
    all else that it does.
    """
    return {name: text for name, text in PACKAGES.items() if find_spec(f"pricekit_{name}") is not None}


def packaged_command(name: str) -> click.Command | None:
    """Import a command of an installed package; None if no package has it.

    Raises:
        PluginError: it cannot be imported, or is no command, or the package that has it is not installed.
    """
    from pricekit.core.registry import install_command, load_provided, provided  # slow to import

    point = provided(GROUP).get(name)
    if point is None:
        if name in PACKAGES:
            raise PluginError(
                f"the command '{name}' is in the package pricekit-{name}, which is not installed. Install it: "
                f"{install_command(f'pricekit-{name}')}"
            )
        return None
    with kept_for_data():
        command = load_provided(point, "command")
    if not isinstance(command, click.Command):
        raise PluginError(
            f"the entry point '{name}' in {GROUP} names a {type(command).__name__}; expected a click.Command: "
            f"{point.value}"
        )
    return command


GROUPS = {
    "Prepare": {
        "check": "Show how pricekit reads a table, and its problems.",
        "pretrain": "Adapt a backbone to the texts of tables, with or without prices.",
        "demo": "Generate a catalogue, train, export and predict, in a minute.",
    },
    "Train": {
        "train": "Train a model on a table of texts and prices.",
        "cv": "Cross-validate: train on parts of a table and score each on the rest.",
        "tune": "Search for better settings, and train with them.",
        "ensemble": "Combine several runs into one model.",
    },
    "Judge": {
        "evaluate": "Score a model on a table or its held-out rows, and list its worst rows.",
        "compare": "Show which of several models is better, if the difference is significant.",
        "report": "Write a page on how good a model's prices are, where they fail, and why.",
    },
    "Understand": {
        "explain": "Show which words and columns make a row's price.",
        "comparables": "Show the products with known prices that are most similar to a row.",
        "importance": "Show which features, lines and words a model's prices depend on.",
        "drift": "Show whether a table differs from what a model was trained on.",
    },
    "Deploy": {
        "export": "Export a run into a bundle that predicts without torch.",
        "predict": "Price the rows of a table with a run or a bundle.",
        "bundle": "Check, sign and share bundles.",
    },
    "Extend": {
        "plugins": "List and explain features, backbones, losses, policies and engines.",
        "config": "Show a configuration and the source of each value, or its JSON schema.",
        "completion": "Print a script that completes commands and values in a shell.",
    },
}
"""The built-in commands with their summaries, by the part of a user's work. Each is in the module of its name."""

COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
"""The built-in commands with their summaries, in the order of a user's work."""

COMPLETE_VARIABLE = "_PRICEKIT_COMPLETE"
"""The environment variable that the scripts of `pricekit completion` set to request completions."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, so that `--help` is quick."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the commands in the order of a user's work, then those of this project's packages, which deploy."""
        return [*COMMANDS, *installed()]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import one command, also of an installed package."""
        if name in COMMANDS:
            command = getattr(import_module(f"pricekit.cli.{name}"), name)
            command.short_help = COMMANDS[name]
            return with_common_options(command)
        command = packaged_command(name)
        return None if command is None else with_common_options(command)

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest name."""
        name = words[0]
        if not name.startswith("-") and self.get_command(context, name) is None:
            near = did_you_mean(name, [*COMMANDS, *PACKAGES])
            raise click.UsageError(f"No such command '{name}'.{near}", context)
        return super().resolve_command(context, words)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([*commands.items(), *(installed().items() if title == "Deploy" else ())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pricekit")
def cli() -> None:
    """Price products from catalogue text.

    \b
    pricekit train products.csv --out run
    pricekit export run --out bundle
    pricekit predict bundle new.csv --out prices.csv

    By default, commands read the columns sample_id, catalog_content and price; without them, those that train choose
    columns as check does. Use --id, --text and --price to name others. A pricekit.toml file in the current folder can
    name the table, its columns and settings. Tables, output files and models that are read may also be remote, such as
    s3://shop/new.csv; "-" is standard input or output.

    \b
    Exit codes:
      0    success
      1    invalid data, or another error
      2    wrong usage: an unknown command, option or setting, or a value out of range
      3    a plugin failed
      4    a failure of the machine: a full or locked disk, too little memory, no network
      5    training succeeded, but its prices are no better than a constant one
      6    a measure of drift is over its limit in --fail-over
      130  interrupted
    """


cli.params += output_options()


def run_command(*arguments: str) -> None:
    """Show a command line and run it."""
    logger.info(f"\n$ pricekit {' '.join(arguments)}")
    cli.main(list(arguments), standalone_mode=False)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM, which `kill`, schedulers and containers send, like Ctrl-C: no work is lost."""
    if threading.current_thread() is not threading.main_thread():  # only it can handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Run the command line."""
    # Where processes cannot share semaphores, joblib says so at its import; pricekit's prices do not depend on it.
    warnings.filterwarnings("ignore", message=".*joblib will operate in serial mode")
    atexit.register(gc.freeze)  # the system frees all at once, without a search for what is unreachable
    with logging_to_terminal():
        try:
            with _sigterm_as_interrupt():
                code = cli(standalone_mode=False, prog_name="pricekit", complete_var=COMPLETE_VARIABLE)
        except (Exception, KeyboardInterrupt) as error:
            code = exit_code(error)
            if isinstance(error, click.ClickException):
                _show_usage_error(error)
            elif code == INTERRUPTED:
                if not launched_rank():
                    logger.error("interrupted")
            elif os.environ.get("PRICEKIT_TRACEBACK"):
                raise
            else:
                _report(error)
        if code:  # also of click.exceptions.Exit, which click returns
            sys.exit(code)


def _report(error: BaseException) -> None:
    if isinstance(error, LostProcessError) and launched_rank():
        return  # the process that was lost and the first one say more
    if isinstance(error, OSError) and error.filename is None:
        modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
        if any(name.startswith(("click.utils", "rich.")) for name in modules):
            error.filename = "standard output"
    facts = {"facts": error.facts, "parameters": error.parameters} if isinstance(error, PricekitError) else {}
    logger.error(explain(error), extra=facts)


def _show_usage_error(error: click.ClickException) -> None:
    """Print a usage error with the nearest name; as JSON if the arguments ask for it."""
    if near := getattr(error, "possibilities", None):
        error.possibilities = near[:1]  # type: ignore[attr-defined]
    arguments = " ".join(sys.argv).replace("=", " ")  # the option may not be parsed yet
    if prints_json() or "--log-format json" in arguments:
        print_json()
        logger.error(error.format_message())
    else:
        error.show()
