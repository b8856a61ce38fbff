"""`pricekit predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pricekit.cli.options import (
    FOLDER,
    TABLE,
    named_columns,
    read_options_of,
    split_names,
    table_options,
)
from pricekit.cli.terminal import begin, show_result


@click.command(short_help="Price the rows of a table with a run or a bundle.")
@click.argument("model", type=FOLDER)
@click.argument("table", type=TABLE)
@click.option(
    "--out",
    type=TABLE,
    required=True,
    help="CSV, TSV, Parquet or JSON lines file of ids and prices; one that is there is replaced.",
)
@click.option(
    "--engine", help="What runs a bundle: auto (the fastest here, the default) or one of plugins list."
)
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Also write price_low and price_high, which hold this share of true prices, such as 0.9.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with what an interrupted prediction into --out has priced."
)
@table_options(price=False)
def predict(
    model: Path,
    table: Path,
    out: Path,
    engine: str | None,
    interval: float | None,
    resume: bool,
    limit: int | None,
    **flags: Any,
) -> None:
    """Price every row of TABLE with MODEL, the folder of a run or of a bundle.

    \b
    pricekit predict bundle new.csv --out prices.csv

    TABLE may also be a folder of Parquet files, or a pattern in quotes, such as "new/*.csv".

    The output has one row for each row of the table, in its order, and appears when it is complete. What
    is priced until then is kept: after an interruption the same command with --resume goes on with it.
    Columns are those that the model was trained with, unless --text and --id name others.
    """
    begin(f"opening {model}", "pricekit.prediction.predictor")
    import time
    from dataclasses import replace

    from pricekit.runs.load import read_model
    from pricekit.table import check_columns
    from pricekit.text import counted

    reader = read_model(model, engine)
    columns = named_columns(reader.columns, flags)
    read_options = read_options_of(flags)
    check_columns(table, replace(columns, price=None), read_options)  # before engines are timed
    predictor = reader.open()
    started = time.perf_counter()
    rows = predictor.predict_file(
        table,
        out,
        text=split_names(flags["text"]) if flags["text"] else None,
        id=flags["id"],
        encoding=read_options.encoding,
        delimiter=read_options.delimiter,
        columns=read_options.names,
        limit=limit,
        interval=interval,
        resume=resume,
    )
    seconds = time.perf_counter() - started
    speed = "" if resume else f"{rows / seconds:,.0f} rows/s, "  # of what was priced before nobody knows it
    show_result(
        f"{counted(rows, 'row')} priced in {seconds:.1f} s ({speed}engine {predictor.engine}): {out}",
        rows=rows,
        seconds=seconds,
        engine=predictor.engine,
        out=str(out),
    )
