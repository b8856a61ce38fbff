"""The report on a table before training: reading options, columns, prices, duplicates and leaks."""

from __future__ import annotations

import html
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.config.project import update_project
from pricekit.errors import ConfigError
from pricekit.evaluation.duplicates import (
    Duplicates,
    Variants,
    find_duplicates,
    find_variants,
    split_groups_of,
)
from pricekit.evaluation.leaks import Leaks, find_leaks
from pricekit.features.cells import Column, profile_columns, values_of
from pricekit.io.storage import is_table
from pricekit.options import clear_errors
from pricekit.table import (
    DEFAULT_READ_OPTIONS,
    ColumnGuess,
    Columns,
    ReadOptions,
    Table,
    TableSource,
    concat_tables,
    guess_columns,
    split_usable,
)
from pricekit.table.guess import Profile, counts_later, describe_headless, text_lengths
from pricekit.table.odd_rows import second_header, two_headers
from pricekit.table.price_columns import PriceFormat, count_currencies, count_units
from pricekit.table.price_words import TOTAL
from pricekit.table.read import Facts, iter_with_facts
from pricekit.table.source import OpenedTable
from pricekit.table.table import RAGGED
from pricekit.table.usable import MIN_ROWS, describe_currency_column, describe_outliers
from pricekit.text.labelled_lines import as_strings as as_text_array
from pricekit.text.likeness import equal_texts
from pricekit.wording import counted, listed, scheme_of, shorten

FIRST_YEAR, LAST_YEAR = 1950, 2035
PLACEHOLDERS = tuple(
    float(digits)
    for digits in (
        *(str(digit) * length for digit in range(1, 10) for length in range(4, 10)),
        *("1234567890"[:length] for length in range(4, 10)),
        *("4321", "54321", "654321"),
    )
)
LOWEST = (0.01, 0.1, 1.0)
"""Placeholders if other prices are far higher."""
FAR = 100
"""The lowest placeholders are at most the median price divided by this."""
FEWEST = 3
FEWEST_YEARS = 5
TIMES = 5
"""A suspect repeats this many times as often as its neighbours, or as chance explains."""
HIGH = 10
"""A row of nines, which shops use as a price, is a placeholder from this multiple of the median price on."""
_SHOWN = 5
SHOWN_COLUMNS = 100
"""Columns that a page about a table lists."""


@dataclass(frozen=True)
class Suspect:
    """A value that may not be a price.

    Attributes:
        value: the value.
        rows: the number of rows with it.
        reason: "year" or "placeholder".
    """

    value: float
    rows: int
    reason: str


def find_suspects(price: np.ndarray) -> list[Suspect]:
    """Return the values of prices, float (N,), that look like placeholders or years, lowest first.

    Example:
        >>> import numpy as np
        >>> suspects = find_suspects(np.array([*range(20, 400), *[12345.0] * 4]))
        >>> [(suspect.value, suspect.rows, suspect.reason) for suspect in suspects]
        [(12345.0, 4, 'placeholder')]
    """
    values, rows = np.unique(price, return_counts=True)
    counts = dict(zip(values.tolist(), rows.tolist(), strict=True))
    median = float(np.median(price))
    low = [value for value in LOWEST if counts.get(value, 0) >= FEWEST and value * FAR <= median]
    placeholders = [value for value in PLACEHOLDERS if _is_placeholder(value, counts, median)]
    years = [year for year in map(float, range(FIRST_YEAR, LAST_YEAR + 1)) if _is_year(year, counts)]
    reasons = [(value, "placeholder") for value in low + placeholders] + [(year, "year") for year in years]
    return [Suspect(value, counts[value], reason) for value, reason in sorted(reasons)]


def rows_of_equal_years(
    price: np.ndarray, frame: pd.DataFrame, ignored: Sequence[str | None]
) -> dict[str, int]:
    """Return the number of rows whose price equals the year in another column, by column, where chance is no reason.

    Args:
        price: prices, float (N,).
        frame: the columns of the same rows, as read.
        ignored: columns that are not compared.
    """
    equal_rows: dict[str, int] = {}
    is_year = (price >= FIRST_YEAR) & (price <= LAST_YEAR) & (price == np.floor(price))
    if is_year.sum() < FEWEST_YEARS:
        return equal_rows
    for name in frame.columns.difference([c for c in ignored if c], sort=False):
        years = pd.to_numeric(frame[name], errors="coerce").to_numpy(float)
        in_range = (years >= FIRST_YEAR) & (years <= LAST_YEAR)
        if 2 * in_range.sum() < len(years):
            continue
        equal = int((is_year & (price == years)).sum())
        if equal >= max(FEWEST_YEARS, TIMES * _by_chance(price[is_year], years[in_range])):
            equal_rows[str(name)] = equal
    return equal_rows


