"""Feature `lightgbm`: the log price that boosted trees predict from words and quantities."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import lightgbm
import numpy as np
from pydantic import Field
from scipy.sparse import csr_matrix, hstack

from pricekit.plugin import Feature, Optimized22, Section, State, Table
from pricekit_lightgbm.words import count_words, most_common, split_words

LEAF_ROWS = 20
"""Minimum number of rows per leaf. A word in fewer rows cannot be used for a split."""

THREADS = 1
"""More threads are slower for small tables and single rows, and far slower on a busy machine."""

CATALOG = Optimized22()


class LightGbm(Feature):
    """The log price that gradient-boosted trees predict (Ke et al. 2017, LightGBM).

    The inputs of the trees are the counts of the most common words and the columns of `optimized22`, which describe the
    quantity; the loss is least squares on the log price. The state is plain text: the words, the state of
    `optimized22`, and the trees in LightGBM's text format.
    """

    names = ("lightgbm_log_price",)
    uses_price = True
    parallel = True
    log_price = "lightgbm_log_price"

    class Options(Section):
        """Options of `lightgbm`."""

        rounds: int = Field(200, ge=1, description="number of trees")
        leaves: int = Field(31, ge=2, le=1 << 16, description="maximum number of leaves per tree")
        learning_rate: float = Field(0.05, gt=0, le=1, description="shrinkage of each tree")
        words: int = Field(
            4096, ge=0, description=f"maximum number of words; a word must occur in at least {LEAF_ROWS} rows"
        )

    def __init__(self, options: Options) -> None:
        self.options = options

    def fit(self, table: Table, price: np.ndarray) -> State:  # type: ignore[override]
        """Fit the trees to N rows with prices, float64 (N,)."""
        state: State = {
            "words": most_common(split_words(table.text), self.options.words, LEAF_ROWS),
            "catalog": CATALOG.fit(table),
        }
        parameters = self._parameters()
        rows = lightgbm.Dataset(_matrix(table, state), np.log(price), params=parameters)
        trees = lightgbm.train(parameters, rows, num_boost_round=self.options.rounds)
        return state | {"trees": trees.model_to_string()}

    def transform(self, table: Table, state: State) -> np.ndarray:
        """Return the predicted log price, float32 (N, 1)."""
        found = _open(state["trees"]).predict(_matrix(table, state), num_threads=THREADS)
        return np.asarray(found, np.float32).reshape(-1, 1)

    def _parameters(self) -> dict[str, Any]:
        return {
            "objective": "regression",
            "learning_rate": self.options.learning_rate,
            "num_leaves": self.options.leaves,
            "min_data_in_leaf": LEAF_ROWS,
            "num_threads": THREADS,
            "deterministic": True,
            "force_col_wise": True,  # otherwise LightGBM chooses the layout by timing, and sums differ
            "seed": 0,
            "verbosity": -1,
        }


def _matrix(table: Table, state: State) -> csr_matrix:
    """Return the inputs of the trees, float32 (N, V + 22)."""
    words = count_words(split_words(table.text), state["words"])
    return hstack([words, csr_matrix(CATALOG.transform(table, state["catalog"]))], format="csr")


@lru_cache(maxsize=2)
def _open(trees: str) -> lightgbm.Booster:
    """Parse trees. The result is cached, because parsing takes longer than predicting a few rows."""
    return lightgbm.Booster(model_str=trees)
