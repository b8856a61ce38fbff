"""`pricekit check`."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.options import TABLE, reading_flags, split_names, table_options

if TYPE_CHECKING:
    import numpy as np

    from pricekit.table import Columns, Reading, Table
    from pricekit.table.opened import OpenedFile
    from pricekit.table.profile import Profile
    from pricekit.table.read import Facts

_FEW = 1000
"""Rows under which a model is rather a trial."""
_QUANTILES = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999, 1)
_NAMES = {"0": "lowest", "0.5": "median", "1": "highest"}
_LOOKED_AT = 8192
"""Rows by which columns are told apart."""
_EXTREMES = 5
_SHOWN_CHARS = 40


@click.command(short_help="Show how a table is read, and what to know before training on it.")
@click.argument("table", type=TABLE)
@table_options(price=True)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON on stdout.")
def check(
    table: Path,
    text: str | None,
    price: str | None,
    id_: str | None,
    reading: Reading,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show on one page how TABLE is read, and what to know of it before training: nothing is trained.

    \b
    pricekit check products.csv
    pricekit check shop.csv --text title,description --price eur

    Encoding, delimiter, columns, how prices are written, rows that would be set aside, outliers, duplicates, columns
    that give the price away, and the command to train with. Columns that no flag names are guessed.
    """
    given = {"text": split_names(text or ""), "price": price, "id": id_}
    page = look_at(table, given, reading, limit)
    click.echo(json.dumps(page, ensure_ascii=False)) if as_json else _show(page)


def look_at(table: Path, given: dict[str, Any], reading: Reading, limit: int | None) -> dict[str, Any]:
    """Return what is known of a table, as plain JSON.

    Args:
        table: the file.
        given: the columns named by flags: `text`, a list, `price` and `id`; the others are guessed.
        reading: how the file is read.
        limit: look at the first rows only.

    Raises:
        DataError: the table cannot be read, or lacks a column that a flag names.
    """
    from pricekit.table.read import read_with_facts

    notes: list[str] = []
    columns, profiles, reading, headless = _columns(table, given, reading)
    if headless:
        notes.append(
            f"The first line looks like data, so the file is taken to have no header; its columns are called "
            f"{profiles[0].name} and so on. Give them better names with --columns, in their order."
        )
    rows, facts = read_with_facts(table, columns, limit=limit, reading=reading, notices=notes.append)
    titled = _below_title(facts, profiles, rows)
    if titled:
        first = f"The first line ({_short(profiles[0].name)!r}) looks like a title above the header"
        notes.insert(0, f"{first}, and not like the header: delete the lines above the header.")
    page: dict[str, Any] = {"table": str(table), **_file(facts), "rows": len(rows)}
    page["columns"] = [asdict(p) | {"used_as": _use(p.name, columns)} for p in profiles]
    page["text"] = _texts(rows)
    if columns.price is None:
        notes.append(
            "No column looks like a price: --price names it. Without one, rows can be priced, but not trained on."
        )
    else:
        page |= _priced(rows, columns, facts, notes)
        if page["prices"]["several_currencies"] and reading.currency is None:
            reading = replace(reading, currency=page["prices"]["currency"])
        if page["usable"] and not titled:
            page["command"] = shlex.join(_command(table, columns, reading))
    return page | {"notes": [note.removeprefix(f"{table}: ") for note in notes]}


def _columns(
    table: Path, given: dict[str, Any], reading: Reading
) -> tuple[Columns, list[Profile], Reading, bool]:
    """The columns as given and guessed, all of them looked at, and whether the file was found to have no header."""
    from pricekit.errors import DataError
    from pricekit.table import Columns
    from pricekit.table.dialect import looks_like_data
    from pricekit.table.opened import open_file
    from pricekit.table.profile import guess_id, guess_price, guess_text, without_header

    file = open_file(table, reading, lambda _: None)
    row = [] if reading.names else file.first_row()
    profiles = [] if len(set(row)) < len(row) and looks_like_data(row) else _profiles(file)
    headless = bool(row) and (not profiles or without_header(profiles))
    if headless:
        reading = replace(reading, names=tuple(f"column{n}" for n in range(1, len(row) + 1)))
        profiles = _profiles(open_file(table, reading, lambda _: None))
    price = given["price"] or guess_price(profiles)
    others = [column for column in profiles if column.name != price]
    text = tuple(given["text"]) or guess_text(others)
    if not text:
        names = ", ".join(f"{p.name[:_SHOWN_CHARS]} ({p.kind})" for p in profiles)
        raise DataError(
            f"{table} has no column of text; it has {names}. Name what describes a product with --text."
        )
    name = given["id"] or guess_id(others, text)
    return Columns(text, price, name, given["id"] is not None), profiles, reading, headless


def _below_title(facts: Facts, profiles: list[Profile], rows: Table) -> bool:
    """Whether the first line names one column, and the lines below have several."""
    if facts.file.layout is None or facts.file.layout.names:
        return False
    from pricekit.table.model import RAGGED

    named = sum(bool(cell.strip()) for cell in facts.file.first_row())
    wider = (
        len(profiles) == 1 and rows.flaws is not None and 2 * int((rows.flaws == RAGGED).sum()) > len(rows)
    )
    return wider or (named == 1 and sum(column.kind != "empty" for column in profiles) > 2)


