"""What `pricekit check` shows of a table: how it is read, and what to know of it before training."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pricekit.errors import DataError, NoRowsError
from pricekit.evaluation.duplicates import noise_floor
from pricekit.evaluation.leaks import IN_TEXT, as_strings, find_leaks, price_in_text, some_rows
from pricekit.table import Columns, ReadOptions, Table, split_usable
from pricekit.table.columns import equal_texts
from pricekit.table.formats.dialect import looks_like_data
from pricekit.table.formats.table_file import OpenedFile, open_file
from pricekit.table.model import RAGGED, ReadWarnings
from pricekit.table.prices.describe import count_currencies
from pricekit.table.profile import (
    Profile,
    guess_id,
    guess_price,
    guess_text,
    profile,
    text_lengths,
    without_header,
)
from pricekit.table.read import MAY_BE_TITLE, Facts, read_with_facts
from pricekit.table.usable import MIN_ROWS, describe_currency_column, describe_outliers
from pricekit.text import counted, shorten

_FEW = 1000
"""Rows under which a model is rather a trial."""
_QUANTILES = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1)
_LOOKED_AT = 8192
"""Rows by which columns are told apart."""
_EXTREMES = 5


@dataclass(frozen=True)
class Page:
    """What is known of a table.

    Attributes:
        facts: plain JSON.
        columns: as they were named or guessed.
        read_options: how to read the file when training on it.
        trainable: it has usable rows below a header that is one.
    """

    facts: dict[str, Any]
    columns: Columns
    read_options: ReadOptions
    trainable: bool


def profile_table(table: Path, given: dict[str, Any], read_options: ReadOptions, limit: int | None) -> Page:
    """Return what is known of a table.

    Args:
        table: the file.
        given: the columns named by flags: `text`, a list, `price` and `id`; the others are guessed.
        read_options: how the file is read.
        limit: look at the first rows only.

    Raises:
        DataError: the table cannot be read, or lacks a column that a flag names.
    """
    notes: list[str] = []
    columns, profiles, read_options, headless = _columns(table, given, read_options)
    if headless:
        notes.append(
            f"The first line looks like data, so the file is taken to have no header; its columns are called "
            f"{profiles[0].name} and so on. Give them better names with --columns, in their order."
        )
    if not given["text"] and len(columns.text) > 1:
        notes.append(
            "Every column that may describe a product is taken as text. Leave out what is not known where prices will "
            "be predicted, such as how often it was sold."
        )
    rows, facts = read_with_facts(
        table, columns, limit=limit, read_options=read_options, notices=notes.append
    )
    titled = _below_title(facts, profiles, rows)
    if titled:
        first = f"The first line ({shorten(profiles[0].name)!r}) looks like a title above the header"
        notes.insert(0, f"{first}, and not like the header: delete the lines above the header.")
    page: dict[str, Any] = {"table": str(table), **_file(facts), "rows": len(rows)}
    page["text"] = _texts(rows)
    if columns.price is None:
        notes.append(
            "No column looks like a price: --price names it. Without one, rows can be priced, but not trained on."
        )
    else:
        page |= _priced(rows, columns, facts, notes, told=read_options.currency is not None)
        if page["prices"]["several_currencies"] and read_options.currency is None:
            read_options = replace(read_options, currency=page["prices"]["currency"])
    if "leaks" in page:
        columns = _without_leaks(columns, page["leaks"], notes)
    page["columns"] = [asdict(p) | {"used_as": _use(p.name, columns)} for p in profiles]
    page["notes"] = [note.removeprefix(f"{table}: ") for note in notes]
    return Page(page, columns, read_options, trainable=_trainable(page, columns) and not titled)


def _trainable(page: dict[str, Any], columns: Columns) -> bool:
    return bool(columns.text) and page.get("usable", 0) >= MIN_ROWS


def _columns(
    table: Path, given: dict[str, Any], read_options: ReadOptions
) -> tuple[Columns, list[Profile], ReadOptions, bool]:
    """The columns as given and guessed, all of them looked at, and whether the file was found to have no header."""
    file = open_file(table, read_options, lambda _: None)
    row = [] if read_options.names else file.first_row()
    profiles = [] if len(set(row)) < len(row) and looks_like_data(row) else _profiles(file)
    headless = bool(row) and (not profiles or without_header(profiles))
    if headless:
        read_options = replace(read_options, names=tuple(f"column{n}" for n in range(1, len(row) + 1)))
        profiles = _profiles(open_file(table, read_options, lambda _: None))
    price = given["price"] or guess_price(profiles)
    others = [column for column in profiles if column.name != price]
    describing = [column for column in others if column.name not in (given["id"], "sample_id")]
    text = tuple(given["text"]) or guess_text(describing)
    if not text:
        names = ", ".join(f"{shorten(p.name)} ({p.kind})" for p in profiles)
        raise DataError(
            f"{table} has no column of text; it has {names}. Name what describes a product with --text."
            + (MAY_BE_TITLE if len(profiles) == 1 else "")
        )
    name = given["id"] or guess_id(others, text)
    return Columns(text, price, name, given["id"] is not None), profiles, read_options, headless


def _below_title(facts: Facts, profiles: list[Profile], rows: Table) -> bool:
    """Whether the first line names one column, and the lines below have several."""
    if facts.file.layout is None or facts.file.layout.names:
        return False
    named = sum(bool(cell.strip()) for cell in facts.file.first_row())
    wider = (
        len(profiles) == 1 and rows.flaws is not None and 2 * int((rows.flaws == RAGGED).sum()) > len(rows)
    )
    return wider or (named == 1 and sum(column.kind != "empty" for column in profiles) > 2)


def _profiles(file: OpenedFile) -> list[Profile]:
    first = next(file.chunks(_LOOKED_AT, ReadWarnings()), None)
    if first is None or not len(first.columns):
        raise NoRowsError(f"{file.path} has no rows: at least one is expected below the header.")
    return profile(first.columns)


def _file(facts: Facts) -> dict[str, Any]:
    file = facts.file
    return {
        "format": file.kind,
        "encoding": file.charset.name.removesuffix("-sig") if file.charset else None,
        "delimiter": file.layout.delimiter if file.layout else None,
    }


def _use(name: str, columns: Columns) -> str:
    if name in columns.text:
        return "text"
    return {columns.price: "price", columns.id: "id"}.get(name, "")


def _texts(rows: Table) -> dict[str, float]:
    empty = int((rows.text.str.strip() == "").sum())
    return {"empty": empty, **text_lengths(pa.array(rows.text, pa.large_string()))}


def _priced(rows: Table, columns: Columns, facts: Facts, notes: list[str], *, told: bool) -> dict[str, Any]:
    """What is known of the prices, their currency `told` or not, and of the rows that could be trained on."""
    usable, rejected = split_usable(rows)
    page: dict[str, Any] = {"usable": len(usable), "set_aside": rejected["reason"].value_counts().to_dict()}
    if (form := facts.prices) is not None:
        page["prices"] = asdict(form) | {"several_currencies": form.mixed}
        if form.mixed and not told:
            notes.append(
                f"Prices are in several currencies ({count_currencies(form)}): training needs --currency."
            )
    notes += _about_rows(usable)
    if not len(usable):
        return page
    price = usable.known_price
    page["quantiles"] = {f"{q:g}": float(np.quantile(price, q)) for q in _QUANTILES}
    page["highest"] = np.sort(price)[: -_EXTREMES - 1 : -1].tolist()
    if outliers := describe_outliers(price):
        notes.append(outliers[0].upper() + outliers[1:])
    if named := describe_currency_column(usable):
        notes.append(named[0].upper() + named[1:])
    return page | {"duplicates": _duplicates(usable, price), "leaks": _leaks(usable, columns, notes)}


def _about_rows(usable: Table) -> list[str]:
    """What is to be said of how many rows there are, and of prices that are all equal."""
    if not len(usable):
        return ["No row can be trained on."]
    notes = []
    if len(usable) < MIN_ROWS:
        notes.append(
            f"{counted(len(usable), 'row')} can be trained on, and training needs at least {MIN_ROWS}."
        )
    elif len(usable) < _FEW:
        notes.append(f"{len(usable):,} rows can be trained on, which is few: do not expect much of a model.")
    price = usable.known_price
    if price.min() == price.max():
        notes.append(f"All prices are {price[0]:g}: there is nothing to learn but that one price.")
    return notes


def _duplicates(usable: Table, price: np.ndarray) -> dict[str, Any]:
    same = equal_texts(usable.text)
    floor = noise_floor(same, price)
    return {
        "distinct_texts": int(same.max()) + 1,
        "rows_of_equal_text_and_other_price": floor.rows,
        "their_lowest_smape": floor.smape,
        "lowest_smape": floor.of_table,
    }


def _leaks(usable: Table, columns: Columns, notes: list[str]) -> dict[str, Any]:
    try:
        found = find_leaks(usable, columns)
        left = [name for name in columns.text if name not in found.columns]
        if 0 < len(left) < len(columns.text):
            found = replace(found, in_text=_price_in(usable, left))
        return asdict(found)
    except ModuleNotFoundError as error:
        notes.append(f"Columns that give the price away are not looked for, as that needs {error.name}.")
        return {"columns": {}, "in_text": 0.0}


def _price_in(usable: Table, names: list[str]) -> float:
    """The share of rows that hold their price in one of these columns; 0 where it is no more than chance."""
    drawn = usable.take(some_rows(len(usable)))
    cells = drawn.frame[names].apply(as_strings)
    share = price_in_text(cells.agg("\n".join, axis=1), drawn.known_price)
    return share if share >= IN_TEXT else 0.0


def _without_leaks(columns: Columns, leaks: dict[str, Any], notes: list[str]) -> Columns:
    """Leave the text columns that give the price away to nobody; no text is left where all do."""
    text = () if leaks["in_text"] else tuple(name for name in columns.text if name not in leaks["columns"])
    if not text:
        notes.append(
            "The text gives the price away, so training refuses it: take the price out of it, or, where it is known "
            "wherever prices will be predicted, say --allow-leak."
        )
    elif text != columns.text:
        left_out = ", ".join(name for name in columns.text if name not in text)
        notes.append(f"The command below leaves out what gives the price away: {left_out}.")
    return replace(columns, text=text)
