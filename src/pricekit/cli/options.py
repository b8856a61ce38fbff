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
        click.option("--config", "config_file", type=TABLE, help="TOML file of settings; flags go over it."),
        click.option(
            "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="One setting, e.g. loss.gamma=1.5."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def config_of(flags: dict[str, Any]) -> Any:
    """Return the configuration that the flags of `model_options` and `table_options` ask for."""
    from pricekit.config import parse_override, read_toml
    from pricekit.core.configure import configure

    file = read_toml(flags["config_file"]) if flags["config_file"] else {}
    return configure([file, flag_layer(flags), *map(parse_override, flags["overrides"])])


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
    if flags.get("quiet"):
        layer["speed"] = {"progress": False}
    columns = {"price": flags["price"], "id": flags["id_"], "text": split_names(flags["text"] or "")}
    if given := {key: value for key, value in columns.items() if value}:
        layer["columns"] = given
    return layer


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
