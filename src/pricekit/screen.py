"""What people see: notices, tables and progress bars, all on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

Item = TypeVar("Item")


class Advance(Protocol):
    """Moves a progress bar on by some units, and replaces the note beside it."""

    def __call__(self, units: float, note: str = "") -> None:
        """Move on by `units` of the bar's total."""


_muted = False


def mute() -> None:
    """Say nothing more in this process: another one speaks for it."""
    global _muted
    _muted = True


def notice(text: str) -> None:
    """Say one plain sentence."""
    if _muted:
        return
    Console(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Say what was done."""
    if _muted:
        return
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def counted(number: int, thing: str) -> str:
    """Return a number of things in words: 1 row, 2 rows, 1,000 rows."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


@cache
def _console_of_bars() -> Console:
    """Return one for all: a bar inside another one's block is drawn below it."""
    return Console(stderr=True)


@contextmanager
def progress(title: str, total: float, done: float = 0, *, shown: bool = True) -> Iterator[Advance]:
    """Show a bar with the remaining time while the block runs; on a terminal only, and gone when it ends."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    console = _console_of_bars()
    shows = shown and console.is_terminal and not _muted
    with Progress(*columns, console=console, transient=True, disable=not shows) as bar:
        task = bar.add_task(title, total=max(total, 1e-9), completed=int(done), note="")

        def advance(units: float, note: str = "") -> None:
            bar.update(task, advance=units)
            if note:
                bar.update(task, note=note)

        yield advance


@contextmanager
def tracked(title: str, items: Sequence[Item], size: Callable[[Item], float]) -> Iterator[Iterator[Item]]:
    """Give the items under a progress bar, which each moves on by its size when the next one is asked for."""
    with progress(title, sum(map(size, items))) as advance:

        def each() -> Iterator[Item]:
            for item in items:
                yield item
                advance(size(item))

        yield each()


def show_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], *, stderr: bool = True
) -> None:
    """Print a table; columns whose cells are all numbers are set to the right."""
    table = RichTable(title=Text(title) if title else None, title_justify="left")
    for position, header in enumerate(headers):
        numeric = bool(rows) and all(_is_number(row[position]) for row in rows)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(stderr=stderr).print(table, markup=False, highlight=False)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return False
    return True
