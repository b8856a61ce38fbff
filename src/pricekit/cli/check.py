"""`pricekit check`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.options import TABLE, read_flags, read_options_of, split_names, table_options
from pricekit.cli.terminal import begin
from pricekit.text import shorten

if TYPE_CHECKING:
    from pricekit.evaluation.table_report import TableReport

_NAMES = {"0": "lowest", "0.5": "median", "1": "highest"}


@click.command(short_help="Show how a table is read, and what to know before training on it.")
@click.argument("table", type=TABLE)
@table_options(price=True)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON on stdout.")
def check(table: Path, limit: int | None, as_json: bool, **flags: Any) -> None:
    """Show on one page how TABLE is read, and what to know of it before training: nothing is trained.

    \b
    pricekit check products.csv
    pricekit check shop.csv --text title,description --price eur

    Encoding, delimiter, columns, how prices are written, rows that would be set aside, outliers, duplicates, columns
    that give the price away, and the command to train with. Columns that no flag names are guessed.
    """
    begin(f"reading {table}", "pricekit.evaluation.table_report")
    from pricekit.evaluation.table_report import profile_table

    found = profile_table(
        table,
        text=split_names(flags["text"] or ""),
        price=flags["price"],
        id=flags["id"],
        read_options=read_options_of(flags),
        limit=limit,
    )
    page = found.to_dict()
    if found.trainable:
        page["command"] = shlex.join(_command(found))
    click.echo(json.dumps(page, ensure_ascii=False)) if as_json else _show(page)


def _command(report: TableReport) -> list[str]:
    from pricekit.table import Columns

    usual = Columns()
    words = ["pricekit", "train", report.table, *read_flags(report.read_options)]
    if report.text != usual.text:
        joined = ",".join(report.text)
        listed = f"columns.text={json.dumps(report.text, ensure_ascii=False)}"
        words += ["--text", joined] if split_names(joined) == list(report.text) else ["--set", listed]
    if report.price != usual.price:
        words += ["--price", str(report.price)]
    if report.id not in (None, usual.id):
        words += ["--id", str(report.id)]
    return [*words, "--out", "run"]


def _show(page: dict[str, Any]) -> None:
    """Print a `TableReport` as one page."""
    from pricekit.cli.terminal import show_table
    from pricekit.table.formats.dialect import NAMES

    parted = page["delimiter"] and f"{NAMES.get(page['delimiter'], repr(page['delimiter']))}-separated"
    facts = [fact for fact in (page["format"], page["encoding"], parted) if fact]
    click.echo(f"{page['table']}: {page['rows']:,} rows; {', '.join(facts)}")
    headers = ["column", "kind", "filled", "distinct", "example", "used as"]
    show_table("", headers, [_row(column) for column in page["columns"]], stderr=False)
    show_table("", ["fact", "value"], _facts(page), stderr=False)
    for note in page["notes"]:
        click.echo(f"- {note}")
    for name, share in page.get("leaks", {"columns": {}})["columns"].items():
        click.echo(
            f"- The column '{name}' explains {share:.0%} of the log price alone, as one that gives it away does."
        )
    if "command" in page:
        click.echo(f"\nnext: {page['command']}")


def _row(column: dict[str, Any]) -> list[str]:
    shares = [f"{column[name]:.0%}" for name in ("filled", "distinct")]
    return [shorten(column["name"]), column["kind"], *shares, shorten(column["example"]), column["used_as"]]


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
