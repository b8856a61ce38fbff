"""`pricekit features`."""

from __future__ import annotations

from typing import Any

import click

from pricekit.cli.options import TABLE, model_argument, options_of, table_argument
from pricekit.cli.terminal import begin, show_result
from pricekit.io.storage import Address, location_of
from pricekit.options import OpenOptions, ReadingOptions
from pricekit.wording import counted


@click.command
@model_argument
@table_argument
@click.option("--out", type=TABLE, required=True, help="Output file: CSV, TSV, Parquet or JSON lines.")
@options_of(ReadingOptions)
@options_of(OpenOptions)
def features(out: str, **flags: Any) -> None:
    """Write the features of every row of TABLE, as MODEL reads them in addition to the text.

    \b
    pricekit features run products.csv --out features.parquet

    The file has the ids, and one column for each feature. The names of those of an ensemble begin with the number of
    the member.
    """
    begin(f"opening {flags['model']}", "pricekit.predict.predictor")
    from pathlib import Path

    from pricekit.cli.show import model_of
    from pricekit.table import check_output, write_frame

    table, target = location_of(flags["table"], "table"), location_of(out, "out")
    check_output(target, [table] if isinstance(table, Path | Address) else [])
    frame = model_of(flags).features(**flags)
    write_frame(target, frame)
    count = counted(frame.shape[1] - 1, "feature")
    show_result(f"{counted(len(frame), 'row')}, {count}: {out}", out=out)
