"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pricekit.table import Columns

TABLE = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path)


def table_options(*, price: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --text, --id, --encoding and --limit, and --price where it is read."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [
            click.option(
                "--text",
                metavar="COLS",
                help="Text columns, separated by commas; several become labelled lines.",
            ),
            click.option(
                "--id",
                "id_",
                metavar="COL",
                help="Column that names a row.  [default: sample_id, or row numbers]",
            ),
            click.option(
                "--encoding",
                default="utf-8",
                show_default=True,
                help="Encoding of a CSV, TSV or JSON lines file.",
            ),
            click.option(
                "--limit", type=click.IntRange(min=1), metavar="N", help="Read only the first N rows."
            ),
        ]
        if price:
            options.insert(
                1, click.option("--price", metavar="COL", help="Column of known prices.  [default: price]")
            )
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def split_names(text: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def named_columns(columns: Columns, text: str | None, price: str | None, id_: str | None) -> Columns:
    """Lay the flags over the columns that a model was trained with."""
    if text:
        columns = replace(columns, text=tuple(split_names(text)))
    if price:
        columns = replace(columns, price=price)
    if id_:
        columns = replace(columns, id=id_, id_required=True)
    return columns
