"""`pricekit completion`, and the completion of values: plugins, settings and columns of the table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]
"""Quoted, because the class is not generic before click 8.5."""


def completer(names: str, *, several: bool) -> Completer | None:
    """Return what completes the values of an option; None: the type of its values does.

    Args:
        names: what the values name: "column", "metric", "setting", "measure", or a kind of plugin.
        several: a value is a list that is separated by commas.
    """

    def complete(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem[str]]:
        if names == "setting":
            return setting_names(context, typed)
        with _silent():
            values = _columns(_values(context)) if names == "column" else _named(names)
        return _matching(values, typed, several=several)

    return complete if names else None


def _named(names: str) -> dict[str, str]:
    """Return metrics, measures of drift, or plugins of a kind, with a summary of each."""
    if names == "metric":
        from pricekit.metrics import METRICS

        return {name: metric.title for name, metric in METRICS.items()}
    if names == "measure":
        from pricekit.insight.alarms import MEASURES

        return {f"{name}=": what for name, what in MEASURES.items()}
    from pricekit.core.loader import registry

    plugins = {entry.name: entry.summary for entry in registry().of_kind(names)}
    return plugins | ({"auto": ""} if names == "engine" else {})


def setting_names(context: click.Context, typed: str) -> list[CompletionItem[str]]:
    """Complete the keys of --set, one level at a time, with the options of the chosen plugins."""
    if "=" in typed:
        return []
    with _silent():
        names = _settings(_values(context), typed)
    depth = typed.count(".")
    shown = {
        name if name.count(".") == depth else ".".join(name.split(".")[: depth + 1]) + "." for name in names
    }
    sections = {name for name in shown if name.endswith(".")}
    items = sorted(name if name in sections else f"{name}=" for name in shown if f"{name}." not in sections)
    return [CompletionItem(item) for item in items if item.startswith(typed)]


def _values(context: click.Context) -> dict[str, Any]:
    """Return the values on the command line. click does not parse arguments when the last option lacks its value."""
    if not context.args:
        return context.params
    again = context.command.make_context(context.info_name, context.args, resilient_parsing=True)
    return context.params | {name: again.params[name] for name in ("table", "tables") if name in again.params}


def _settings(values: dict[str, Any], typed: str) -> list[str]:
    """Return the dotted names of settings. Plugins take seconds to import, so their options appear only on request."""
    from pricekit.config import RunConfig
    from pricekit.config.layers import dotted_names, leaves
    from pricekit.config.resolve import CHOICES, configure

    section = typed.partition(".")[0]
    if "." in typed and section in (*CHOICES, "feature_options"):
        chosen: dict[str, Any] = {kind: values[kind] for kind in CHOICES if values.get(kind)}
        options = configure([chosen]).model_dump()[section]
        return [".".join((section, *path)) for path, _ in leaves(options)]
    return [*dotted_names(RunConfig), *(f"{kind}.name" for kind in CHOICES), "feature_options.name"]


def _columns(values: dict[str, Any]) -> dict[str, str]:
    """Return the columns of the table on the command line; none if it cannot be read."""
    table = values.get("table") or next(iter(values.get("tables") or ()), None)
    try:
        from pricekit.cli.project import with_project
        from pricekit.table import ReadOptions, column_names

        flags = with_project(
            {"table": table, "delimiter": values.get("delimiter"), "encoding": values.get("encoding")}
        )
        options = ReadOptions(encoding=flags["encoding"], delimiter=flags["delimiter"])
        names = column_names(flags["table"], options)
    except Exception:  # completion never fails; it offers nothing instead
        return {}
    return dict.fromkeys(names, "")


def _matching(names: dict[str, str], typed: str, *, several: bool) -> list[CompletionItem[str]]:
    before, comma, last = typed.rpartition(",") if several else ("", "", typed)
    taken = set(before.split(","))
    return [
        CompletionItem(f"{before}{comma}{name}", help=summary or None)
        for name, summary in names.items()
        if name.startswith(last) and name not in taken and "," not in name
    ]


@contextmanager
def _silent() -> Iterator[None]:
    """Run a block without output, which a shell would show at its prompt."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands, options and their values in SHELL.

    \b
    pricekit completion bash >> ~/.bashrc
    pricekit completion zsh  >> ~/.zshrc
    pricekit completion fish > ~/.config/fish/completions/pricekit.fish

    It completes policies, plugins, the keys of --set, and the columns of the table on the command line. Open a new
    shell to use it.
    """
    from pricekit.cli.main import COMPLETE_VARIABLE, cli
    from pricekit.cli.terminal import show_data

    complete = get_completion_class(shell)
    assert complete is not None
    show_data(complete(cli, {}, "pricekit", COMPLETE_VARIABLE).source())
