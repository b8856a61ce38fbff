"""Which rows are trained on, and in which batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pricekit.tokens import batches_by_length

PRICE_BINS = 20
WINDOW_BATCHES = 50
"""Batches of one shuffled window, inside which rows are sorted by length."""


def split_rows(price: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split rows into training and validation, stratified by price bin.

    Args:
        price: (N,), N at least 2.
        fraction: share of the validation rows; each part gets at least one row.
        seed: makes the split.

    Returns:
        Row numbers of the training and of the validation part, each ascending.
    """
    rng = np.random.default_rng(seed)
    by_price = np.lexsort((rng.random(len(price)), price))
    bins = np.array_split(by_price, min(PRICE_BINS, max(1, int(len(price) * fraction) // 2)))
    shuffled = np.concatenate([rng.permutation(rows) for rows in bins])
    # The k-th validation row is due each time that k·fraction passes a whole number, in bin after bin.
    due = np.floor((np.arange(len(price)) + 1) * fraction).astype(int)
    chosen = np.diff(due, prepend=0) > 0
    if not chosen.any():
        chosen[0] = True
    return np.sort(shuffled[~chosen]), np.sort(shuffled[chosen])


def epoch_batches(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Return the batches of one epoch: a pure function of its arguments.

    Rows are shuffled, cut into windows of 50 batches, sorted by length inside a window and cut into
    batches, which are shuffled again. A last batch of a single row joins another one, since batch
    normalisation cannot train on one row.
    """
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(len(lengths))
    window = batch_size * WINDOW_BATCHES
    batches: list[np.ndarray] = []
    for start in range(0, len(order), window):
        batches += batches_by_length(lengths, order[start : start + window], batch_size)
    if batch_size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
        single = batches.pop()
        batches[-1] = np.concatenate([batches[-1], single])
    return [batches[i] for i in rng.permutation(len(batches))]


def accumulated(batches: Sequence[np.ndarray], steps: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Group the batches of one optimizer step each; the last group may be smaller."""
    size = max(1, steps)
    for start in range(0, len(batches), size):
        yield tuple(batches[start : start + size])
