"""`pricekit demo`."""

from __future__ import annotations

from pathlib import Path

import click

from pricekit.cli.options import FOLDER

HELD_OUT = 500
SHOWN = 8
_MARK = ".pricekit-demo"
"""The file that tells a folder of the demo, which may be replaced, from one with files of the same names."""
TRAINING: tuple[str, ...] = ()
"""Settings of the demo's training beside the policy's; tests make it smaller."""


@click.command(short_help="Make a catalogue, train, export and predict: the whole path.")
@click.option(
    "--out", type=FOLDER, default="pricekit-demo", show_default=True, help="Folder for all that it makes."
)
@click.option(
    "--rows", type=click.IntRange(min=1000), default=4000, show_default=True, help="Invented products."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Makes the catalogue and the model.",
)
def demo(out: Path, rows: int, seed: int) -> None:
    """Make a catalogue of invented products, train on it, export, and price products it has not seen.

    No network, no GPU, no data of yours. Each step prints the command that does the same.
    """
    from pricekit.cli.main import run_command
    from pricekit.log import logger

    _check_folder(out)
    table, held_out = _make_tables(out, rows, seed)
    run, bundle, prices = out / "run", out / "bundle", out / "prices.csv"
    run_command("train", str(table), "--out", str(run), "--seed", str(seed), "--overwrite", *TRAINING)
    run_command("export", str(run), "--out", str(bundle), "--overwrite")
    run_command("predict", str(bundle), str(held_out), "--out", str(prices))
    _show_products(held_out, prices)
    logger.info(f"everything is in {out}; now with a table of yours: pricekit train TABLE --out RUN")


def _check_folder(out: Path) -> None:
    from pricekit.errors import DataError
    from pricekit.files import is_free

    if not is_free(out) and not (out / _MARK).is_file():
        raise DataError(f"{out} holds something else than a demo; name a new folder with --out")


def _make_tables(out: Path, rows: int, seed: int) -> tuple[Path, Path]:
    from pricekit.datasets import make_catalog
    from pricekit.log import logger

    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()
    catalog = make_catalog(rows + HELD_OUT, seed)
    paths = out / "products.csv", out / "new.csv"
    catalog.head(rows).to_csv(paths[0], index=False)
    catalog.tail(HELD_OUT).to_csv(paths[1], index=False)
    logger.info(
        f"{rows:,} invented products with prices: {paths[0]}; {HELD_OUT} more, to be priced: {paths[1]}"
    )
    return paths


def _show_products(held_out: Path, prices: Path) -> None:
    import pandas as pd

    from pricekit.cli.terminal import show_table
    from pricekit.metrics import smape

    known, found = pd.read_csv(held_out), pd.read_csv(prices)
    rows = known.assign(found=found["price"]).sample(SHOWN, random_state=0).sort_values("price")
    title = f"SMAPE of the {HELD_OUT} new products: {smape(found['price'], known['price']):.1f}"
    cells = [[_name(str(r.catalog_content)), f"{r.price:,.2f}", f"{r.found:,.2f}"] for r in rows.itertuples()]
    show_table(title, ["product", "true price", "predicted"], cells)


def _name(text: str) -> str:
    return text.splitlines()[0].removeprefix("Item Name:").strip()[:70]
