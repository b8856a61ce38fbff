"""Feature `trees`: the log price that boosted trees predict from numbers, categories and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field

from pricekit.config import Search, Section
from pricekit.core.contracts import State
from pricekit.errors import DataError, PluginError
from pricekit.features.catalog import Optimized22
from pricekit.features.cells import (
    PLACES,
    Categories,
    Column,
    Values,
    columns_of,
    from_json,
    to_json,
    values_of,
)
from pricekit.features.fit import folds_of
from pricekit.features.forest import MOST_NODES, Forest, from_lightgbm, joined
from pricekit.features.labelled_lines import Block, Floats, Ints, LastOpened
from pricekit.features.linear import Linear, count_terms, linear_out_of_fold
from pricekit.features.neighbours import Neighbours
from pricekit.features.units import KINDS
from pricekit.features.words import MOST_WORDS, WordTable, common_words, find_words, words_of
from pricekit.support.locks import renewed_in_child
from pricekit.table import Table


@renewed_in_child
@dataclass(frozen=True)
class Learned:
    """What yields these inputs.

    Attributes:
        linear: a linear model of words and word pairs, one input.
        neighbours: the state of the feature `neighbours`, three inputs; None without them.
    """

    linear: Linear
    neighbours: dict[str, Any] | None

    @classmethod
    def fit(cls, table: Table, price: Floats, *, neighbours: bool) -> Learned:
        """Learn from N training rows with prices, float64 (N,)."""
        linear = Linear.fit(count_terms(words_of(table.text)), np.log(price), table.weight)
        return cls(linear, _neighbours().fit(table, price) if neighbours else None)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"linear": self.linear.to_json(), "neighbours": self.neighbours}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Learned:
        """Return what `to_json` described."""
        return cls(Linear.from_json(state["linear"]), state["neighbours"])

    def columns(self, table: Table) -> Block:
        """Return the inputs, float32 (N, 1) or (N, 4)."""
        block = self.linear.predict(words_of(table.text))[:, None].astype(np.float32)
        if self.neighbours is None:
            return block
        return np.hstack([block, self._plugin.transform(table, self.neighbours)])

    def out_of_fold(self, table: Table, price: Floats) -> Block:
        """Return the inputs of the training rows, each learned from the rows of other folds."""
        fold = folds_of(table)
        linear = linear_out_of_fold(words_of(table.text), np.log(price), fold, table.weight)
        block = linear[:, None].astype(np.float32)
        if self.neighbours is None:
            return block
        near = np.empty((len(table), len(Neighbours.names)), np.float32)
        for number in np.unique(fold):
            rows, others = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            plugin = _neighbours()
            near[rows] = plugin.transform(table.take(rows), plugin.fit(table.take(others), price[others]))
        return np.hstack([block, near])

    @cached_property
    def _plugin(self) -> Neighbours:
        return _neighbours()


def _neighbours() -> Neighbours:
    return Neighbours(Neighbours.Options())


CATALOG = Optimized22()

MISSING = -1e30
"""Stands for a missing number: below all others, so that one split separates it."""

PRIOR_ROWS = 10.0
"""A category's mean log price is drawn to that of all rows as if these many rows had it."""


