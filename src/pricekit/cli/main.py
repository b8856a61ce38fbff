"""The entry point: commands found by name, errors told in one paragraph."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import click

from pricekit import __version__
from pricekit.cli.plugin_options import with_plugin_options
from pricekit.cli.terminal import logging_to_terminal
from pricekit.errors import PricekitError

COMMANDS = {
    "check": "Show how a table is read, and what to know before training on it.",
    "pretrain": "Adapt a backbone to the texts of tables, priced or not.",
    "train": "Train a model on a table of texts and prices.",
    "cv": "Cross-validate: train on parts of a table and score each on the rest.",
    "evaluate": "Score a model on a table with prices, or on the rows held out of its training.",
    "compare": "Say which of several runs is better, or that one cannot tell.",
    "errors": "List the rows with the largest errors, and what they have in common.",
    "ensemble": "Weigh several runs into one model.",
    "export": "Export a run into a bundle that predicts without torch.",
    "inspect": "Check a bundle and show what it says of itself.",
    "predict": "Price the rows of a table with a run or a bundle.",
    "features": "Compute the engineered features of a table.",
    "config": "Show a configuration and where each value comes from, or its JSON schema.",
    "plugins": "List and explain features, backbones, losses, policies and engines.",
    "demo": "Make a catalogue, train, export and predict: the whole path in two minutes.",
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, so that `--help` is quick."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the commands in the order of a user's work."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import one command."""
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"pricekit.cli.{name}"), name)
        return with_plugin_options(command)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pricekit")
def cli() -> None:
    """Price products from catalogue text.

    \b
    pricekit train products.csv --out run
    pricekit export run --out bundle
    pricekit predict bundle new.csv --out prices.csv

    The defaults read the columns sample_id, catalog_content and price; --id, --text and --price name
    others. Exit codes: 0 done, 1 a failure told in one paragraph, 2 wrong usage, 130 interrupted.
    """


def run_command(*arguments: str) -> None:
    """Run one command as if it had been typed, after showing it."""
    click.echo(f"\n$ pricekit {' '.join(arguments)}", err=True)
    cli.main(list(arguments), standalone_mode=False)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Make SIGTERM, as `kill`, schedulers and containers send it, end a command as Ctrl-C does: nothing is lost."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Run the command line."""
    try:
        with _terminated_as_interrupted(), logging_to_terminal():
            cli(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):  # what is kept was said where it is known
        _fail("interrupted", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except PricekitError as error:
        if os.environ.get("PRICEKIT_TRACEBACK"):
            raise
        _fail(str(error), 1)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = "" if package == "pricekit" else ": pip install 'pricekit[train]'"
        _fail(f"this needs {error.name}, which is not installed{extra}", 1)
    except MemoryError:
        _fail("out of memory; give the command a smaller table or --limit, or use a larger machine", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        cure = (
            ". Make room on that disk, or name a folder on another one; what was finished is kept"
            if full
            else ""
        )
        _fail(f"{where}{error.strerror or error}{cure}", 1)
    except Exception as error:
        if os.environ.get("PRICEKIT_TRACEBACK"):
            raise
        said = " ".join(str(error).split())[:500]
        _fail(
            f"an error that pricekit did not expect: {type(error).__name__}: {said}. Please report it, with what "
            "the command prints when the environment variable PRICEKIT_TRACEBACK=1 is set",
            1,
        )


def _fail(message: str, code: int) -> None:
    click.echo(f"pricekit: {message}", err=True)
    sys.exit(code)
