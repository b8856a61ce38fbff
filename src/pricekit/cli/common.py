"""What every command has: the options for plugins and output, and hints in its errors."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from pricekit.cli.failures import add_hint
from pricekit.cli.terminal import RESULT, print_json, set_level
from pricekit.errors import PricekitError


def with_common_options(command: click.Command) -> click.Command:
    """Add the common options to a command, or to all commands of a group. A second call changes nothing."""
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
    from pricekit.support.progress import use_reporter

    context.with_resource(use_reporter(None))


def _with_hints(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that fix an error to the errors that a command raises."""

    @wraps(callback)
    def run(*args: Any, **values: Any) -> Any:
        try:
            return callback(*args, **values)
        except PricekitError as error:
            add_hint(error, click.get_current_context())
            raise

    return run


def plugin_options() -> list[click.Option]:
    """Return --plugin and --no-plugins."""
    return [
        click.Option(
            ["--plugin", "plugin_files"],
            type=click.Path(),
            multiple=True,
            metavar="FILE",
            expose_value=False,
            is_eager=True,
            callback=_load_files,
            help="Python file of plugins to load in addition to the installed packages.",
        ),
        click.Option(
            ["--no-plugins"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_load_none,
            help="Load no plugin packages.",
        ),
    ]


def _load_files(context: click.Context, _: click.Parameter, paths: tuple[str, ...]) -> None:
    load_files(context, paths)


def load_files(context: click.Context, paths: Sequence[str]) -> None:
    """Load Python files of plugins, until the command ends."""
    if wrong := [path for path in paths if os.pathsep in str(Path(path).absolute())]:
        raise click.BadParameter(f"the path {wrong[0]} contains '{os.pathsep}'; move the file", context)
    if paths:
        absolute = [*loaded_files(), *(str(Path(path).absolute()) for path in paths)]
        context.with_resource(_environment("PRICEKIT_PLUGIN_FILES", os.pathsep.join(absolute)))


def loaded_files() -> list[str]:
    """Return the plugin files that are loaded in addition to the packages."""
    return [name for name in os.environ.get("PRICEKIT_PLUGIN_FILES", "").split(os.pathsep) if name]


def again() -> str:
    """Return the --plugin options that the next command also needs."""
    return "".join(f" --plugin {shlex.quote(os.path.relpath(name))}" for name in loaded_files())


def _load_none(context: click.Context, _: click.Parameter, none: bool) -> None:
    if none:
        context.with_resource(_environment("PRICEKIT_LOAD_PLUGINS", ""))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable of the loader until the command ends, also for processes that it starts."""
    from pricekit.core.loader import registry

    before = os.environ.get(name)
    os.environ[name] = value
    registry.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})
        registry.cache_clear()
