"""How fast engines price sample rows, and with which batch size."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle, islice

import numpy as np

from pricekit.core.contracts import Batch, Graph
from pricekit.engines.loaded import BATCH_SIZE, LoadedEngine, for_each
from pricekit.preprocess import Inputs
from pricekit.tokens import Tokens

LENGTH, REPEATS, ENOUGH_S = 128, 5, 4.0
"""Tokens of a sample row; rounds of a comparison; seconds after which no further round starts."""

CHECKED = 512
"""Tokens of the batch whose prices are compared with the reference's."""

BATCH_TOKENS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Batch sizes to compare, ascending: small ones fit into a CPU's caches, large ones fill a GPU."""

LEAST_S = 0.05
"""Seconds of one measurement, at least; in a shorter one, starting the threads would count."""

BETTER = 1.1
"""A larger batch size must be faster by this factor: machines are noisy, and too large a size costs more."""


def sample_inputs(graph: Graph, vocab_size: int) -> Inputs:
    """Return rows of equal length and random tokens, as many as the largest batch may have."""
    rng = np.random.default_rng(0)
    length = min(LENGTH, graph.max_length)
    ids = rng.integers(0, vocab_size, BATCH_SIZE * length).astype(np.int32)
    tokens = Tokens(ids, np.arange(BATCH_SIZE + 1) * length)
    return Inputs(tokens, rng.normal(size=(BATCH_SIZE, graph.features)).astype(np.float32), 0)


def sample_batch(graph: Graph, vocab_size: int) -> Batch:
    """Return a batch of about `CHECKED` tokens with decreasing row lengths; masked tokens differ from padding."""
    inputs = sample_inputs(graph, vocab_size)
    batch = inputs.batch(np.arange(max(1, CHECKED // int(inputs.tokens.lengths[0]))))
    rows, length = batch["input_ids"].shape
    ends = length - np.arange(rows) * length // (2 * rows)
    return {**batch, "attention_mask": (np.arange(length) < ends[:, None]).astype(np.int64)}


def with_best_batch_size(
    opened: LoadedEngine, inputs: Inputs, advance: Callable[[float], None] = lambda _: None
) -> LoadedEngine:
    """Return the engine with the largest batch size that is clearly faster than smaller ones.

    The search ends after two sizes in a row that are not: one may be only a little faster, and its double much.

    Args:
        opened: the engine.
        inputs: the rows to price.
        advance: called with the number of finished sizes, `len(BATCH_TOKENS) - 1` in all.
    """
    best, *larger = (replace(opened, batch_tokens=tokens) for tokens in BATCH_TOKENS)
    failed = 0
    for number, engine in enumerate(larger):
        small, large = speeds([best, engine], inputs)
        if np.median(large / small) >= BETTER:
            best, failed = engine, 0
        elif (failed := failed + 1) == 2:
            advance(len(larger) - number)
            break
        advance(1)
    return best


def speeds(engines: list[LoadedEngine], inputs: Inputs) -> np.ndarray:
    """Return tokens per second, (engines, rounds); the engines take turns, each with its own batch size.

    Padding is part of the measured time, as it is for a table.
    """
    batches = [engine.batches(inputs) for engine in engines]
    repeats = [1] * len(engines)
    rounds: list[list[float]] = []
    started = time.perf_counter()
    for number in range(1 + REPEATS):
        found = []
        for place, engine in enumerate(engines):
            some = list(islice(cycle(batches[place]), engine.streams * repeats[place]))
            seconds = _seconds(engine, inputs, some)
            found.append(int(inputs.tokens.lengths[np.concatenate(some)].sum()) / seconds)
            if not number:
                repeats[place] = 1 + int(LEAST_S / seconds)
        if number:  # the first round is slower
            rounds.append(found)
        if rounds and time.perf_counter() - started > ENOUGH_S:
            break
    return np.array(rounds).T


def _seconds(engine: LoadedEngine, inputs: Inputs, batches: list[np.ndarray]) -> float:
    started = time.perf_counter()
    for_each(partial(_price, engine, inputs), batches, engine.streams)
    return time.perf_counter() - started


def _price(engine: LoadedEngine, inputs: Inputs, rows: np.ndarray) -> None:
    engine.price_batch(engine.batch(inputs, rows))
