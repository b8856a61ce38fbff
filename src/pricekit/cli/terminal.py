"""Output on the terminal: log records, results, tables. Data goes to stdout, everything else to stderr."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from typing import Any

import click

from pricekit.errors import PricekitError
from pricekit.io.imports import uncollected
from pricekit.io.log import logger
from pricekit.io.stdout import stdout
from pricekit.training.launched import launched_rank
from pricekit.wording import is_number, printable, printable_json

RESULT = 35
"""The log level of a command's result: above warnings, so that --quiet prints it, and below errors."""

logging.addLevelName(RESULT, "RESULT")

_ADDRESS_SPACE = {
    "pricekit.predict.": 2_000_000_000,
    "pricekit.runs.": 2_500_000_000,
    "pricekit.answers.": 2_500_000_000,
    "pricekit.export.": 2_500_000_000,
}
"""Bytes of address space that libraries need, by the module that imports them; measured on x86-64 Linux."""

_PYTHON_WARNINGS = logging.getLogger("py.warnings")


class TerminalHandler(logging.Handler):
    """Prints records on stderr: sentences, with warnings in yellow, or one JSON object per line.

    Attributes:
        as_json: print JSON objects with time, level, message, and the record's `facts` and `parameters`.
    """

    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record; of several processes, all but the first print errors alone."""
        if launched_rank() and record.levelno < logging.ERROR:
            return
        message = printable(record.getMessage())
        if self.as_json:
            line = _as_json(record, message)
        elif record.levelno >= logging.ERROR:
            line = f"pricekit{f', process {launched_rank()}' * (launched_rank() > 0)}: {message}"
        else:
            line = click.style(message, fg="yellow") if record.levelno == logging.WARNING else message
        try:
            # A progress bar replaces sys.stderr, and then prints above itself.
            click.echo(line, file=sys.stderr)
        except BrokenPipeError:
            raise
        except OSError:  # a log file on a full disk stops no work
            pass


_HANDLER = TerminalHandler(logging.INFO)


@contextmanager
def logging_to_terminal() -> Iterator[None]:
    """Print the library's log messages while the block runs."""
    before = logger.level
    _HANDLER.as_json = False
    _HANDLER.setLevel(logging.INFO)
    logger.addHandler(_HANDLER)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(_HANDLER)
        logger.setLevel(before)
        if _HANDLER.as_json:
            logging.captureWarnings(False)
            _PYTHON_WARNINGS.removeHandler(_HANDLER)


def set_level(level: int) -> None:
    """Print records from this level on, until `logging_to_terminal` ends."""
    logger.setLevel(min(level, logging.INFO))
    _HANDLER.setLevel(level)


def print_json() -> None:
    """Print records and Python's warnings as JSON, until `logging_to_terminal` ends."""
    logging.captureWarnings(True)
    _HANDLER.as_json = True
    _PYTHON_WARNINGS.addHandler(_HANDLER)


def prints_json() -> bool:
    """Return whether records are printed as JSON."""
    return _HANDLER.as_json


def warn_at_end(message: str) -> None:
    """Print a warning as the last command did, after `logging_to_terminal` has ended."""
    if _HANDLER.level <= logging.WARNING:
        facts = {"levelno": logging.WARNING, "levelname": "WARNING", "msg": message}
        _HANDLER.handle(logging.makeLogRecord(facts))


def show_result(message: str, **facts: Any) -> None:
    """Print the result of a command, even with --quiet; `facts` go into the JSON output."""
    logger.log(RESULT, message, extra={"facts": facts})


def begin(message: str, module: str) -> None:
    """Print the first line of a command, then show a spinner while a slow module is imported.

    Args:
        message: the line.
        module: the module.
    """
    logger.info(message)
    check_address_space(module)
    with spinner("loading libraries"), uncollected():
        import_module(module)
    gc.freeze()  # later searches leave out what the imports have created


def check_address_space(module: str) -> None:
    """Raise PricekitError if `ulimit -v` leaves too little for the libraries of a module, which would hang or abort."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    needed = next((least for name, least in _ADDRESS_SPACE.items() if module.startswith(name)), 0)
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise PricekitError(
            f"the address space of this process is limited to {limit / 1e9:.2g} GB, and the libraries of this command "
            f"need {needed / 1e9:.2g} GB; raise the limit with ulimit -v"
        )


def show_data(text: str, *, nl: bool = True) -> None:
    """Print data on stdout, where a command prints nothing else.

    Args:
        text: the data.
        nl: end it with a line break.
    """
    click.echo(text, file=stdout(), nl=nl)


def show_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], *, stderr: bool = True
) -> None:
    """Print a table as a result; a column of numbers is aligned to the right.

    Args:
        title: printed above it; may be empty.
        headers: one for each column.
        rows: their cells.
        stderr: print it on stderr, where `--log-format json` applies; otherwise it is data for stdout.
    """
    if stderr and prints_json():
        show_result(title, rows=[dict(zip(headers, row, strict=True)) for row in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(title)) if title else None, title_justify="left")
    for position, header in enumerate(headers):
        numeric = bool(rows) and all(is_number(row[position]) for row in rows)
        table.add_column(Text(header), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    if stderr:
        Console(stderr=True).print(table, markup=False, highlight=False)
        return
    with (console := Console(file=stdout())).capture() as shown:
        console.print(table, markup=False, highlight=False)
    show_data(shown.get(), nl=False)


def _as_json(record: logging.LogRecord, message: str) -> str:
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "message": message,
    }
    extra = {name: getattr(record, name, None) for name in ("facts", "parameters")}
    line |= {name: value for name, value in extra.items() if value}
    return printable_json(json.dumps(line, ensure_ascii=False, default=str))


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show a line on a terminal while the block runs."""
    if not os.isatty(2) or prints_json() or _HANDLER.level > logging.INFO:
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
