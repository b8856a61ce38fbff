"""
Text for LightGBM
=================

``PriceFeatures`` gives another model what texts say about prices. In a pipeline, each training row gets the values of a
model that has not seen its price, so the other model learns how far to trust them.
"""

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
