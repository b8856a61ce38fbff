"""`PriceRegressor` in a scikit-learn pipeline, with a grid search over its loss.

python examples/sklearn_pipeline.py
"""

import argparse
import pickle

import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import pricekit as pk


def without_markup(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without HTML tags."""
    return rows.replace(r"<[^>]+>", " ", regex=True)


def main(epochs: int = 5) -> None:
    """Find the better loss, and pickle the best model."""
    catalog = pk.make_catalog(600)
    rows, prices = catalog[["catalog_content"]], catalog["price"]

    pipeline = Pipeline(
        [("clean", FunctionTransformer(without_markup)), ("price", pk.PriceRegressor(epochs=epochs))]
    )
    grid = {"price__loss": ["smape", "focal-smape"]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_median_absolute_error")
    search.fit(rows, prices)
    print(f"best: {search.best_params_}, median error {-search.best_score_:.2f}")

    copy = pickle.loads(pickle.dumps(search.best_estimator_))  # contains the bundle; needs no file
    print(copy.predict(rows[:3]).round(2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    main(parser.parse_args().epochs)
