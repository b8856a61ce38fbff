"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pricekit.table import Columns, ReadOptions

TABLE = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path)


epochs_option = click.option(
    "--epochs",
    type=lambda given: (
        int(given) if given.isdecimal() else given
    ),  # the configuration says what is wrong with it
    metavar="N",
    help="Passes over the rows at most, or auto: more for small tables.",
)


def table_options(*, price: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --text, --id, --limit and the options for reading, and where prices are read, --price."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [
            click.option(
                "--text",
                metavar="COLS",
                help="Text columns, separated by commas; several become labelled lines.",
            ),
            click.option(
                "--id",
                "id",
                metavar="COL",
                help="Column that names a row.  [default: sample_id, or row numbers]",
            ),
            *_read_option_flags(price=price),
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


READ_OPTIONS = ("encoding", "delimiter", "columns", "decimal", "currency")
"""The parameters of `table_options` that say how a file is read."""


def _read_option_flags(*, price: bool) -> list[Callable[..., Any]]:
    options = [
        click.option(
            "--encoding", metavar="E", help="Encoding of a text file.  [default: found in the file]"
        ),
        click.option(
            "--delimiter",
            metavar="D",
            help="Between the fields, such as ';' or tab.  [default: found in the file]",
        ),
        click.option(
            "--columns",
            "columns",
            metavar="NAMES",
            help="Names of all columns of a file that has no header, separated by commas.",
        ),
    ]
    if price:
        options += [
            click.option(
                "--decimal", metavar="MARK", help="Decimal mark of prices: '.' or ','.  [default: found]"
            ),
            click.option("--currency", metavar="C", help="Use only prices in this one, such as EUR or €."),
        ]
    return options


def read_options_of(flags: dict[str, Any]) -> ReadOptions:
    """Return how a file is read from the flags of `table_options`."""
    from pricekit.table import ReadOptions

    given = {name: flags.get(name) for name in READ_OPTIONS if name != "columns"}
    return ReadOptions(names=tuple(split_names(flags["columns"] or "")), **given)


def read_flags(read_options: ReadOptions) -> list[str]:
    """Return the flags that give this reading again."""
    names = ",".join(read_options.names) or None
    given = {
        "--encoding": read_options.encoding,
        "--delimiter": "tab" if read_options.delimiter == "\t" else read_options.delimiter,
        "--columns": names,
        "--decimal": read_options.decimal,
        "--currency": read_options.currency,
    }
    return [word for flag, value in given.items() if value for word in (flag, value)]


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what chooses the model and its settings; `config_of` reads them."""
    options = [
        click.option(
            "--policy", metavar="P", help="How to train; brings defaults for all below.  [default: quick]"
        ),
        click.option("--backbone", metavar="B", help="Tokenizer and encoder."),
        click.option("--features", metavar="F", help="Feature plugins, separated by commas."),
        click.option(
            "--weights", metavar="DIR", help="Pretrained weights of the backbone: a folder or a hub id."
        ),
        click.option(
            "--random-weights",
            is_flag=True,
            help="The backbone's true architecture without a download, for benchmarks.",
        ),
        click.option("--loss", metavar="L", help="Training objective."),
        click.option("--max-length", type=int, metavar="N", help="Tokens of a text; what is longer is cut."),
        click.option("--seed", type=int, metavar="N", help="Makes split, weights and order.  [default: 0]"),
        click.option("--config", "config", type=TABLE, help="TOML file of settings; flags go over it."),
        click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting, e.g. loss.gamma=1.5."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def config_of(flags: dict[str, Any], *below: dict[str, Any]) -> Any:
    """Return the configuration that the flags of `model_options` and `table_options` ask for, over those `below`."""
    from pricekit.config import parse_override, read_toml
    from pricekit.config.resolve import configure

    file = read_toml(flags["config"]) if flags["config"] else {}
    return configure([*below, file, flag_layer(flags), *map(parse_override, flags["settings"])])


def flag_layer(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that flags name, as a layer of the configuration."""
    layer: dict[str, Any] = {
        kind: {"name": flags[kind]} for kind in ("policy", "backbone", "loss") if flags[kind] is not None
    }
    layer |= {key: flags[key] for key in ("max_length", "seed", "limit") if flags[key] is not None}
    if flags["features"] is not None:
        layer["features"] = split_names(flags["features"])
    pretrained = {"weights": flags["weights"], "random_weights": flags["random_weights"] or None}
    if given := {key: value for key, value in pretrained.items() if value is not None}:
        layer["backbone"] = layer.get("backbone", {}) | given
    if given := {key: flags[key] for key in ("epochs", "time_budget") if flags.get(key) is not None}:
        layer["training"] = given
    columns = {"price": flags["price"], "id": flags["id"], "text": split_names(flags["text"] or "")}
    if given := {key: value for key, value in columns.items() if value}:
        layer["columns"] = given
    return layer


def split_names(text: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def named_columns(columns: Columns, flags: dict[str, Any]) -> Columns:
    """Override the columns that a model was trained with by --text, --price and --id."""
    if flags["text"]:
        columns = replace(columns, text=tuple(split_names(flags["text"])))
    if flags.get("price"):
        columns = replace(columns, price=flags["price"])
    if flags["id"]:
        columns = replace(columns, id=flags["id"], id_required=True)
    return columns
