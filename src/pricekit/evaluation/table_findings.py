"""The parts of a table report: the roles of the columns, and findings about prices and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pricekit.evaluation.duplicates import irreducible_error
from pricekit.evaluation.leaks import IN_TEXT, Leaks, as_strings, find_leaks, price_in_text, some_rows
from pricekit.evaluation.suspects import Suspect, describe_suspects, find_suspects, rows_of_equal_years
from pricekit.features.cells.profile import profile_columns
from pricekit.features.labelled_lines import as_strings as as_text_array
from pricekit.likeness import equal_texts
from pricekit.support.text import counted, shorten
from pricekit.table import ColumnGuess, Columns, Table, split_usable
from pricekit.table.guess import counts_later, describe_headless
from pricekit.table.price_columns import PriceFormat, count_currencies
from pricekit.table.profile import Profile
from pricekit.table.read import Facts
from pricekit.table.table import RAGGED
from pricekit.table.usable import MIN_ROWS, describe_currency_column, describe_outliers

SMALL_TABLE = 1000
"""The report warns about fewer usable rows than this."""
QUANTILES = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1)
HIGHEST = 5


@dataclass(frozen=True)
class Duplicates:
    """Rows with equal texts.

    Attributes:
        distinct_texts: number of different texts.
        conflicting_rows: number of rows whose text also appears with a different price.
        conflicting_smape: the lowest SMAPE that a model of the text can reach on those rows, in percent.
        lowest_smape: the lowest SMAPE that it can reach on all rows.
    """

    distinct_texts: int
    conflicting_rows: int
    conflicting_smape: float
    lowest_smape: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, as `pricekit check --json` prints them."""
        return {
            "distinct_texts": self.distinct_texts,
            "rows_of_equal_text_and_other_price": self.conflicting_rows,
            "their_lowest_smape": self.conflicting_smape,
            "lowest_smape": self.lowest_smape,
        }


@dataclass(frozen=True)
class PriceFindings:
    """Findings about the rows with prices.

    Attributes:
        usable: rows that training can use.
        rejected: rows that it cannot use, by reason.
        quantiles: of the usable prices.
        highest: the highest prices, in descending order.
        duplicates: rows with equal texts; None without usable rows.
        leaks: columns and texts that leak the price; None without usable rows.
        suspects: values that look like years or placeholders.
    """

    usable: int
    rejected: dict[str, int]
    quantiles: dict[float, float] = field(default_factory=dict)
    highest: list[float] = field(default_factory=list)
    duplicates: Duplicates | None = None
    leaks: Leaks | None = None
    suspects: tuple[Suspect, ...] = ()


def has_title_line(facts: Facts, profiles: Sequence[Profile], rows: Table) -> bool:
    """Return whether the first line names one column while the lines below have several."""
    if facts.file.layout is None or facts.file.layout.names:
        return False
    named = sum(bool(cell.strip()) for cell in facts.file.first_row())
    wider = (
        len(profiles) == 1 and rows.flaws is not None and 2 * int((rows.flaws == RAGGED).sum()) > len(rows)
    )
    return wider or (named == 1 and sum(column.kind != "empty" for column in profiles) > 2)


def column_notes(chosen: ColumnGuess, *, guessed: bool) -> list[str]:
    """Return notes on a missing header and on text columns that were guessed."""
    notes = []
    if chosen.headless:
        notes.append(describe_headless(chosen))
    if guessed and len(chosen.columns.text) > 1:
        notes.append(
            "Every column that may describe a product is used as text. Leave out columns that are not known at "
            "prediction time."
        )
    used = [column for column in chosen.profiles if column.name in chosen.columns.text]
    if guessed and (later := [shorten(column.name) for column in used if counts_later(column)]):
        notes.append(
            f"These columns may arise or change after the price is set, so they come last: {', '.join(later)}. Leave "
            "them out if they are unknown when the model predicts."
        )
    notes += [
        f"The text column {shorten(column.name)!r} yields nothing: "
        + (f"every filled cell is {shorten(column.example)!r}." if column.values else "its cells are empty.")
        for column in used
        if column.values <= 1 and len(used) > 1
    ]
    return notes


def read_from(rows: Table) -> dict[str, str]:
    """Return what each column of the text, or each label in it, yields in addition to its words."""
    return {column.label: column.describe() for column in profile_columns(as_text_array(rows.text))}


