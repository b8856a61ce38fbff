"""The options of every command that say which plugins are loaded; the loader reads them in the environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click


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
        raise click.BadParameter(f"the path {wrong[0]} has a '{os.pathsep}' in it; move the file", context)
    if paths:
        absolute = [*loaded_files(), *(str(Path(path).absolute()) for path in paths)]
        context.with_resource(_environment("PRICEKIT_PLUGIN_FILES", os.pathsep.join(absolute)))


def loaded_files() -> list[str]:
    """Return the plugin files that are loaded beside the packages."""
    return [name for name in os.environ.get("PRICEKIT_PLUGIN_FILES", "").split(os.pathsep) if name]


def again() -> str:
    """Return what a command that goes on from this one must be given, too: its --plugin."""
    return "".join(f" --plugin {shlex.quote(os.path.relpath(name))}" for name in loaded_files())


def _load_none(context: click.Context, _: click.Parameter, none: bool) -> None:
    if none:
        context.with_resource(_environment("PRICEKIT_LOAD_PLUGINS", ""))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable that the loader reads, in this process and those that it starts, for one command."""
    from pricekit.core.loader import registry

    before = os.environ.get(name)
    os.environ[name] = value
    registry.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})
        registry.cache_clear()