def describe_suspects(suspects: Sequence[Suspect], equal: Mapping[str, int]) -> list[str]:
    """Return a sentence for each kind of suspect and each column of years."""
    advice = "They are kept; if they are not prices, empty these cells or remove the rows."
    sentences = []
    for reason, looks in (("placeholder", "look like placeholders"), ("year", "look like years")):
        some = sorted((s for s in suspects if s.reason == reason), key=lambda s: -s.rows)
        if some:
            shown = listed([f"{s.value:.10g} ({counted(s.rows, 'row')})" for s in some], _SHOWN)
            sentences.append(f"Some prices {looks}, because they repeat often: {shown}. {advice}")
    for name, rows in equal.items():
        sentences.append(f"In {rows:,} rows the price is the year in the column '{name}'. {advice}")
    return sentences


def _is_placeholder(value: float, counts: Mapping[float, int], median: float) -> bool:
    rows = counts.get(value, 0)
    if rows < FEWEST:
        return False
    if set(f"{value:.0f}") == {"9"}:
        near = [
            count
            for other, count in counts.items()
            if 0.8 * value <= other <= 1.25 * value and other != value
        ]
        return value >= HIGH * median and rows >= 2 * max(near, default=0)
    usual = median / HIGH < value < median * HIGH
    if usual and len(set(f"{value:.0f}")) == 1:  # sellers ask for 7777 in earnest
        return False
    return rows >= TIMES * _mean(counts, [value + step for step in range(-10, 11) if step])


def _is_year(year: float, counts: Mapping[float, int]) -> bool:
    """Return whether a year is much more frequent than prices with the same last digit; 1980 and 1999 are usual."""
    if year % 5 == 0 or year % 100 >= 90:
        return False
    near = [year + 10 * step for step in range(-6, 7) if step and (year + 10 * step) % 100 < 90]
    rows = counts.get(year, 0)
    return rows >= FEWEST_YEARS and rows >= TIMES * max(1.0, _mean(counts, near))


def _mean(counts: Mapping[float, int], values: Sequence[float]) -> float:
    return sum(counts.get(value, 0) for value in values) / len(values)


def _by_chance(price: np.ndarray, years: np.ndarray) -> float:
    """Return the expected number of these prices that equal the year of their row if both are independent."""
    values, rows = np.unique(years, return_counts=True)
    frequency = dict(zip(values.tolist(), (rows / len(years)).tolist(), strict=True))
    return float(sum(frequency.get(value, 0.0) for value in price.tolist()))


SMALL_TABLE = 1000
"""The report warns about fewer usable rows than this."""
VARIANT_SEARCH_ROWS = 100_000
"""Variants of products are searched among the first rows, at most this many."""
QUANTILES = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1)
HIGHEST = 5