def currency_note(prices: PriceFormat) -> str:
    """Return the note on prices in several currencies."""
    counts = count_currencies(prices)
    return f"Prices are in several currencies ({counts}): training needs to know which one; set currency."


def title_note(first_name: str) -> str:
    """Return the note on a title above the header."""
    return (
        f"The first line ({shorten(first_name)!r}) looks like a title above the header. Delete the lines above the "
        "header."
    )


def examine_prices(rows: Table, columns: Columns, notes: list[str]) -> PriceFindings | None:
    """Examine the prices and texts of a table; append what the user should know to `notes`.

    Returns:
        The findings; None without a price column.
    """
    if columns.price is None:
        notes.append(
            "No column looks like a price; set price to name it. Without prices a model can predict these rows, but "
            "cannot learn from them."
        )
        return None
    usable, rejected = split_usable(rows)
    rejected_counts = {str(reason): int(rows) for reason, rows in rejected["reason"].value_counts().items()}
    found = PriceFindings(len(usable), rejected_counts)
    notes += _row_notes(usable)
    if not len(usable):
        return found
    price = usable.known_price
    for sentence in (describe_outliers(price), describe_currency_column(usable)):
        if sentence:
            notes.append(sentence[0].upper() + sentence[1:])
    suspects = find_suspects(price)
    equal_years = rows_of_equal_years(price, usable.frame, (columns.price, columns.id))
    notes += describe_suspects(suspects, equal_years)
    return replace(
        found,
        suspects=tuple(suspects),
        quantiles={q: float(np.quantile(price, q)) for q in QUANTILES},
        highest=np.sort(price)[: -HIGHEST - 1 : -1].tolist(),
        duplicates=_duplicates(usable, price),
        leaks=_leaks(usable, columns, notes),
    )


def without_leaks(columns: Columns, leaks: Leaks, notes: list[str]) -> Columns:
    """Return the columns without the text columns that leak; without any text if the whole text leaks."""
    text = () if leaks.in_text else tuple(name for name in columns.text if name not in leaks.columns)
    if not text:
        notes.append(
            "The text leaks the price, so training stops. Remove the price from the text, or set "
            "allow_leak if the price is known whenever the model predicts."
        )
    elif text != columns.text:
        left_out = ", ".join(name for name in columns.text if name not in text)
        notes.append(f"The suggested text columns omit columns that leak the price: {left_out}.")
    return replace(columns, text=text)


def _row_notes(usable: Table) -> list[str]:
    """Return notes on too few rows and on equal prices."""
    if not len(usable):
        return ["Training cannot use any row."]
    notes = []
    if len(usable) < MIN_ROWS:
        notes.append(
            f"Training can use {counted(len(usable), 'row')}; training needs at least {MIN_ROWS} rows."
        )
    elif len(usable) < SMALL_TABLE:
        notes.append(f"Training can use {len(usable):,} rows, which is few: do not expect much of the model.")
    price = usable.known_price
    if price.min() == price.max():
        notes.append(f"All prices are {price[0]:g}: there is nothing to learn but that one price.")
    if len(usable) > 1 and usable.text.nunique() == 1:
        notes.append(
            "All texts are equal, so a model can learn only one price. Name columns whose cells differ from row to row."
        )
    return notes


def _duplicates(usable: Table, price: np.ndarray) -> Duplicates:
    groups = equal_texts(usable.text)
    error = irreducible_error(groups, price)
    return Duplicates(int(groups.max()) + 1, error.rows, error.smape, error.smape_of_all)


def _leaks(usable: Table, columns: Columns, notes: list[str]) -> Leaks:
    try:
        found = find_leaks(usable, columns)
        left = [name for name in columns.text if name not in found.columns]
        if 0 < len(left) < len(columns.text):
            found = replace(found, in_text=_price_in(usable, left))
    except ModuleNotFoundError as error:
        notes.append(f"The search for columns that leak the price was skipped: it needs {error.name}.")
        return Leaks({}, 0.0)
    return found


def _price_in(usable: Table, names: list[str]) -> float:
    """Return the share of rows with their price in one of these columns; 0 if chance explains it."""
    sample = usable.take(some_rows(len(usable)))
    cells = sample.frame[names].apply(as_strings)
    share = price_in_text(cells.agg("\n".join, axis=1), sample.known_price)
    return share if share >= IN_TEXT else 0.0
