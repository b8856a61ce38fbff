"""Feature `trees`: the log price that boosted trees predict from numbers, categories and words."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field

from pricekit.config import Search, Section
from pricekit.core.contracts import State
from pricekit.errors import DataError, PluginError
from pricekit.features.trees.forest import MOST_NODES, Forest, from_lightgbm, joined
from pricekit.features.trees.inputs import Inputs
from pricekit.features.trees.vocabulary import MOST_WORDS
from pricekit.table import Table

THREADS = 1
"""More threads are slower for small tables, and far slower on a busy machine."""

BATCH_ROWS = 256
"""Rows that are predicted together; their inputs fit into the processor's cache."""


MORE = 3
"""`update` adds one tree for so many trees of a fit."""


class Trees:
    """The log price that gradient-boosted trees predict (Ke et al. 2017, LightGBM), with the L1 loss.

    The inputs are the log price of a linear model of words and word pairs (`trees.linear`), the first numbers of each
    cell with their units, its amount, the cell and its first word as categories, the length of prose, `optimized22`,
    and the counts of the most common words. A category is its rank by mean log price. LightGBM grows the trees; ONNX
    Runtime predicts with them, so a bundle needs no further package.
    """

    names = ("trees_log_price",)
    uses_price = True
    log_price = "trees_log_price"

    class Options(Section):
        """Options of `trees`."""

        model_config = ConfigDict(
            json_schema_extra={
                "examples": [
                    {"rounds": 600, "learning_rate": 0.035, "words": 4096},
                    {"rounds": 1000, "learning_rate": 0.02, "words": 4096},
                    {"rounds": 300, "leaves": 63, "learning_rate": 0.05, "words": 4096},
                ]
            }
        )

        rounds: Annotated[int, Search(200, 1200, log=True)] = Field(
            300, ge=1, le=10_000, description="number of trees"
        )
        leaves: Annotated[int, Search(15, 63, log=True)] = Field(
            31, ge=2, le=1 << 12, description="maximum number of leaves per tree"
        )
        learning_rate: Annotated[float, Search(0.02, 0.1, log=True)] = Field(
            0.07, gt=0, le=1, description="shrinkage of each tree"
        )
        leaf_rows: Annotated[int, Search(8, 40, log=True)] = Field(
            20, ge=1, description="minimum number of rows per leaf, and of rows that have a word"
        )
        words: Annotated[int, Search(1024, 8192, log=True)] = Field(
            2048, ge=0, le=MOST_WORDS, description="maximum number of words that are counted"
        )
        neighbours: bool = Field(
            False, description="inputs from the feature `neighbours`; the state then contains training rows"
        )

        seed: int = Field(0, ge=0, le=1 << 30, description="of the rows and inputs that each tree may use")

    def __init__(self, options: Options) -> None:
        self.options = options
        self.holds_training_rows = options.neighbours
        self._opened: tuple[State, Inputs, Forest] | None = None

    def fit(self, table: Table, price: np.ndarray) -> State:
        """Fit the trees to N rows with prices, float64 (N,).

        Returns:
            {"inputs": see `Inputs.to_json`, "dense": the dense inputs that are read, "forest": see `Forest.to_json`}
        """
        options = self.options
        inputs = Inputs.fit(table, price, options.words, options.leaf_rows, neighbours=options.neighbours)
        dense = inputs.dense_for_training(table, price)
        forest, used = from_lightgbm(self._grow(inputs, dense, table, price))
        read = used[used < dense.shape[1]]
        words = [inputs.words[number] for number in used[len(read) :] - dense.shape[1]]
        state = replace(inputs, words=words).to_json()
        return {"inputs": state, "dense": read.tolist(), "forest": forest.to_json()}

    def update(self, table: Table, price: np.ndarray, state: State) -> State:
        """Add smaller and fewer trees, fitted to N more rows with prices, float64 (N,); the inputs stay.

        Raises:
            DataError: the trees have become too many.
        """
        inputs, before = self._open(state)
        dense, start = inputs.dense(table), self.transform(table, state)[:, 0]
        options = self.options
        smaller = Trees.Options(
            rounds=-(-options.rounds // MORE),
            leaves=max(2, options.leaves // 2),
            learning_rate=options.learning_rate / 2,
            leaf_rows=options.leaf_rows,
            seed=options.seed + 1,
        )
        more, used = from_lightgbm(Trees(smaller)._grow(inputs, dense, table, price, start))
        width = dense.shape[1]
        read = np.union1d(state["dense"], used[used < width]).astype(np.int64)
        words = len(read) + np.arange(len(inputs.words))
        own = np.append(np.searchsorted(read, state["dense"]), words)
        added = np.where(used < width, np.searchsorted(read, used), len(read) + used - width)
        columns = max(1, len(read) + len(words))
        forest = joined([(before, own), (more, added)], columns)
        if len(forest.feature) > MOST_NODES:
            raise DataError(
                f"the trees have {len(forest.feature):,} nodes after many warm starts, and at most {MOST_NODES:,} are "
                "possible; train from the start",
                parameters=("init",),
            )
        return {"inputs": state["inputs"], "dense": read.tolist(), "forest": forest.to_json()}

    def transform(self, table: Table, state: State) -> npt.NDArray[np.float32]:
        """Return the predicted log price, float32 (N, 1)."""
        inputs, forest = self._open(state)
        row, word = inputs.word_counts(table)
        dense = inputs.dense(table)[:, state["dense"]]
        found = np.zeros((len(table), 1), np.float32)
        for start in range(0, len(table), BATCH_ROWS):
            part = dense[start : start + BATCH_ROWS]
            block = np.zeros((len(part), forest.columns), np.float32)
            block[:, : part.shape[1]] = part
            first, last = np.searchsorted(row, [start, start + len(part)])
            np.add.at(block, (row[first:last] - start, part.shape[1] + word[first:last]), np.float32(1))
            found[start : start + len(part), 0] = forest.predict(block)
        return found

    def _open(self, state: State) -> tuple[Inputs, Forest]:
        """Read a state, and keep it: this takes longer than predicting a few rows."""
        opened = self._opened
        if opened is None or opened[0] is not state:
            inputs, forest = Inputs.from_json(state["inputs"]), Forest.from_json(state["forest"])
            self._opened = opened = (state, inputs, forest)
        return opened[1:]

    def _grow(
        self,
        inputs: Inputs,
        dense: np.ndarray,
        table: Table,
        price: np.ndarray,
        start: np.ndarray | None = None,
    ) -> str:
        """Return the trees in LightGBM's text format; `start` is a log price of each row to begin with, (N,)."""
        try:
            import lightgbm
            from scipy.sparse import csr_matrix, hstack
        except ModuleNotFoundError as error:
            raise PluginError(
                f"the feature 'trees' needs the package {error.name} for training: pip install {error.name}, or leave "
                "the feature out",
                parameters=("features",),
            ) from None
        row, word = inputs.word_counts(table)
        shape = (len(table), len(inputs.words))
        counts = csr_matrix((np.ones(len(row), np.float32), (row, word)), shape=shape)
        matrix = hstack([csr_matrix(dense), counts], format="csr")
        parameters = self._parameters()
        given: dict[str, Any] = {"weight": table.weight, "init_score": start, "params": parameters}
        rows = lightgbm.Dataset(matrix, np.log(price), **given)
        return str(lightgbm.train(parameters, rows, self.options.rounds).model_to_string())

    def _parameters(self) -> dict[str, Any]:
        return {
            "objective": "regression_l1",
            "learning_rate": self.options.learning_rate,
            "num_leaves": self.options.leaves,
            "min_data_in_leaf": self.options.leaf_rows,
            "feature_fraction": 0.2,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "use_missing": False,
            "num_threads": THREADS,
            "deterministic": True,
            "force_col_wise": True,  # otherwise LightGBM chooses the layout by timing, and sums differ
            "seed": self.options.seed,
            "verbosity": -1,
        }