@dataclass(frozen=True, repr=False)
class TableReport:
    """The findings of `profile_table` about a table.

    Attributes:
        table: the path of the file, or a description such as "the DataFrame".
        rows: the number of rows in the file.
        format: csv, tsv, txt, jsonl, parquet, feather, orc, workbook or frame.
        encoding: of a text file, such as utf-8; None for others.
        delimiter: of a delimited file; None for other formats.
        columns: a profile of each column: name, kind, share of filled cells, share of distinct cells, an example.
        text: the suggested text columns, without those that leak the price.
        vectors: the columns of vectors, such as embeddings.
        price: the price column; None if there is none.
        id: the id column; None if there is none.
        left_out: why each column that is not used is left out.
        yields: what each text column, or each label of a single one, yields in addition to words: numbers, amounts,
            categories; "" stands for text without a label.
        text_lengths: of all rows: empty texts; words (median, 99% quantile, most); most characters.
        usable: rows that training can use; None without a price column.
        rejected: rows that training cannot use, by reason.
        price_format: how the prices are written: decimal mark, currencies; None without a price column.
        price_quantiles: quantiles of the usable prices, from 0 (the lowest) to 1 (the highest).
        highest_prices: the five highest prices, in descending order.
        suspects: prices that look like years or placeholders.
        duplicates: rows with equal texts; None without usable rows.
        leaks: columns and texts that leak the price; None without usable rows.
        variants: products that repeat with variants, among the first 100,000 usable rows; None if they do not.
        notes: sentences that the user should read.
        read_options: how to read the file.
        trainable: training would start with `train_arguments`.
    """

    table: str
    rows: int
    format: str
    encoding: str | None
    delimiter: str | None
    columns: tuple[Profile, ...]
    text: tuple[str, ...]
    price: str | None
    id: str | None
    yields: dict[str, str]
    text_lengths: dict[str, float]
    price_format: PriceFormat | None
    read_options: ReadOptions
    vectors: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    usable: int | None = None
    rejected: dict[str, int] = field(default_factory=dict)
    price_quantiles: dict[float, float] = field(default_factory=dict)
    highest_prices: list[float] = field(default_factory=list)
    suspects: tuple[Suspect, ...] = ()
    duplicates: Duplicates | None = None
    leaks: Leaks | None = None
    variants: Variants | None = None
    notes: tuple[str, ...] = ()
    trainable: bool = False

    @property
    def shown(self) -> tuple[Profile, ...]:
        """The columns that pages list: of very many, those that are used and the first others."""
        used = sum(bool(self.role(column.name)) for column in self.columns)
        left = itertools.count(used)
        return tuple(c for c in self.columns if self.role(c.name) or next(left) < SHOWN_COLUMNS)

    @property
    def train_arguments(self) -> dict[str, Any]:
        """The keyword arguments with which `pricekit.train` reads the table in this way."""
        return {name: value for name, value in (self._used | self._options).items() if value}

    @property
    def _used(self) -> dict[str, Any]:
        return {"text": list(self.text), "vectors": list(self.vectors), "price": self.price, "id": self.id}

    @property
    def _options(self) -> dict[str, Any]:
        options = asdict(self.read_options)
        return options | {"columns": list(options.pop("names"))}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON, as `pricekit check --json` prints it."""
        content: dict[str, Any] = {
            "table": self.table,
            "format": self.format,
            "encoding": self.encoding,
            "delimiter": self.delimiter,
            "rows": self.rows,
            "text": self.text_lengths,
        }
        if self.usable is not None:
            content |= {"usable": self.usable, "set_aside": self.rejected}
        if self.price_format is not None:
            content["prices"] = asdict(self.price_format) | {"several_currencies": self.price_format.mixed}
        if self.price_quantiles:
            content["quantiles"] = {f"{q:g}": price for q, price in self.price_quantiles.items()}
            content["highest"] = self.highest_prices
            content["suspects"] = [asdict(suspect) for suspect in self.suspects]
        if self.duplicates is not None:
            content["duplicates"] = self.duplicates.to_dict()
        if self.leaks is not None:
            content["leaks"] = asdict(self.leaks)
        if self.variants is not None:
            content["variants"] = self.variants.to_dict()
        content["columns"] = [asdict(column) | {"used_as": self.role(column.name)} for column in self.columns]
        return content | {"yields": self.yields, "left_out": self.left_out, "notes": list(self.notes)}

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @clear_errors()
    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the table, its reading options and columns into a project file (pricekit.toml).

        Other settings and comments of an existing file are kept.

        Args:
            path: the file; the path of the table is written relative to it.
            overwrite: replace an existing table or columns that differ.

        Raises:
            ConfigError: the report is on a frame; the file is invalid, or has another table or other columns.
            PricekitError: the file cannot be written.
        """
        path = Path(path)
        if self.format == "frame":
            raise ConfigError(f"{self.table} has no path that {path} could name; write it to a file first")
        relative = self.table if scheme_of(self.table) else os.path.relpath(self.table, path.parent)
        update_project(path, relative, self._options, self._used, overwrite=overwrite)

    def role(self, column: str) -> str:
        """Return "text", "vectors", "price", "id", or "" for a column that training does not read."""
        if column in self.text or column in self.vectors:
            return "text" if column in self.text else "vectors"
        return {self.price: "price", self.id: "id"}.get(column, "")

    def __repr__(self) -> str:
        used = f"text={list(self.text)!r}, price={self.price!r}"
        rows = (
            counted(self.rows, "row")
            if self.usable is None
            else f"{self.usable:,} of {self.rows:,} rows usable"
        )
        return f"TableReport({self.table!r}: {rows}, {used}, {counted(len(self.notes), 'note')})"

    def _repr_html_(self) -> str:
        rows = [
            (c.name, c.kind, f"{c.filled:.0%}", f"{c.distinct:.0%}", shorten(c.example), self.role(c.name))
            for c in self.shown
        ]
        headers = ["column", "kind", "filled", "distinct", "example", "used as"]
        columns = pd.DataFrame(rows, columns=headers).to_html(index=False, border=0)
        shown = {column.name for column in self.shown}
        reasons = [f"{name} is left out: {why}" for name, why in self.left_out.items() if name in shown]
        more = [f"{len(self.columns) - len(shown):,} more columns"] * (len(shown) < len(self.columns))
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in [*reasons, *more, *self.notes])
        return f"<p>{html.escape(repr(self))}</p>{columns}<ul>{notes}</ul>"