def _profiles(file: OpenedFile) -> list[Profile]:
    from pricekit.errors import DataError
    from pricekit.table.model import Tally
    from pricekit.table.profile import profile

    first = next(file.chunks(_LOOKED_AT, Tally()), None)
    if first is None or not len(first.columns):
        raise DataError(f"{file.path} has no rows: at least one is expected below the header.")
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
    import pyarrow as pa

    from pricekit.table.profile import text_lengths

    empty = int((rows.text.str.strip() == "").sum())
    return {"empty": empty, **text_lengths(pa.array(rows.text, pa.large_string()))}


def _priced(rows: Table, columns: Columns, facts: Facts, notes: list[str]) -> dict[str, Any]:
    """What is known of the prices, and of the rows that could be trained on."""
    import numpy as np

    from pricekit.table import split_usable
    from pricekit.table.describe import count_currencies
    from pricekit.table.usable import describe_currency_column, describe_outliers

    usable, rejected = split_usable(rows)
    page: dict[str, Any] = {"usable": len(usable), "set_aside": rejected["reason"].value_counts().to_dict()}
    if (form := facts.prices) is not None:
        page["prices"] = asdict(form) | {"several_currencies": form.mixed}
        if form.mixed:
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
    if len(usable) < _FEW:
        notes.append(f"{len(usable):,} rows can be trained on, which is few: do not expect much of a model.")
    price = usable.known_price
    if price.min() == price.max():
        notes.append(f"All prices are {price[0]:g}: there is nothing to learn but that one price.")
    return notes


def _duplicates(usable: Table, price: np.ndarray) -> dict[str, Any]:
    from pricekit.evaluation.duplicates import noise_floor
    from pricekit.table.equal import equal_texts

    same = equal_texts(usable.text)
    floor = noise_floor(same, price)
    return {
        "distinct_texts": int(same.max()) + 1,
        "rows_of_equal_text_and_other_price": floor.rows,
        "their_lowest_smape": floor.smape,
        "lowest_smape": floor.of_table,
    }


def _leaks(usable: Table, columns: Columns, notes: list[str]) -> dict[str, float]:
    from pricekit.evaluation.leaks import leaking_columns

    try:
        return dict(leaking_columns(usable, ignored=(columns.price, columns.id)))
    except ModuleNotFoundError as error:
        notes.append(f"Columns that give the price away are not looked for, as that needs {error.name}.")
        return {}


def _command(table: Path, columns: Columns, reading: Reading) -> list[str]:
    from pricekit.table import Columns as Defaults

    usual = Defaults()
    words = ["pricekit", "train", str(table), *reading_flags(reading)]
    if columns.text != usual.text:
        words += ["--text", ",".join(columns.text)]
    if columns.price != usual.price:
        words += ["--price", str(columns.price)]
    if columns.id not in (None, usual.id):
        words += ["--id", str(columns.id)]
    return [*words, "--out", "run"]


def _show(page: dict[str, Any]) -> None:
    """Print what `look_at` returned as one page."""
    from pricekit.screen import show_table
    from pricekit.table.dialect import NAMES

    parted = page["delimiter"] and f"parted by {NAMES.get(page['delimiter'], repr(page['delimiter']))}"
    facts = [fact for fact in (page["format"], page["encoding"], parted) if fact]
    click.echo(f"{page['table']}: {page['rows']:,} rows; {', '.join(facts)}")
    headers = ["column", "kind", "filled", "distinct", "example", "used as"]
    show_table("", headers, [_row(column) for column in page["columns"]], stderr=False)
    show_table("", ["fact", "value"], _facts(page), stderr=False)
    for note in page["notes"]:
        click.echo(f"- {note}")
    for name, share in page.get("leaks", {}).items():
        click.echo(
            f"- The column '{name}' explains {share:.0%} of the log price alone, as one that gives it away does."
        )
    if "command" in page:
        click.echo(f"\nnext: {page['command']}")


def _row(column: dict[str, Any]) -> list[str]:
    shares = [f"{column[name]:.0%}" for name in ("filled", "distinct")]
    return [_short(column["name"]), column["kind"], *shares, _short(column["example"]), column["used_as"]]


def _facts(page: dict[str, Any]) -> list[list[str]]:
    text = page["text"]
    words = f"median {text['median_words']:,.0f}, 99% {text['words_99']:,.0f}, at most {text['most_words']:,}"
    rows = [["words of a text", words], ["rows without text", f"{text['empty']:,}"]]
    if "usable" not in page:
        return rows
    aside = ", ".join(f"{reason}: {count:,}" for reason, count in page["set_aside"].items())
    rows += [["rows to train on", f"{page['usable']:,}"], ["rows set aside", aside or "0"]]
    if "quantiles" not in page:
        return rows
    rows += [
        [f"price, {_NAMES.get(q) or f'{float(q):.4g} quantile'}", _amount(value)]
        for q, value in page["quantiles"].items()
    ]
    same = page["duplicates"]
    return [
        *rows,
        ["highest prices", "  ".join(map(_amount, page["highest"]))],
        ["different texts", f"{same['distinct_texts']:,}"],
        ["rows of equal text, other price", f"{same['rows_of_equal_text_and_other_price']:,}"],
        ["lowest SMAPE that these allow", f"{same['lowest_smape']:.2f}"],
    ]


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.4g}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
