"""
Why a product has its price
===========================

Factors of words, similar products, a picture, and a report for colleagues.
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

(reasons,) = run.explain(catalog[900:901])
print(f"{reasons.price:.2f} = {reasons.base:.2f}", end="")
for phrase in reasons.phrases()[:4]:
    print(f" × {phrase.factor:.2f} ({phrase.text})", end="")
print(" × …")

# %%
# Similar products
# ----------------
#
# What do the most similar products cost that we know? They need the same unit, and no model.

(beside,) = run.comparables(catalog[900:901], k=3, same=["unit"], among=catalog[:900])
for product in beside.products:
    print(f"{product.price:8.2f}  similarity {product.similarity:.2f}  {product.name}")
print("far from them" if beside.far else "not far from them")

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
    page = run.report(out=Path(folder) / "report.html")
    print(f"the report has {page.stat().st_size / 1000:.0f} kB; it needs no network")
