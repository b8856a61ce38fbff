"""
Text for LightGBM and AutoGluon
===============================

``PriceFeatures`` gives another model what texts say about prices. In a pipeline, each training row gets the values of a
model that has not seen its price, so the other model learns how far to trust them.
"""

import subprocess
import tempfile
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline

import pricekit as pk

# %%
# The table
# ---------
#
# Invented products, each with a text and a discount that only its own column names.

catalog = pk.make_catalog(900)
rows = catalog[["catalog_content"]].assign(
    discount=np.random.default_rng(0).choice([0, 0.2, 0.5], len(catalog))
)
prices = catalog["price"] * (1 - rows["discount"])
train, new = slice(600), slice(600, None)

# %%
# Two pipelines
# -------------
#
# Both give LightGBM the discount, and columns that are made of the text. ``PriceFeatures`` sees the prices themselves,
# LightGBM their logs. To save time, there are two folds, whose models have no boosted trees and do not train a second
# time on all rows.


def pipeline(text: object, column: str | list[str]) -> Pipeline:
    """Return LightGBM behind a transformer of the text."""
    columns = ColumnTransformer([("text", text, column), ("numbers", "passthrough", ["discount"])])
    trees = lightgbm.LGBMRegressor(
        n_estimators=150, learning_rate=0.05, min_child_samples=10, n_jobs=1, verbose=-1
    )
    on_logs = TransformedTargetRegressor(trees, func=np.log, inverse_func=np.exp)
    return Pipeline([("columns", columns), ("price", on_logs)])


features = pk.PriceFeatures(folds=2, vectors=8, features=["optimized22"], settings={"training.refit": False})
words = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), TruncatedSVD(50, random_state=0))
pipelines = {
    "50 dimensions of the words": pipeline(words, "catalog_content"),
    "PriceFeatures": pipeline(features, ["catalog_content"]),
}

# %%
# The gain
# --------
#
# The rows of the new products were not used. One seed and 300 rows show the direction, not the size, of the gain.

scores = {}
for name, model in pipelines.items():
    predicted = model.fit(rows[train], prices[train]).predict(rows[new])
    scores[name] = pk.smape(predicted, prices[new].to_numpy())
print(pd.Series(scores, name="SMAPE").round(2).to_string())

# %%
# AutoGluon
# ---------
#
# AutoGluon 1.6.3 needs an older pandas than pricekit, so it gets an environment of its own, and the columns in files:
#
# .. code-block:: bash
#
#    python -m venv peers
#    peers/bin/python -m pip install "autogluon.tabular[lightgbm]==1.6.3"
#
# Without this environment, the example ends here.

AUTOGLUON = Path("peers/bin/python")
PROGRAM = """
import sys
from autogluon.tabular import TabularPredictor
train, new, prices = sys.argv[1:]
predictor = TabularPredictor("log_of_price", path=f"{prices}-models", verbosity=0).fit(train, time_limit=60)
predictor.predict(new).to_frame().to_parquet(prices)
"""


def autogluon(columns: pd.DataFrame) -> np.ndarray:
    """Fit AutoGluon to columns of all rows; return the prices of the new rows."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{name}.parquet" for name in ("train", "new", "prices")]
        columns[train].assign(log_of_price=np.log(prices[train])).to_parquet(files[0])
        columns[new].to_parquet(files[1])
        subprocess.run([AUTOGLUON, "-c", PROGRAM, *files], check=True)
        return np.exp(pd.read_parquet(files[2])["log_of_price"].to_numpy())


if AUTOGLUON.exists():
    features.set_output(transform="pandas")
    texts = rows[["catalog_content"]]
    learned = [features.fit_transform(texts[train], prices[train]), features.transform(texts[new])]
    for name, columns in {"its own features": rows, "PriceFeatures": rows.join(pd.concat(learned))}.items():
        print(f"AutoGluon with {name}: {pk.smape(autogluon(columns), prices[new].to_numpy()):.2f}")
