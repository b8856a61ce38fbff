"""`pricekit features`."""

from __future__ import annotations

from typing import Any

import click

from pricekit.cli.completion import plugin_names
from pricekit.cli.options import TABLE, optional_table, table_options
from pricekit.cli.project import with_project
from pricekit.cli.terminal import begin, show_result
from pricekit.support.text import counted


@click.command
@optional_table
@click.option("--out", type=TABLE, required=True, help="Output file: CSV, TSV, Parquet or JSON lines.")
@click.option(
    "--features",
    default="optimized22",
    show_default=True,
    shell_complete=plugin_names("feature", several=True),
    help="Feature plugins, separated by commas.",
)
@table_options(price=False)
def features(**flags: Any) -> None:
    """Compute the features of every row of TABLE, fitted on all of its rows.

    \b
    pricekit features products.csv --features ultra25 --out features.parquet

    The features are what a model sees in addition to the text. Training fits them on the training rows only, and
    prediction uses that state.
    """
    flags = with_project(flags)
    begin(f"reading {flags['table']}", "pricekit.features.fit")
    import pricekit as pk

    frame = pk.compute_features(**flags)
    count = counted(frame.shape[1] - 1, "feature")
    show_result(f"{counted(len(frame), 'row')}, {count}: {flags['out']}", out=flags["out"])
