"""Feature `neighbours`: the prices of the most similar training rows."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from pricekit.config import Search, Section
from pricekit.errors import BundleError
from pricekit.features.labelled_lines import as_list
from pricekit.features.neighbours.nearest import (
    MOST_ROWS,
    MOST_TERMS,
    Floats,
    Index,
    index_texts,
    nearest,
    open_index,
)
from pricekit.support.packing import pack, unpack
from pricekit.support.text import shorten
from pricekit.table import Table

State = dict[str, Any]

_TEXTS = 1_000
"""Texts that are searched together; more take more memory and no less time."""
_HIGHEST = 700.0
"""The log of every price is closer to 0 than this."""


class Neighbours:
    """The prices of the training rows with the most similar texts, see `nearest`.

    | column | meaning |
    |---|---|
    | neighbour_log_price | mean log price of the k nearest rows, weighted by similarity to the power of `power` |
    | nearest_log_price | log price of the nearest row |
    | nearest_similarity | its similarity, from 0 to 1 |

    A text that shares no term with a training row has the mean log price of all training rows and the similarity 0.
    """

    names = ("neighbour_log_price", "nearest_log_price", "nearest_similarity")
    uses_price = True
    holds_training_rows = True

    class Options(Section):
        """Options of `neighbours`."""

        k: Annotated[int, Search(4, 24, log=True)] = Field(
            8, ge=1, le=256, description="number of neighbours"
        )
        power: Annotated[float, Search(1.0, 6.0)] = Field(
            3.0, ge=0, le=20, description="power of the similarity that weighs a neighbour"
        )
        terms: int = Field(500_000, ge=1, le=MOST_TERMS, description="maximum number of words and word pairs")
        rows: int = Field(
            100_000,
            ge=1,
            le=MOST_ROWS,
            description="maximum number of training rows; of more, some are chosen evenly",
        )

    def __init__(self, options: Options) -> None:
        self.options = options
        self._opened: tuple[State, _Priced] | None = None

    def fit(self, table: Table, price: np.ndarray) -> State:
        """Index N training rows.

        Returns:
            {"index": see `nearest.index_texts`, "log_price": of its rows, packed float32, "mean": of all log prices}.
        """
        every = np.log(price)
        rows = np.linspace(0, len(table) - 1, min(len(table), self.options.rows)).round().astype(np.int64)
        texts = as_list(table.text.iloc[rows])
        return {
            "index": index_texts(texts, most_terms=self.options.terms),
            "log_price": pack(every[rows].astype(np.float32)),
            "mean": float(every.mean()) if len(every) else 0.0,
        }

    def transform(self, table: Table, state: State) -> npt.NDArray[np.float32]:
        """Return the columns, float32 (N, 3); raise BundleError if the state is damaged."""
        priced = self._open(state)
        block = np.empty((len(table), len(self.names)), np.float32)
        texts = as_list(table.text)
        for start in range(0, len(texts), _TEXTS):
            found = nearest(priced.index, texts[start : start + _TEXTS], self.options.k)
            for row, (rows, similarity) in enumerate(zip(*found, strict=True), start):
                block[row] = self._columns(priced, rows[similarity > 0], similarity[similarity > 0])
        return block

    def _columns(self, priced: _Priced, rows: npt.NDArray[np.int64], similarity: Floats) -> Floats:
        """Return the columns of one text from its neighbours; one by one, so that no sum depends on other texts."""
        if not len(rows):
            return np.array([priced.mean, priced.mean, 0.0])
        price, weight = priced.log_price[rows], similarity**self.options.power
        mean = float((price * weight).sum() / weight.sum())
        return np.array([mean, price[0], similarity[0]])

    def _open(self, state: State) -> _Priced:
        """Build the index of a state, and keep it: this takes longer than thousands of searches."""
        opened = self._opened
        if opened is None or opened[0] is not state:
            self._opened = opened = (state, _Priced(state))
        return opened[1]


class _Priced:
    """An index whose rows have prices."""

    def __init__(self, state: State) -> None:
        try:
            self.index: Index = open_index(state["index"])
            self.log_price = unpack(state["log_price"], np.float32, most=MOST_ROWS).astype(np.float64)
            self.mean = float(state["mean"])
            if len(self.log_price) != len(self.index):
                raise ValueError(f"it has {len(self.log_price):,} prices for {len(self.index):,} rows")
            if not (np.abs([*self.log_price, self.mean]) < _HIGHEST).all():
                raise ValueError("a price is not positive and finite")
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            raise BundleError(
                "the state of the feature 'neighbours' is damaged "
                f"({type(error).__name__}: {shorten(str(error), 300)}); train or export the model again"
            ) from None
