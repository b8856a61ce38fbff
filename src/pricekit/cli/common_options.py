"""What every command has: the options for plugins and output, and hints on errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from pricekit.cli.failures import add_hint
from pricekit.cli.plugin_options import plugin_options
from pricekit.cli.terminal import RESULT, print_json, set_level
from pricekit.errors import PricekitError


def with_common_options(command: click.Command) -> click.Command:
    """Add the common options to a command, or to all commands of a group; once."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_common_options(inner)
    elif not any(parameter.name == "log_format" for parameter in command.params):
        command.params += [*plugin_options(), *output_options()]
        if command.callback is not None:
            command.callback = _with_hints(command.callback)
    return command


def output_options() -> list[click.Option]:
    """Return --quiet, --verbose and --log-format."""
    return [
        click.Option(
            ["--quiet"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_quiet,
            help="Print only errors and the result.",
        ),
        click.Option(
            ["-v", "--verbose"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_verbose,
            help="Print details.",
        ),
        click.Option(
            ["--log-format"],
            type=click.Choice(["text", "json"]),
            default="text",
            expose_value=False,
            is_eager=True,
            callback=_log_format,
            help="json: one JSON object per line on stderr, without progress bars.",
        ),
    ]


def _quiet(context: click.Context, _: click.Parameter, quiet: bool) -> None:
    if quiet:
        set_level(RESULT)
        _hide_progress(context)


def _verbose(context: click.Context, _: click.Parameter, verbose: bool) -> None:
    if verbose:
        set_level(logging.DEBUG)


def _log_format(context: click.Context, _: click.Parameter, log_format: str) -> None:
    if log_format == "json":
        print_json()
        _hide_progress(context)


def _hide_progress(context: click.Context) -> None:
    from pricekit.progress import NoReporter, use_reporter

    context.with_resource(use_reporter(NoReporter()))


def _with_hints(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Name the options of the running command in the errors that its function raises."""

    @wraps(callback)
    def run(*args: Any, **values: Any) -> Any:
        try:
            return callback(*args, **values)
        except PricekitError as error:
            add_hint(error, click.get_current_context())
            raise

    return run