@renewed_in_child
@dataclass(frozen=True)
class Inputs:
    """What turns texts into the inputs of trees.

    Attributes:
        columns: what each label yields.
        catalog: the state of `optimized22`.
        ranks: for each category input, the ranks of its codes by mean log price.
        learned: inputs that are learned from prices.
        words: the words that are counted.
    """

    columns: list[Column]
    catalog: dict[str, Any]
    ranks: list[list[int]]
    learned: Learned
    words: list[str]

    @classmethod
    def fit(
        cls, table: Table, price: Floats, words: int, least_rows: int, *, neighbours: bool = False
    ) -> Inputs:
        """Learn from N training rows with prices, float64 (N,)."""
        columns = columns_of(table.text)
        ranks = [
            _ranks(codes, np.log(price), count, table.weight)
            for codes, count in inputs_of(values_of(table.text, columns), columns)
            if count
        ]
        learned = Learned.fit(table, price, neighbours=neighbours)
        return cls(
            columns, CATALOG.fit(table), ranks, learned, common_words(words_of(table.text), words, least_rows)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        own = {"catalog": self.catalog, "ranks": self.ranks, "words": self.words}
        return {"columns": to_json(self.columns), "learned": self.learned.to_json()} | own

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Inputs:
        """Return what `to_json` described."""
        learned = Learned.from_json(state["learned"])
        return cls(from_json(state["columns"]), state["catalog"], state["ranks"], learned, state["words"])

    def dense(self, table: Table) -> Block:
        """Return learned inputs, numbers, ranks of categories and catalogue features, float32 (N, D), finite."""
        return self._dense(table, self.learned.columns(table))

    def dense_for_training(self, table: Table, price: Floats) -> Block:
        """Return `dense` of the training rows, with inputs that were learned from rows of other folds."""
        return self._dense(table, self.learned.out_of_fold(table, price))

    def _dense(self, table: Table, learned: Block) -> Block:
        ranks, values = iter(self._rank_of_code), values_of(table.text, self.columns)
        found = [
            next(ranks)[each] if count else each
            for each, count in inputs_of(values, self.columns, self._known)
        ]
        block = np.zeros((len(table), len(found)))
        for place, each in enumerate(found):
            block[:, place] = each
        block = np.clip(np.nan_to_num(block, nan=MISSING), MISSING, -MISSING)
        catalog = CATALOG.transform(table, self.catalog)
        return np.column_stack([learned, block, catalog]).astype(np.float32)

    @cached_property
    def _known(self) -> Categories:
        return Categories(self.columns)

    @cached_property
    def _rank_of_code(self) -> list[Block]:
        return [np.array(ranks, np.float32) for ranks in self.ranks]

    def word_counts(self, table: Table) -> tuple[Ints, Ints]:
        """Return the row and the word of each occurrence of a known word, int64 (K,) each."""
        return find_words(words_of(table.text), self._table)

    @cached_property
    def _table(self) -> WordTable:
        return WordTable(self.words)


def _ranks(codes: Ints, log_price: Floats, count: int, weight: Floats | None = None) -> list[int]:
    """Return the rank of each code by its smoothed mean log price (Micci-Barreca 2001); rows count by their weights."""
    counted = np.ones(len(codes)) if weight is None else weight / weight.mean()
    rows = np.bincount(codes, counted, minlength=count)
    total = np.bincount(codes, counted * log_price, minlength=count)
    mean = (total + PRIOR_ROWS * np.average(log_price, weights=counted)) / (rows + PRIOR_ROWS)
    ranks: list[int] = np.argsort(np.argsort(mean, kind="stable"), kind="stable").tolist()
    return ranks


def inputs_of(
    values: Values, columns: Sequence[Column], known: Categories | None = None
) -> Iterator[tuple[npt.NDArray[Any], int]]:
    """Yield the values of each input, (N,), and its number of categories, 0 for numbers.

    Args:
        values: of N texts.
        columns: of the texts.
        known: the categories of the columns; None: they are made here.
    """
    labels, total = len(columns), values.total
    known = known or Categories(columns)
    codes = known.codes(values.cells)
    for place, column in enumerate(columns):
        for nth in range(min(column.places, PLACES)):
            yield values.number[:, place, nth], 0
            yield values.unit[:, place, nth], len(KINDS)
        if column.measured:
            yield total.amount[place::labels], 0
            yield total.pack[place::labels], 0
            yield total.kind[place::labels], len(KINDS)
        for position in (2 * place, 2 * place + 1):  # whole cells, and first words
            if known.counts[position]:
                yield codes[position], known.counts[position] + 2
        if column.long:
            yield values.cells.end[:, place] - values.cells.start[:, place], 0


THREADS = 1
"""More threads are slower for small tables, and far slower on a busy machine."""

BATCH_ROWS = 256
"""Rows that are predicted together; their inputs fit into the processor's cache."""


MORE = 3
"""`update` adds one tree for so many trees of a fit."""


class Trees:
    """The log price that gradient-boosted trees predict (Ke et al. 2017, LightGBM), with the L1 loss.

    The inputs are the log price of a linear model of words and word pairs (`linear`), the first numbers of each
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
        self._open = LastOpened(
            lambda state: (Inputs.from_json(state["inputs"]), Forest.from_json(state["forest"]))
        )

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
        smaller = {
            "rounds": -(-options.rounds // MORE),
            "leaves": max(2, options.leaves // 2),
            "learning_rate": options.learning_rate / 2,
            "seed": options.seed + 1,
        }
        grower = Trees(options.model_copy(update=smaller))
        more, used = from_lightgbm(grower._grow(inputs, dense, table, price, start))
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

    def transform(self, table: Table, state: State) -> Block:
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
        parameters = {
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
        given: dict[str, Any] = {"weight": table.weight, "init_score": start, "params": parameters}
        rows = lightgbm.Dataset(hstack([csr_matrix(dense), counts], format="csr"), np.log(price), **given)
        return str(lightgbm.train(parameters, rows, self.options.rounds).model_to_string())
