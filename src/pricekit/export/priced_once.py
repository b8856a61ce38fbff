"""Prices that are computed once: of equal batches, and of a row in whatever batches it occurs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.predict.loaded_engine import BATCH_SIZE, BATCH_TOKENS
from pricekit.text.tokens import batches_by_length


class RowPrices:
    """Prices of rows by their content without padding: a row is priced once, in whatever batches it occurs.

    Args:
        price: prices batches of unknown rows, without needless padding.
    """

    def __init__(self, price: PriceBatch | None = None) -> None:
        self._price = price
        self._known: dict[bytes, float] = {}

    def add(self, batch: Batch, prices: np.ndarray) -> None:
        """Store the prices of a batch, (B,)."""
        self._known |= dict(zip(_keys(batch), prices.tolist(), strict=True))

    def __call__(self, batch: Batch) -> np.ndarray:
        """Return the prices of a batch, float32 (B,)."""
        keys = _keys(batch)
        if self._price is not None:
            unknown = {key: row for row, key in enumerate(keys) if key not in self._known}
            lengths, rows = batch["attention_mask"].sum(1), np.array([*unknown.values()], int)
            for some in batches_by_length(lengths, rows, BATCH_SIZE, BATCH_TOKENS):
                tokens = {
                    name: batch[name][some, : lengths[some].max()] for name in ("input_ids", "attention_mask")
                }
                part = {**tokens, "features": batch["features"][some]}
                self.add(part, self._price(part))
        return np.array([self._known[key] for key in keys], np.float32)


class PricedOnce:
    """Computes equal batches once.

    Args:
        load: returns what prices them; called when a batch is new.
    """

    def __init__(self, load: Callable[[], PriceBatch]) -> None:
        self._load = load
        self._engine: PriceBatch | None = None
        self._known: dict[bytes, np.ndarray] = {}

    def __call__(self, batch: Batch) -> np.ndarray:
        """Return the prices of a batch, float32 (B,)."""
        return next(self.each([batch]))

    def each(self, batches: Sequence[Batch]) -> Iterator[np.ndarray]:
        """Yield the prices of each batch, in order; one after the other, because batches take much memory."""
        for batch in batches:
            key = _digest(batch)
            if key not in self._known:
                self._engine = self._engine or self._load()
                self._known[key] = self._engine(batch).copy()  # ONNX Runtime's own would keep all its memory
            yield self._known[key]

    def close(self) -> None:
        """Free the memory of the engine; the prices stay known."""
        self._engine = None


def _digest(batch: Batch) -> bytes:
    digest = hashlib.blake2b(repr(batch["input_ids"].shape).encode())
    for name in sorted(batch):
        digest.update(batch[name].tobytes())
    return digest.digest()


def longest_forms(batches: Sequence[Batch]) -> list[Batch]:
    """Return the distinct rows of some batches, each with its longest padding, in a batch for each length.

    Other rows and less padding give a row no other values.
    """
    longest: dict[bytes, tuple[int, Batch, int]] = {}
    for batch in batches:
        length = batch["input_ids"].shape[1]
        for row, key in enumerate(_keys(batch)):
            if key not in longest or longest[key][0] < length:
                longest[key] = length, batch, row
    by_length: dict[int, list[tuple[Batch, int]]] = {}
    for length, batch, row in longest.values():
        by_length.setdefault(length, []).append((batch, row))
    return [
        {name: np.stack([batch[name][row] for batch, row in rows]) for name in rows[0][0]}
        for _, rows in sorted(by_length.items())
    ]


def _keys(batch: Batch) -> list[bytes]:
    """Return the content of each row without padding."""
    ids, features = batch["input_ids"], batch["features"]
    lengths = batch["attention_mask"].sum(1)
    return [ids[row, :length].tobytes() + features[row].tobytes() for row, length in enumerate(lengths)]
