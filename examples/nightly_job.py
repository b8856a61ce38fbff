"""
A nightly job
=============

Price the whole catalogue each night, continue after an interruption, and publish only complete and plausible prices of
rows that resemble those of the training.

The job runs the command ``pricekit predict`` and reads its exit code, so it also works from cron or a workflow engine.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

import pricekit as pk

TEMPORARY, INTERRUPTED = 4, 130
"""Exit codes of pricekit after which another attempt may succeed: a full disk or a lock; a signal."""


# %%
# Price with resume
# -----------------
#
# pricekit prices windows of 8,192 rows, and stores each one beside the output. With ``--resume``, an attempt continues
# after the last stored window, or starts if there is none. The other exit codes need a person: 1 is a table or a bundle
# that cannot be used, 2 a wrong option, 3 a plugin. A negative code is a signal that ended the command at once.


def price(bundle: Path, table: Path, out: Path, attempts: int = 3) -> None:
    """Write the prices of a table; raises RuntimeError if no attempt succeeds."""
    options = ["--out", out, "--resume", "--engine", "ort-cpu", "--interval", "0.9"]
    command = [sys.executable, "-m", "pricekit", "predict", bundle, table, *options]
    for attempt in range(1, attempts + 1):
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        print(f"attempt {attempt} ended with exit code {done.returncode}: {last[0]}")
        if done.returncode >= 0 and done.returncode not in (TEMPORARY, INTERRUPTED):
            break
    raise RuntimeError("there are no new prices")


# %%
# Look for drift
# --------------
#
# The bundle holds a sketch of its training table. A price is an extrapolation for rows that differ much from it. In a
# shell, ``pricekit drift BUNDLE TABLE --fail-over psi=0.2`` ends with the exit code 6.


def check_drift(bundle: Path, table: Path) -> None:
    """Raise RuntimeError if the rows differ much from those of the training."""
    found = pk.load(bundle, engine="ort-cpu").drift(table, fail_over={"psi": 0.2})
    if found.failures:
        raise RuntimeError("; ".join([*found.failures, *found.alarms[:1]]))


# %%
# Check and publish
# -----------------
#
# ``os.replace`` publishes in one step: who reads the file sees the old prices or the new ones, never half of them. This
# requires that both paths are on the same disk.


def check(prices: pd.DataFrame, rows: int) -> None:
    """Raise RuntimeError if prices are missing or implausible."""
    if len(prices) != rows:
        raise RuntimeError(f"{len(prices):,} prices for {rows:,} rows")
    if not prices["price"].between(0.01, 100_000).all():
        raise RuntimeError("a price is outside of 0.01 to 100,000")


def nightly(bundle: Path, table: Path, published: Path) -> None:
    """Price a table, and replace the published prices; they stay as they are if something is wrong."""
    staged = published.with_name(f"{published.stem}.new{published.suffix}")
    try:
        price(bundle, table, staged)
        check_drift(bundle, table)
        prices = pd.read_parquet(staged)
        check(prices, len(pd.read_parquet(table, columns=["sample_id"])))
        os.replace(staged, published)
        print(f"published {len(prices):,} prices; the median is {prices['price'].median():.2f}")
    except RuntimeError as error:
        print(f"not published, the prices of the last night stay: {error}")


# %%
# Four nights
# -----------
#
# In the first night, the table has two windows of rows. In the second one, somebody has renamed the column of texts. In
# the third one, somebody has changed ounces to grams without the numbers. In the fourth one, all is well again.

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    bundle, table, published = folder / "bundle", folder / "catalogue.parquet", folder / "prices.parquet"
    settings = {"training.refit": False}
    pk.train(pk.make_catalog(600), features="optimized22", epochs=4, settings=settings).export(bundle)

    catalog = pk.make_catalog(10_000, seed=1).drop(columns="price")
    catalog.to_parquet(table)
    nightly(bundle, table, published)

    catalog.rename(columns={"catalog_content": "description"}).to_parquet(table)
    nightly(bundle, table, published)

    texts = catalog["catalog_content"].str.replace("Ounce", "Gram")
    catalog.assign(catalog_content=texts).to_parquet(table)
    nightly(bundle, table, published)

    catalog[:9000].to_parquet(table)
    nightly(bundle, table, published)
