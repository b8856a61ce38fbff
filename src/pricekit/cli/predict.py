"""`pricekit predict`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from pricekit.cli.common import ask_model
from pricekit.cli.options import FOLDER, TABLE, optional_table, options_of
from pricekit.cli.project import latest_bundle
from pricekit.cli.terminal import begin, show_result
from pricekit.io.record import state_of
from pricekit.options import OpenOptions, PredictOptions
from pricekit.wording import counted


@click.command
@click.argument("model", type=FOLDER, required=False)
@optional_table
@click.option(
    "--out",
    type=TABLE,
    required=True,
    help="Output file of ids and prices: CSV, TSV, Parquet or JSON lines, also at an address such as s3://shop/x.csv; "
    ".csv.gz, .bz2, .xz, .zst or .zip compresses it. An existing file is replaced. - is CSV on standard output, "
    "-.jsonl JSON lines. Or a folder, for one output file per input file. Or a table such as "
    "sqlite:///prices.db?table=prices, with the package pricekit-sql: rows are found by their ids.",
)
@options_of(PredictOptions)
@options_of(OpenOptions)
def predict(**flags: Any) -> None:
    """Predict the price of every row of TABLE with MODEL, the folder of a run or a bundle.

    \b
    pricekit predict bundle new.csv --out prices.csv
    pricekit predict new.csv --out prices.csv          the latest bundle in bundles/
    pricekit predict bundle "new/*.csv" --out prices   one file in prices/ for each one in new/

    TABLE can also be a folder of Parquet files or a quoted pattern such as "new/*.csv", each also at an address such as
    s3://shop/new; or - for standard input, which is JSON lines if it begins with {, otherwise CSV, compressed or not.
    If --out is a folder, each file gets a file of the same name there, with .csv after formats that are only read, such
    as new.xlsx.csv; files that fail are listed at the end, and the others are priced.

    With --within 1.5, the column release says which prices may go out without a person: of these, the true price is
    within a factor of 1.5 for the share --confidence. If no price is sure enough, a warning says so.

    The output has one row per input row, in the same order. The file appears when it is complete. After an
    interruption, rerun with --resume to continue, if the output is remote on the same machine. The command reads the
    columns that the model was trained with, unless --text or --id names others.
    """
    if flags["table"] is None:  # a single argument is the table
        flags["model"], flags["table"] = None, flags["model"]
    if flags["table"] is None or (flags["model"] is None and _is_model(flags["table"])):
        raise click.UsageError("Missing argument 'TABLE': the table of rows to price.")
    flags["model"] = flags["model"] or latest_bundle()
    begin(f"opening {flags['model']}", "pricekit.predict.predictor")
    started = time.perf_counter()
    rows: int = ask_model("predict_file", flags)
    seconds = time.perf_counter() - started
    show_result(
        f"{counted(rows, 'row')} priced in {seconds:.1f} s: {flags['out']}",
        rows=rows,
        seconds=seconds,
        out=flags["out"],
    )


def _is_model(path: str) -> bool:
    return state_of(Path(path)).kind != ""  # no local folder has the name of an address
