"""
First prices
============

Train on a DataFrame, score the model, predict with intervals, and export it.
"""

import tempfile
from pathlib import Path

import pricekit as pk

# %%
# Train
# -----
#
# ``make_catalog`` invents products. By default, pricekit reads the columns ``sample_id``, ``catalog_content`` and
# ``price``. Training holds out 15% of the rows to measure how good the prices of unknown products are.

catalog = pk.make_catalog(1000)
known, new = catalog[:900], catalog[900:]

run = pk.train(known, epochs=6)
print(f"SMAPE of the held-out rows: {run.metrics['smape']:.1f}%")

# %%
# Score other rows
# ----------------
#
# These products are new to the model, too.

print(f"SMAPE of new products: {run.evaluate(new).metrics['smape']:.1f}%")

# %%
# Export and predict
# ------------------
#
# A bundle predicts with ONNX Runtime, without torch. The interval contains the true price of nine in ten products.

with tempfile.TemporaryDirectory() as folder:
    bundle = Path(folder) / "bundle"
    run.export(bundle)
    model = pk.load(bundle)
    prices = model.predict(new, interval=0.9)
print(prices.head().round(2))
