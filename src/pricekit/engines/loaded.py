"""An engine with a model in it, and how it is fed: batches of alike lengths, several at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.errors import BundleError
from pricekit.preprocess import Inputs
from pricekit.tokens import batches_by_length, round_up

Item = TypeVar("Item")

BATCH_SIZE = 256
"""Rows of one call of the engine, at most."""

BATCH_TOKENS = 2048
"""Tokens of one call, padding included, at most, where nobody has measured what is best."""


@dataclass(frozen=True)
class LoadedEngine:
    """An engine with a model loaded.

    Attributes:
        name: the engine's.
        price_batch: what it does.
        length_multiple: what lengths are rounded up to.
        streams: how many batches it prices at a time.
        batch_tokens: tokens of one batch, padding included, at most.
        max_length: what no length is rounded up beyond.
    """

    name: str
    price_batch: PriceBatch
    length_multiple: int = 1
    streams: int = 1
    batch_tokens: int = BATCH_TOKENS
    max_length: int | None = None

    def price(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return prices, float32 (N,), of which those of the rows given are filled.

        Raises:
            BundleError: the engine gives something else than a price.
        """
        prices = np.zeros(len(inputs), np.float32)

        def fill(some: np.ndarray) -> None:
            prices[some] = self.price_batch(self.batch(inputs, some))

        longest_first = self.batches(inputs, rows)[::-1]  # so that the streams end together
        each(fill, longest_first, min(self.streams, len(longest_first)))
        wrong = int((~(np.isfinite(prices[rows]) & (prices[rows] > 0))).sum())
        if wrong:
            cure = (
                "train it again, with a lower training.learning_rate"
                if self.name == "torch"
                else "float16 may overflow; export the run with --precision fp32, or try another --engine"
            )
            raise BundleError(
                f"the engine {self.name} gives {wrong:,} of {len(rows):,} rows a price that is not finite or not above "
                f"0: {cure}"
            )
        return prices

    def batch(self, inputs: Inputs, rows: np.ndarray) -> Batch:
        """Return the padded inputs of some rows, as the engine likes them."""
        return inputs.batch(rows, self.length_multiple, self.max_length)

    def batches(self, inputs: Inputs, rows: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the row numbers of each batch, alike lengths together, shortest first."""
        wanted = np.arange(len(inputs)) if rows is None else rows
        padded = round_up(inputs.tokens.lengths, self.length_multiple, self.max_length)
        return list(batches_by_length(padded, wanted, BATCH_SIZE, self.batch_tokens))


def batches_of(inputs: Inputs) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yield (row numbers, batch) of alike lengths until all rows are there."""
    for rows in batches_by_length(inputs.tokens.lengths, np.arange(len(inputs)), BATCH_SIZE, BATCH_TOKENS):
        yield rows, inputs.batch(rows)


def each(function: Callable[[Item], Any], items: Iterable[Item], streams: int) -> None:
    """Call a function with every item, in so many threads; the first that fails ends it."""
    if streams <= 1:
        deque(map(function, items), maxlen=0)
        return
    with ThreadPoolExecutor(streams) as pool:
        deque(pool.map(function, items), maxlen=0)
