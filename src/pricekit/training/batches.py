"""Which rows are trained on, and in which batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pricekit.config import TrainingConfig
from pricekit.preprocess import Inputs
from pricekit.tokens import batches_by_length

PRICE_BINS = 20

LARGE_GROUP, LARGE_SHARE = 10, 0.1
"""A group of more rows than the first, and than this share of the validation rows, is not validated on."""
MIN_GROUPS = 5
"""Of fewer groups the rows are split one by one: there is no way to hold out a fair part."""


@dataclass(frozen=True)
class Examples:
    """Rows with a price: model inputs and prices, float64 (N,)."""

    inputs: Inputs
    price: np.ndarray


def split_groups(
    price: np.ndarray, groups: np.ndarray, fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows as `split_rows` does, with each group in one part; equal to it where each row is a group.

    Groups that would fill much of the validation rows are trained on.

    Args:
        price: (N,).
        groups: which rows belong together, int64 (N,).
        fraction: share of the validation rows.
        seed: makes the split.
    """
    _, first, group, rows = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    small = np.flatnonzero(rows <= max(LARGE_GROUP, LARGE_SHARE * fraction * len(price)))
    if len(small) < MIN_GROUPS:
        return split_rows(price, fraction, seed)
    _, chosen = split_rows(price[first[small]], fraction, seed)
    held_out = np.isin(group, small[chosen])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


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


def epoch_batches(
    lengths: np.ndarray, training: TrainingConfig, sort_window: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Return the micro-batches of one epoch: a pure function of its arguments.

    Rows are shuffled, cut into windows of `sort_window` batches, sorted by length inside a window and
    cut into batches, which are shuffled again. A window's last batch joins the one before it if it is
    a single row, since batch normalisation cannot train on one.

    Args:
        lengths: tokens of each row, (N,).
        training: batch_size, or batch_tokens where it is set.
        sort_window: batches of a window; 1 leaves the order random.
        seed: with `epoch`, makes the order.
        epoch: counted from 0.
    """
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(len(lengths))
    size = training.batch_size
    if training.batch_tokens:
        size = max(1, round(training.batch_tokens / lengths.mean()))
    windows = np.split(order, np.arange(size * sort_window, len(order), size * sort_window))
    if len(windows) > 1 and len(windows[-1]) == 1:
        windows[-2:] = [np.concatenate(windows[-2:])]
    batches: list[np.ndarray] = []
    for rows in windows:
        if training.batch_tokens:
            cut = batches_by_tokens(lengths, rows, training.batch_tokens)
        else:
            cut = list(batches_by_length(lengths, rows, size))
        if size > 1 and len(cut) > 1 and len(cut[-1]) == 1:
            cut[-2:] = [np.concatenate(cut[-2:])]
        batches += cut
    return [batches[i] for i in rng.permutation(len(batches))]


def batches_by_tokens(lengths: np.ndarray, rows: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Split rows, longest first, into batches of at most `tokens` padded tokens, at least a row each."""
    ordered = rows[np.argsort(-lengths[rows], kind="stable")]
    batches: list[np.ndarray] = []
    start = 0
    while start < len(ordered):
        size = max(1, tokens // int(lengths[ordered[start]]))
        batches.append(ordered[start : start + size])
        start += size
    return batches


def steps_of(batches: Sequence[np.ndarray], training: TrainingConfig) -> list[tuple[np.ndarray, ...]]:
    """Group the micro-batches of one optimizer step each; the last group may be smaller."""
    size = training.gradient_accumulation_steps
    return [tuple(batches[start : start + size]) for start in range(0, len(batches), size)]


def dealt(step: Sequence[np.ndarray], process: int, processes: int) -> list[tuple[int, np.ndarray, float]]:
    """Return what one of several processes computes of an optimizer step.

    The micro-batches are dealt out, cut finer where there are fewer of them than processes, but not into
    single rows, so that the step is the same whatever the number of processes. Each process gets equally
    many, since gradients are exchanged together; what is short is filled with a batch of weight 0.

    Returns:
        For each micro-batch its number in the step, its rows, and its share of the step's rows.
    """
    parts = -(-processes // len(step))
    cut = [piece for rows in step for piece in np.array_split(rows, max(1, min(parts, len(rows) // 2)))]
    total = sum(map(len, step))
    mine = [(number, cut[number], len(cut[number]) / total) for number in range(process, len(cut), processes)]
    missing = -(-len(cut) // processes) - len(mine)
    return mine + [(len(cut), cut[0], 0.0)] * missing