def profile_table(
    table: TableSource | OpenedTable,
    *,
    text: Sequence[str] = (),
    price: str | None = None,
    id: str | None = None,  # noqa: A002
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    limit: int | None = None,
) -> TableReport:
    """Report how a table is read and which problems it has. Nothing is trained.

    Args:
        table: a file or a frame.
        text: the text columns; an empty value guesses them.
        price: the price column; None guesses it.
        id: the id column; None guesses it.
        read_options: how to read the file; options that are not set are detected.
        limit: read only this many rows.

    Raises:
        DataError: the file cannot be read, has no text column, or lacks a named column.

    Example:
        >>> import pandas as pd
        >>> report = profile_table(pd.DataFrame({"title": ["green tea", "plum jam"], "price": [3.5, 2.5]}))
        >>> report.text, report.price, report.usable, report.price_quantiles[0.5]
        (('title',), 'price', 2, 3.0)
    """
    chosen = guess_columns(table, text=text, price=price, id=id, read_options=read_options)
    columns, read_options = chosen.columns, chosen.read_options
    notes = _column_notes(chosen, guessed=not text)
    # A file is opened again for its notices.
    source = chosen.file if is_table(table) or chosen.file.kind == "frame" else table
    tables, facts = iter_with_facts(
        source, columns, rows=None, limit=limit, read_options=read_options, notices=notes.append
    )
    rows, file = concat_tables(list(tables)), facts.file
    if titled := _has_title_line(facts, chosen.profiles, rows):
        notes.insert(
            0,
            f"The first line ({shorten(chosen.profiles[0].name)!r}) looks like a title above the header. Delete the "
            "lines above the header.",
        )
    if below := second_header(rows.frame):
        notes.insert(0, two_headers(rows.frame.columns, below))
    if facts.prices is not None and facts.prices.mixed and read_options.currency is None:
        notes.append(
            f"Prices are in several currencies ({count_currencies(facts.prices)}): training needs to know which one; "
            "set currency."
        )
        read_options = replace(read_options, currency=facts.prices.currency)
    if facts.prices is not None and facts.prices.mixed_units and read_options.price_unit is None:
        notes.append(
            f"Prices are for several units ({count_units(facts.prices)}): training needs to know which one; set "
            "price_unit."
        )
        read_options = replace(read_options, price_unit=facts.prices.unit or TOTAL)
    labelled = profile_columns(as_text_array(rows.text))
    notes += _date_notes(rows, labelled)
    report = TableReport(
        table=file.name,
        rows=len(rows),
        format=table.scheme if is_table(table) else file.kind,
        encoding=file.charset.name.removesuffix("-sig") if file.charset else None,
        delimiter=file.layout.delimiter if file.layout else None,
        columns=tuple(chosen.profiles),
        text=columns.text,
        vectors=chosen.vectors,
        price=columns.price,
        id=columns.id,
        yields={each.label: each.describe() for each in labelled},
        text_lengths={
            "empty": int((rows.text.str.strip() == "").sum()),
            **text_lengths(pa.array(rows.text, pa.large_string())),
        },
        price_format=facts.prices,
        read_options=read_options,
    )
    report = _with_prices(report, rows, columns, notes)
    leaks = report.leaks or Leaks({}, 0.0)
    text = _without_leaks(columns.text, leaks, notes)
    reveals = {name: f"reveals the price: {how}" for name, how in leaks.columns.items()}
    contains = {name: "the text contains the price" for name in columns.text if name not in (*text, *reveals)}
    return replace(
        report,
        text=text,
        left_out=chosen.left_out | contains | reveals,
        notes=tuple(note.removeprefix(f"{file.name}: ") for note in notes),
        trainable=bool(text) and (report.usable or 0) >= MIN_ROWS and not titled,
    )


