"""`pricekit check`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.common import call, read_flags
from pricekit.cli.options import (
    TABLE,
    flag,
    json_option,
    optional_table,
    options_of,
    split_names,
)
from pricekit.cli.project import PROJECT_FILE, with_project
from pricekit.cli.terminal import begin, show_data, show_result, show_table
from pricekit.options import PricedOptions
from pricekit.wording import shorten

if TYPE_CHECKING:
    from pricekit.evaluation.table_report import TableReport

_NAMES = {"0": "lowest", "0.5": "median", "1": "highest"}


@click.command
@optional_table
@options_of(PricedOptions)
@json_option("Print the report as JSON on stdout.")
@click.option(
    "--write",
    type=TABLE,
    help="Also write the table and its columns into a project file (pricekit.toml).",
)
@flag("--overwrite", "Replace a table and columns that the file in --write already names.")
def check(as_json: bool, write: str | None, overwrite: bool, **flags: Any) -> None:
    """Show how pricekit reads TABLE and which problems it has, without training.

    \b
    pricekit check products.csv
    pricekit check shop.csv --text title,description --price eur
    pricekit check shop.csv --write pricekit.toml

    The report covers encoding, delimiter, columns, price format, unusable rows, outliers, duplicates and columns that
    leak the price. It ends with the command for training. pricekit guesses the columns that you do not name.
    """
    flags = with_project(flags)
    begin(f"reading {flags['table']}", "pricekit.evaluation.table_report")
    import pricekit as pk

    if write is not None:
        from pricekit.config.project import read_existing

        read_existing(Path(write))  # an invalid file stops the command before it reads the table
    report = call(pk.check, flags)
    if write is not None:
        report.write(write, overwrite=overwrite)
        path, usual = Path(write), str(PROJECT_FILE)
        hint = "" if path.name == usual else f"; commands read it as {usual} in the current folder"
        show_result(f"the project file is {path}{hint}", project=str(path))
    page = report.to_dict()
    if report.trainable:
        page["command"] = shlex.join(_command(report))
    show_data(json.dumps(page, ensure_ascii=False)) if as_json else _show(page, report)


def _command(report: TableReport) -> list[str]:
    """Return the command that trains on the table, with the options that read it in the same way."""
    from pricekit.table import Columns

    usual = Columns()
    words = ["pricekit", "train", report.table, *read_flags(report.train_arguments)]
    if report.text != usual.text:
        joined = ",".join(report.text)
        listed = f"columns.text={json.dumps(report.text, ensure_ascii=False)}"
        words += ["--text", joined] if split_names([joined]) == list(report.text) else ["--set", listed]
    if report.price != usual.price:
        words += ["--price", str(report.price)]
    if report.id not in (None, usual.id):
        words += ["--id", str(report.id)]
    return [*words, "--out", "run"]


def _show(page: dict[str, Any], report: TableReport) -> None:
    """Print a `TableReport` as one page."""
    from pricekit.table.delimited import NAMES

    separated = page["delimiter"] and f"{NAMES.get(page['delimiter'], repr(page['delimiter']))}-separated"
    facts = [fact for fact in (page["format"], page["encoding"], separated) if fact]
    show_data(f"{page['table']}: {page['rows']:,} rows; {', '.join(facts)}")
    headers = ["column", "kind", "filled", "distinct", "example", "used as"]
    shown = {column.name for column in report.shown}
    rows = [_row(column, report.text) for column in page["columns"] if column["name"] in shown]
    show_table("", headers, rows, stderr=False)
    if more := len(page["columns"]) - len(shown):
        show_data(f"and {more:,} more columns; --json lists all of them")
    if page["yields"]:
        read = [[shorten(name) or "(text)", contents] for name, contents in page["yields"].items()]
        show_table("", ["part of the text", "the features columns and trees read"], read, stderr=False)
    show_table("", ["fact", "value"], _facts(page), stderr=False)
    for name, reason in page["left_out"].items():
        if name in shown:
            show_data(f"- Left out: {shorten(name)} ({reason}).")
    for note in page["notes"]:
        show_data(f"- {note}")
    if "command" in page:
        show_data(f"\nnext: {page['command']}")


def _row(column: dict[str, Any], text: tuple[str, ...]) -> list[str]:
    role = column["used_as"]
    order = f" {text.index(column['name']) + 1}" if role == "text" and len(text) > 1 else ""
    shares = [f"{column[name]:.0%}" for name in ("filled", "distinct")]
    return [shorten(column["name"]), column["kind"], *shares, shorten(column["example"]), role + order]


def _facts(page: dict[str, Any]) -> list[list[str]]:
    text = page["text"]
    words = f"median {text['median_words']:,.0f}, 99% {text['words_99']:,.0f}, at most {text['most_words']:,}"
    rows = [["words per text", words], ["rows without text", f"{text['empty']:,}"]]
    if "usable" not in page:
        return rows
    aside = ", ".join(f"{reason}: {count:,}" for reason, count in page["set_aside"].items())
    rows += [["rows to train on", f"{page['usable']:,}"], ["unusable rows", aside or "0"]]
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
        ["rows with equal text, different price", f"{same['rows_of_equal_text_and_other_price']:,}"],
        ["lowest SMAPE possible with these", f"{same['lowest_smape']:.2f}"],
    ]


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.4g}"
