"""`pricekit plugins doctor`: for those who have a plugin that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pricekit.core.registry import Entry


@click.command(short_help="Try every installed plugin: what fails, why, and the cure.")
@click.option(
    "--traceback", "with_traceback", is_flag=True, help="Show where each one failed, for its author."
)
def doctor(with_traceback: bool) -> None:
    """Import every plugin of every installed package, and say of each that fails why, and what to do.

    Exit code 1 where one fails. pricekit itself and all other plugins work without those that fail.
    """
    from pricekit.core.loader import registry
    from pricekit.errors import PluginError
    from pricekit.screen import say, show_table

    entries = [entry for entry in registry().entries.values() if entry.package != "pricekit"]
    failures = [(f"{b.package} {b.version}", f"{b.reason}. {b.cure}", b.traceback) for b in registry().broken]
    rows = [[package, "?", "failed to load"] for package, _, _ in failures]
    for entry in entries:
        failure = _failure(entry)
        failures += [failure] if failure else []
        state = "cannot be imported" if failure else "works"
        rows.append([f"{entry.package} {entry.version}", f"{entry.kind} {entry.name}", state])
    if not rows:
        say("no plugin packages are installed; pricekit's own plugins are there")
        return
    show_table("", ["package", "plugin", "state"], sorted(rows), stderr=False)
    for package, said, trace in failures:
        click.echo(f"\n{package}: {said}")
        if with_traceback:
            click.echo(trace)
    if failures:
        raise PluginError(f"{len(failures)} failed; all else works without them")


def _failure(entry: Entry) -> tuple[str, str, str] | None:
    import traceback

    from pricekit.errors import PluginError

    try:
        entry.load()
    except PluginError as error:
        return f"{entry.package} {entry.version}", str(error), "".join(traceback.format_exception(error))
    return None