def _date_notes(rows: Table, columns: Sequence[Column]) -> list[str]:
    """Return a note on each column of dates with filled cells that do not state one."""
    if not any(column.dates for column in columns):
        return []
    values, notes = values_of(rows.text, columns), []
    for place, dates in values.dates.items():
        filled = values.cells.end[:, place] > values.cells.start[:, place]
        if number := int((filled & np.isnan(dates[:, 0])).sum()):
            notes.append(
                f"{columns[place].label or 'The text'}: {counted(number, 'cell')} of {filled.sum():,} in a column of "
                "dates cannot be read as one, and count as missing."
            )
    return notes


def _has_title_line(facts: Facts, profiles: Sequence[Profile], rows: Table) -> bool:
    """Return whether the first line names one column while the lines below have several."""
    if facts.file.layout is None or facts.file.layout.names:
        return False
    named = sum(bool(cell.strip()) for cell in facts.file.first_row())
    wider = (
        len(profiles) == 1 and rows.flaws is not None and 2 * int((rows.flaws == RAGGED).sum()) > len(rows)
    )
    return wider or (named == 1 and sum(column.kind != "empty" for column in profiles) > 2)


def _column_notes(chosen: ColumnGuess, *, guessed: bool) -> list[str]:
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
    if guessed and (later := [shorten(c.name) for c in chosen.profiles if c not in used and counts_later(c)]):
        notes.append(
            f"These columns may arise or change after the price is set, so they are left out: {listed(later)}. If "
            "they are known when the model predicts, name them in text, with the other columns."
        )
    notes += [
        f"The text column {shorten(column.name)!r} yields nothing: "
        + (f"every filled cell is {shorten(column.example)!r}." if column.values else "its cells are empty.")
        for column in used
        if column.values <= 1 and len(used) > 1
    ]
    return notes


def _with_prices(report: TableReport, rows: Table, columns: Columns, notes: list[str]) -> TableReport:
    """Add the findings about prices and texts to a report; append what the user should know to `notes`."""
    if columns.price is None:
        notes.append(
            "No column looks like a price; set price to name it. Without prices a model can predict these rows, but "
            "cannot learn from them."
        )
        return report
    usable, rejected = split_usable(rows)
    reasons = rejected["reason"].value_counts().items()
    report = replace(
        report, usable=len(usable), rejected={str(reason): int(count) for reason, count in reasons}
    )
    if not len(usable):
        notes.append("Training cannot use any row.")
        return report
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
    for sentence in (describe_outliers(price), describe_currency_column(usable)):
        if sentence:
            notes.append(sentence[0].upper() + sentence[1:])
    variants = _variants(usable.take(np.arange(min(len(usable), VARIANT_SEARCH_ROWS))))
    if variants is not None:
        notes.append(f"{variants.sentence()}.")
    suspects = find_suspects(price)
    equal_years = rows_of_equal_years(price, usable.frame, (columns.price, columns.id))
    notes += describe_suspects(suspects, equal_years)
    return replace(
        report,
        suspects=tuple(suspects),
        price_quantiles={q: float(np.quantile(price, q)) for q in QUANTILES},
        highest_prices=np.sort(price)[: -HIGHEST - 1 : -1].tolist(),
        duplicates=find_duplicates(equal_texts(usable.text), price),
        leaks=_leaks(usable, columns, notes),
        variants=variants,
    )


def _variants(rows: Table) -> Variants | None:
    if len(rows) < MIN_ROWS:
        return None
    return find_variants(rows.text, rows.known_price, split_groups_of(rows.text, rows.known_price))


def _leaks(usable: Table, columns: Columns, notes: list[str]) -> Leaks:
    try:
        return find_leaks(usable, columns)
    except ModuleNotFoundError as error:
        notes.append(f"The search for columns that leak the price was skipped: it needs {error.name}.")
        return Leaks({}, 0.0)


def _without_leaks(text: tuple[str, ...], leaks: Leaks, notes: list[str]) -> tuple[str, ...]:
    """Return the text columns that do not leak; none if the whole text leaks."""
    kept = () if leaks.in_text else tuple(name for name in text if name not in leaks.columns)
    if kept == text:
        return text
    if not kept:
        notes.append(
            "The text leaks the price, so training stops. Remove the price from the text, or set "
            "allow_leak if the price is known whenever the model predicts."
        )
    else:
        left_out = listed([name for name in text if name not in kept])
        notes.append(f"The suggested text columns omit columns that leak the price: {left_out}.")
    return kept
