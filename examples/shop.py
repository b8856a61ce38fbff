"""
A shop with several columns
===========================

Check the table of a shop, train on its titles, brands and sizes, look at the largest errors, and price a file.
"""

import tempfile
from pathlib import Path

import pandas as pd

import pricekit as pk

# %%
# The table
# ---------
#
# This shop writes its prices as text, with a decimal comma and a currency.

catalog = pk.make_catalog(1000)
names = catalog["catalog_content"].str.extract(r"Item Name: ([^\n]*)")[0].fillna("")
shop = pd.DataFrame(
    {
        "sku": [f"S{number:05}" for number in range(len(catalog))],
        "title": names,
        "brand": names.str.split().str[0],
        "size": catalog["catalog_content"].str.extract(r"Value: ([\d.]+)")[0],
        "eur": [f"{price:.2f} €".replace(".", ",") for price in catalog["price"]],
    }
)
print(shop.head(3).to_string())

# %%
# Check
# -----
#
# ``check`` says how pricekit reads the table, without training.

columns = {"text": ["title", "brand", "size"], "price": "eur", "id": "sku"}
report = pk.check(shop, **columns)
print(f"{report.usable} of {report.rows} rows can be used")
print(*report.notes, sep="\n")

# %%
# Train
# -----
#
# The columns become labelled lines of one text. ``decimal`` and ``currency`` say what ``check`` has found. The feature
# ``columns`` reads numbers and sizes in any column; by default, there are boosted trees, too, which take longer.

features = ["optimized22", "columns"]
run = pk.train(shop[:800], epochs=6, features=features, decimal=",", currency="EUR", **columns)
print(f"SMAPE of the held-out rows: {run.metrics['smape']:.1f}%")

# %%
# The largest errors
# ------------------
#
# Often they show a problem of the table, such as a wrong price or a missing unit.

print(run.evaluate(worst=3).worst[["id", "error", "price", "predicted"]].round(2))

# %%
# Price a file
# ------------
#
# The file of prices appears when it is complete.

with tempfile.TemporaryDirectory() as folder:
    new, prices = Path(folder) / "new.csv", Path(folder) / "prices.csv"
    shop[800:].drop(columns="eur").to_csv(new, index=False)
    count = run.predict_file(new, prices, interval=0.9)
    print(f"{count} prices, the first lines of the file:", *prices.read_text().splitlines()[:3], sep="\n")
