"""What a terminal shows: log records and tables; data goes to stdout, all else to stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pricekit.log import logger


class TerminalHandler(logging.Handler):
    """Prints records as sentences on stderr, warnings in yellow."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        from rich.console import Console

        style = "yellow" if record.levelno >= logging.WARNING else None
        Console(stderr=True).print(
            self.format(record), style=style, markup=False, highlight=False, soft_wrap=True
        )


@contextmanager
def logging_to_terminal(level: int = logging.INFO) -> Iterator[None]:
    """Print what the library logs while the block runs."""
    handler, before = TerminalHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def show_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], *, stderr: bool = True
) -> None:
    """Print a table; columns whose cells are all numbers are set to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title) if title else None, title_justify="left")
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
