"""
A feature of your own
=====================

A column of dates says how long a product has been on sale. This script turns it into a number that the model reads.

It is also a plugin file: ``pricekit plugins check examples/own_feature.py`` checks the feature, and
``pricekit train products.csv --plugin examples/own_feature.py --features optimized22,days-on-sale`` trains with it.
"""

import sys

import numpy as np
import pandas as pd

import pricekit as pk

# %%
# The feature
# -----------
#
# ``fit`` sees the training rows, and returns what it learns as plain JSON values. ``transform`` gets these values with
# each table that is priced. It must return finite numbers, also for rows without a date. pricekit refuses a table
# without the column, which the feature declares in ``columns``.


@pk.plugin.feature("days-on-sale")
class DaysOnSale(pk.plugin.Feature):
    """days from the launch of a product to the newest launch of the training rows"""

    names = ("days_on_sale",)
    columns = ("launched",)

    def fit(self, table):
        """Learn the day from which the days are counted, and the usual number of days."""
        launched = self._dates(table)
        newest = launched.max() if launched.notna().any() else pd.Timestamp("2026-01-01")
        days = (newest - launched).dt.days
        return {"newest": newest.isoformat(), "usual": float(days.median()) if days.notna().any() else 0.0}

    def transform(self, table, state):
        """Return the days, float32 (N, 1); the usual number of days for rows without a date."""
        days = (pd.Timestamp(state["newest"]) - self._dates(table)).dt.days
        return days.fillna(state["usual"]).to_numpy(np.float32)[:, None]

    def _dates(self, table):
        return pd.to_datetime(table.frame["launched"].astype("str"), format="%Y-%m-%d", errors="coerce")


# %%
# Train with and without it
# -------------------------
#
# The catalogue gets dates, and its products lose 30% of their price per year. ``use_plugins`` loads this file as a
# plugin, which imports it a second time. The condition keeps that import from training, too.

if __name__ == "__main__":
    pk.use_plugins(sys.argv[0])  # this file

    catalog = pk.make_catalog(800)
    days = np.random.default_rng(0).integers(0, 1500, len(catalog))
    catalog["launched"] = (pd.Timestamp("2026-06-30") - pd.to_timedelta(days, "D")).strftime("%Y-%m-%d")
    catalog["price"] = (catalog["price"] * 0.7 ** (days / 365)).round(2).clip(lower=0.01)

    for features in (["optimized22"], ["optimized22", "days-on-sale"]):
        run = pk.train(catalog, features=features, epochs=6, settings={"training.refit": False})
        print(f"{' + '.join(features)}: SMAPE {run.metrics['smape']:.1f}% on held-out rows")

    old, new = catalog[:1].assign(launched="2023-01-01"), catalog[:1].assign(launched="2026-06-01")
    before, after = run.predict(pd.concat([old, new]))
    print(
        f"The same product costs {before:.2f} if launched in January 2023, and {after:.2f} if in June 2026."
    )
