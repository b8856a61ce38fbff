"""Guesses of the text, price and id columns of a table, for users who have not named them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pricekit.errors import DataError
from pricekit.support.log import logger
from pricekit.support.text import shorten
from pricekit.table.formats.delimited import TITLE_HINT, looks_like_data
from pricekit.table.model import Columns, ReadWarnings
from pricekit.table.profile import Profile, profile, without_header
from pricekit.table.roles.choose import guess_id, guess_price, guess_text
from pricekit.table.source import (
    DEFAULT_READ_OPTIONS,
    OpenedTable,
    ReadOptions,
    TableSource,
    no_rows,
    open_table,
)

_ROWS = 8192
"""Number of rows from which the kind of each column is determined."""


@dataclass(frozen=True)
class ColumnGuess:
    """The columns of a table as named or guessed.

    Attributes:
        columns: the roles of the columns; `columns.price` is None if no column looks like a price.
        profiles: the profile of each column of the table.
        file: the opened table; the columns of a file without a header are named column1, column2 and so on.
        read_options: how to read the table, with these names.
        headless: the file was read as one without a header, because its first line looks like data.
    """

    columns: Columns
    profiles: list[Profile]
    file: OpenedTable
    read_options: ReadOptions
    headless: bool


def guess_columns(
    source: TableSource | OpenedTable,
    *,
    text: Sequence[str] = (),
    price: str | None = None,
    id: str | None = None,  # noqa: A002 - the name of the public parameter
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> ColumnGuess:
    """Guess the text, price and id columns from the first rows of a table.

    Args:
        source: a file or a frame.
        text: the text columns; empty guesses them.
        price: the price column; None guesses it.
        id: the id column; None guesses it.
        read_options: how to read the table; options that are not set are detected.

    Raises:
        NoRowsError: the table has no rows.
        DataError: the table cannot be read, or it has no text column.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"sku": ["a1", "b2"], "title": ["Green tea", "Plum jam"], "eur": ["3,50 €", "2,80 €"]})
        >>> guess_columns(frame).columns
        Columns(text=('title',), price='eur', id='sku', id_required=False)
    """
    file = open_table(source, read_options, logger.debug)
    file, profiles, read_options, headless = _with_names(file, read_options)
    price = price or guess_price(profiles)
    others = [column for column in profiles if column.name != price]
    describing = [column for column in others if column.name not in (id, "sample_id")]
    texts = tuple(text) or guess_text(describing)
    if not texts:
        raise _no_text(file, profiles)
    columns = Columns(texts, price, id or guess_id(others, texts), id_required=id is not None)
    return ColumnGuess(columns, profiles, file, read_options, headless)


def describe_guess(guess: ColumnGuess) -> list[str]:
    """Return sentences about the guesses."""
    columns = guess.columns
    found = [f"text: {', '.join(map(shorten, columns.text))}"]
    found += [
        f"{kind}: {shorten(name)}" for kind, name in (("price", columns.price), ("id", columns.id)) if name
    ]
    sentences = [f"columns guessed: {'; '.join(found)}."]
    return [describe_headless(guess), *sentences] if guess.headless else sentences


def describe_headless(guess: ColumnGuess) -> str:
    """Return a sentence on the names of the columns of a file without a header."""
    return (
        "The first line looks like data, so the file is read as one without a header; its columns are called "
        f"{guess.profiles[0].name} and so on. Set columns to give them better names, in their order."
    )


def _with_names(
    file: OpenedTable, read_options: ReadOptions
) -> tuple[OpenedTable, list[Profile], ReadOptions, bool]:
    """Profile the columns, and name those of a file whose first line is data."""
    row = [] if read_options.names else file.first_row()
    profiles = [] if len(set(row)) < len(row) and looks_like_data(row) else _profiles(file)
    if not row or file.layout is None or (profiles and not without_header(profiles)):
        return file, profiles, read_options, False
    read_options = replace(read_options, names=tuple(f"column{n}" for n in range(1, len(row) + 1)))
    file = replace(file, layout=replace(file.layout, names=read_options.names))
    return file, _profiles(file), read_options, True


def _profiles(file: OpenedTable) -> list[Profile]:
    first = next(file.chunks(_ROWS, ReadWarnings()), None)
    if first is None or not len(first.columns):
        raise no_rows(file)
    return profile(file.name, first.columns)


def _no_text(file: OpenedTable, profiles: list[Profile]) -> DataError:
    if all(column.kind == "empty" for column in profiles):
        return DataError(
            f"{file.name} has no values: all cells of its columns ({', '.join(shorten(c.name) for c in profiles)}) are "
            "empty. Check the delimiter and how the table was exported.",
            parameters=("text", "delimiter"),
            candidates=[column.name for column in profiles],
        )
    names = ", ".join(f"{shorten(column.name)} ({column.kind})" for column in profiles)
    return DataError(
        f"{file.name} has no column of text; it has {names}. Name the columns that describe a product."
        + (TITLE_HINT if file.layout is not None and len(profiles) == 1 else ""),
        parameters=("text",),
        candidates=[column.name for column in profiles],
    )
