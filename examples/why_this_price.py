"""
Why a product has its price
===========================

Factors of words, a picture, and a report for colleagues.
"""

import tempfile
from pathlib import Path

import pricekit as pk
from pricekit import plots

catalog = pk.make_catalog(1000)
run = pk.train(catalog[:900], epochs=6, features=["optimized22", "columns"])

# %%
# The factors of a price
# ----------------------
#
# The price is the base times all factors, exactly. Here are the four most important ones of a product.

(reasons,) = run.load().explain(catalog[900:901])
print(f"{reasons.price:.2f} = {reasons.base:.2f}", end="")
for phrase in reasons.phrases()[:4]:
    print(f" × {phrase.factor:.2f} ({phrase.text})", end="")
print(" × …")

# %%
# A picture of all prices
# -----------------------

picture = plots.PredictionDisplay.from_model(run)
print(f"{picture.within:.0f}% of the held-out rows are within a factor of 2")

# %%
# A report
# --------
#
# One HTML page says how good the prices are, where they fail, and why.

with tempfile.TemporaryDirectory() as folder:
    picture.figure_.savefig(Path(folder) / "prices.svg")
    page = pk.report(run, out=Path(folder) / "report.html")
    print(f"the report has {page.stat().st_size / 1000:.0f} kB; it needs no network")
