"""
A scikit-learn pipeline
=======================

``PriceRegressor`` in a pipeline, with a grid search over its loss.
"""

import pickle

import pandas as pd
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import pricekit as pk

# %%
# The pipeline
# ------------
#
# A step before the regressor cleans the texts. The regressor follows the contract of scikit-learn's estimators. To save
# time, it has no boosted trees, and does not train a second time on all rows.


def without_markup(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without HTML tags."""
    return rows.replace(r"<[^>]+>", " ", regex=True)


price = pk.PriceRegressor(epochs=4, features=["optimized22"], settings={"training.refit": False})
pipeline = Pipeline([("clean", FunctionTransformer(without_markup)), ("price", price)])

# %%
# The grid search
# ---------------
#
# It trains each loss on 70% of the rows and scores it on the others, then trains the better one on all rows. With
# ``cv=5`` the scores are more certain, and the search takes five times as long.

catalog = pk.make_catalog(500)
rows, prices = catalog[["catalog_content"]], catalog["price"]
grid = {"price__loss": ["smape", "log-l2"]}
split = ShuffleSplit(n_splits=1, test_size=0.3, random_state=0)
search = GridSearchCV(pipeline, grid, cv=split, scoring="neg_median_absolute_error")
search.fit(rows, prices)
print(f"best: {search.best_params_}, median error {-search.best_score_:.2f}")

# %%
# Pickle the best model
# ---------------------
#
# The pickled model contains its bundle, and needs no file.

copy = pickle.loads(pickle.dumps(search.best_estimator_))
print(copy.predict(rows[:3]).round(2))
