"""Progress of long stages: one protocol, shown in a terminal, in a notebook, or nowhere."""

from __future__ import annotations

import html
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol, TypeVar

from pricekit.io.log import logger

Item = TypeVar("Item")

REFRESH_SECONDS = 0.2
"""Minimum interval between redraws of a notebook's bar; each redraw is a message to the browser."""


class Advance(Protocol):
    """Advances a progress bar, and replaces the note next to it."""

    def __call__(self, units: float, note: str = "") -> None:
        """Advance by `units` of the bar's total."""


class Reporter(Protocol):
    """Shows progress; `use_reporter` chooses one."""

    def bar(self, title: str, total: float, done: float) -> AbstractContextManager[Advance]:
        """Show a bar with the remaining time while the block runs.

        Args:
            title: the name of the stage.
            total: the total number of units, above 0.
            done: the number of units that are already done.
        """


class NoReporter:
    """Shows nothing."""

    @contextmanager
    def bar(self, title: str, total: float, done: float) -> Iterator[Advance]:
        """Run the block."""
        yield lambda units, note="": None


class TerminalReporter:
    """Draws bars on stderr with rich. A bar disappears when it ends."""

    @contextmanager
    def bar(self, title: str, total: float, done: float) -> Iterator[Advance]:
        """Draw a bar below the existing ones."""
        from rich.progress import Progress, SpinnerColumn, TextColumn

        note_column = TextColumn("{task.fields[note]}", markup=False)
        columns = SpinnerColumn(), *Progress.get_default_columns(), note_column
        with Progress(*columns, console=_console(), transient=True) as bars:
            task = bars.add_task(title, total=total, completed=int(done), note="")

            def advance_bar(units: float, note: str = "") -> None:
                bars.update(task, advance=units)
                if note:
                    bars.update(task, note=note)

            yield advance_bar


class NotebookReporter:
    """Draws bars as HTML below a notebook's cell."""

    @contextmanager
    def bar(self, title: str, total: float, done: float) -> Iterator[Advance]:
        """Draw one bar, which disappears when it ends."""
        from IPython.display import HTML, display

        began, drawn, now_done, shown_note = time.perf_counter(), 0.0, done, ""
        handle: Any = display(HTML(_bar_html(title, total, done, "", None)), display_id=True)

        def advance(units: float, note: str = "") -> None:
            nonlocal drawn, now_done, shown_note
            now_done, shown_note = now_done + units, note or shown_note
            now = time.perf_counter()
            if now - drawn >= REFRESH_SECONDS:
                drawn, moved = now, now_done - done
                left = (total - now_done) * (now - began) / moved if moved > 0 else None
                handle.update(HTML(_bar_html(title, total, now_done, shown_note, left)))

        try:
            yield advance
        finally:
            handle.update(HTML(""))


_reporters: dict[object, Reporter] = {}
"""Those that are in use in all threads; the last one counts."""
_own: ContextVar[Reporter | None] = ContextVar("own", default=None)


@contextmanager
def use_reporter(reporter: Reporter | None) -> Iterator[None]:
    """Show progress with this reporter while the block runs, in all threads of the process; with None, show none.

    Example:
        >>> from pricekit import use_reporter
        >>> with use_reporter(None):
        ...     pass
    """
    key = object()
    _reporters[key] = reporter or NoReporter()
    try:
        yield
    finally:
        del _reporters[key]


@contextmanager
def use_reporter_here(reporter: Reporter | None) -> Iterator[None]:
    """Like `use_reporter`, but only in this thread, and whatever reporter is in use in all of them."""
    token = _own.set(reporter or NoReporter())
    try:
        yield
    finally:
        _own.reset(token)


@contextmanager
def progress(title: str, total: float, done: float = 0, *, shown: bool = True) -> Iterator[Advance]:
    """Show a bar while the block runs, with the current reporter; by default a notebook's or a terminal's.

    The time that the block takes is logged for DEBUG.
    """
    current = _own.get() or next(reversed(_reporters.values()), None)
    chosen, began = (current or _default_reporter()) if shown else NoReporter(), time.perf_counter()
    with chosen.bar(title, max(total, 1e-9), done) as advance:
        yield advance
    logger.debug(f"{title}: {time.perf_counter() - began:.1f} s")


@contextmanager
def tracked(
    title: str, items: Collection[Item], size: Callable[[Item], float] = lambda _: 1.0
) -> Iterator[Iterator[Item]]:
    """Yield items under a progress bar. Each item advances the bar by its size when it is done."""
    with progress(title, sum(map(size, items))) as advance:

        def each() -> Iterator[Item]:
            for item in items:
                yield item
                advance(size(item))

        yield each()


def _default_reporter() -> Reporter:
    shell = sys.modules.get("IPython")
    if shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell":
        return NotebookReporter()
    return TerminalReporter() if sys.stderr.isatty() else NoReporter()


@cache
def _console() -> Any:
    """Return the shared console, so that nested bars stack."""
    from rich.console import Console

    return Console(stderr=True)


if hasattr(os, "register_at_fork"):  # another thread may hold the console's lock while it draws
    os.register_at_fork(after_in_child=_console.cache_clear)


def _bar_html(title: str, total: float, done: float, note: str, left: float | None) -> str:
    share = min(100.0, 100 * done / total)
    remaining = "" if left is None else f"{left:,.0f} s left"
    words = " ".join(part for part in (f"{share:.0f}%", remaining, note) if part)
    return (
        f"<div>{html.escape(title)} <progress value='{share:.1f}' max='100'></progress> "
        f"<span>{html.escape(words)}</span></div>"
    )
