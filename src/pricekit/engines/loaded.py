"""An engine with a loaded model, which prices batches of similar lengths, several at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.errors import BundleError
from pricekit.preprocess import Inputs
from pricekit.tokens import batches_by_length, round_up

Item = TypeVar("Item")

BATCH_SIZE = 256
"""Maximum number of rows per batch."""

BATCH_TOKENS = 2048
"""Maximum number of tokens per batch, padding included, for engines without their own default."""


@dataclass(frozen=True)
class LoadedEngine:
    """An engine with a loaded model.

    Attributes:
        name: the name of the engine.
        price_batch: prices one batch.
        length_multiple: lengths are padded to a multiple of this.
        streams: the number of batches that it prices concurrently.
        batch_tokens: the maximum number of tokens per batch, padding included.
        max_length: the maximum padded length.
    """

    name: str
    price_batch: PriceBatch = field(repr=False)
    length_multiple: int = 1
    streams: int = 1
    batch_tokens: int = BATCH_TOKENS
    max_length: int | None = None

    def price(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return the prices of some rows, float32 (N,), and 0 for the others.

        Raises:
            BundleError: a price is missing, not finite or not above 0.
        """
        prices = np.zeros(len(inputs), np.float32)

        def fill(some: np.ndarray) -> None:
            found = np.asarray(self.price_rows(inputs, some))
            if found.shape != (len(some),):
                raise BundleError(
                    f"the engine {self.name} returns prices of shape {found.shape} for {len(some)} rows; expected "
                    "one price for each row. Export the run again; do not trust a bundle of others that does this",
                    shape=found.shape,
                    rows=len(some),
                )
            prices[some] = found

        longest_first = self.batches(inputs, rows)[::-1]  # so that all streams end at about the same time
        for_each(fill, longest_first, min(self.streams, len(longest_first)))
        wanted = prices[rows]
        invalid = int((~(np.isfinite(wanted) & (wanted > 0))).sum())
        if not invalid:
            return prices
        fix = "float16 may overflow; export the run in fp32, or choose another engine"
        parameters: tuple[str, ...] = ("precision", "engine")
        if self.name == "torch":
            fix, parameters = "train again with a lower learning rate", ()
        raise BundleError(
            f"the engine {self.name} returns {invalid:,} of {len(wanted):,} prices that are not finite or not above "
            f"0: {fix}",
            parameters=parameters,
            rows=invalid,
        )

    def batch(self, inputs: Inputs, rows: np.ndarray) -> Batch:
        """Return the padded inputs of some rows."""
        return inputs.batch(rows, self.length_multiple, self.max_length)

    def price_rows(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return the prices of some rows as one batch, whatever they are."""
        return self.price_batch(self.batch(inputs, rows))

    def batches(self, inputs: Inputs, rows: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the row numbers of each batch; batches contain rows of similar length, shortest first."""
        wanted = np.arange(len(inputs)) if rows is None else rows
        padded = round_up(inputs.tokens.lengths, self.length_multiple, self.max_length)
        return list(batches_by_length(padded, wanted, BATCH_SIZE, self.batch_tokens))


def for_each(function: Callable[[Item], Any], items: Iterable[Item], streams: int) -> None:
    """Call a function with every item in `streams` threads; raise the first exception."""
    if streams <= 1:
        deque(map(function, items), maxlen=0)
        return
    with ThreadPoolExecutor(streams) as pool:
        deque(pool.map(function, items), maxlen=0)
