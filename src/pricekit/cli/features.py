"""`pricekit features`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pricekit.cli.options import TABLE, named_columns, read_options_of, split_names, table_options
from pricekit.cli.terminal import begin, show_result


@click.command(short_help="Compute the engineered features of a table.")
@click.argument("table", type=TABLE)
@click.option("--out", type=TABLE, required=True, help="CSV, TSV, Parquet or JSON lines file.")
@click.option(
    "--features",
    "names",
    default="optimized22",
    show_default=True,
    help="Feature plugins, separated by commas.",
)
@table_options(price=False)
def features(
    table: Path,
    out: Path,
    names: str,
    limit: int | None,
    **flags: Any,
) -> None:
    """Compute the features of every row of TABLE, fitted on all of its rows.

    \b
    pricekit features products.csv --features ultra25 --out features.parquet

    For a look at what a model sees beside the text. In training they are fitted on the training rows
    only, and prediction uses that state.
    """
    begin(f"reading {table}", "pricekit.features.fitted")
    import pandas as pd

    from pricekit.features.fitted import fit_features
    from pricekit.log import logger
    from pricekit.table import Columns, check_output, read_table, write_frame
    from pricekit.text import counted

    check_output(out, [table])
    columns = named_columns(Columns(price=None), flags)
    rows = read_table(
        table, columns, limit=limit, read_options=read_options_of(flags), notices=logger.warning
    )
    fitted, _ = fit_features(split_names(names), {}, rows)
    computed = pd.DataFrame(fitted.transform(rows), columns=fitted.names)
    write_frame(out, pd.concat([rows.ids, computed], axis=1))
    show_result(f"{counted(len(rows), 'row')}, {counted(len(fitted.names), 'feature')}: {out}")
