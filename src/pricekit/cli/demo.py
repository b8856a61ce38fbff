"""`pricekit demo`."""

from __future__ import annotations

from pathlib import Path

import click

from pricekit.cli.options import FOLDER
from pricekit.cli.terminal import show_result, show_table
from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.io.record import Record, state_of, write_record

HELD_OUT = 500
SHOWN = 8
TRAINING: tuple[str, ...] = ()
"""Extra options of the demo's training; tests set them to make it smaller."""


@click.command
@click.option("--out", type=FOLDER, default="pricekit-demo", show_default=True, help="Folder for all files.")
@click.option(
    "--rows",
    type=click.IntRange(min=1000),
    default=2000,
    show_default=True,
    help="Number of generated products.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Random seed of the catalogue and the model.",
)
def demo(out: str, rows: int, seed: int) -> None:
    """Generate a catalogue, train on it, export the model, and price products that it has not seen.

    The demo needs no network, no GPU and no data. Each step prints its command.
    """
    from pricekit.cli.main import run_command

    folder = Path(out)
    if (state := state_of(folder)).name != "absent" and state.kind != "demo":
        raise DataError(
            f"{folder} contains files that are not from a demo; choose a new folder", parameters=("out",)
        )
    table, held_out = _make_tables(folder, rows, seed)
    run, bundle, prices = folder / "run", folder / "bundle", folder / "prices.csv"
    run_command("train", str(table), "--out", str(run), "--seed", str(seed), "--overwrite", *TRAINING)
    run_command("export", str(run), "--out", str(bundle), "--overwrite")
    run_command("predict", str(bundle), str(held_out), "--out", str(prices))
    _show_products(held_out, prices)
    show_result(f"everything is in {out}; next, with your own table: pricekit train TABLE")


def _make_tables(out: Path, rows: int, seed: int) -> tuple[Path, Path]:
    from pricekit.datasets import make_catalog

    out.mkdir(parents=True, exist_ok=True)
    write_record(out, Record("demo", "finished"))
    catalog = make_catalog(rows + HELD_OUT, seed)
    paths = out / "products.csv", out / "new.csv"
    catalog.head(rows).to_csv(paths[0], index=False)
    catalog.tail(HELD_OUT).to_csv(paths[1], index=False)
    logger.info(f"{rows:,} generated products with prices: {paths[0]}; {HELD_OUT} more to price: {paths[1]}")
    return paths


def _show_products(held_out: Path, prices: Path) -> None:
    import pandas as pd

    from pricekit.metrics import smape

    known, predicted = pd.read_csv(held_out), pd.read_csv(prices)["price"]
    rows = known.assign(predicted=predicted).sample(SHOWN, random_state=0).sort_values("price")
    title = f"SMAPE of the {HELD_OUT} new products: {smape(predicted, known['price']):.1f}"
    cells = [
        [
            str(row.catalog_content).splitlines()[0].removeprefix("Item Name:").strip()[:70],
            f"{row.price:,.2f}",
            f"{row.predicted:,.2f}",
        ]
        for row in rows.itertuples()
    ]
    show_table(title, ["product", "true price", "predicted"], cells)
