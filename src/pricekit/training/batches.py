"""The order of the batches of an epoch, and batches from memory to the device."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pricekit.config import RunConfig, TrainingConfig
from pricekit.core.calls import plugin_call
from pricekit.features.preprocess import Inputs
from pricekit.io.log import logger
from pricekit.io.mapped import WINDOW_ROWS
from pricekit.nets.inference import to_tensors
from pricekit.text.tokens import batches_by_length
from pricekit.training.machine import cpu_threads

BLOCK_ROWS = 1 << 12
"""Consecutive rows that an epoch over more than `WINDOW_ROWS` reads together."""


@dataclass(frozen=True)
class PricedInputs:
    """Model inputs of N rows and their prices, float64 (N,), in the table's currency.

    Attributes:
        inputs: the model inputs.
        price: float64 (N,).
        weight: how much each row counts, float64 (N,), with mean 1 for training rows; None: all count equally.
        new: the training rows that each epoch takes, bool (N,), with as many of the others; None: it takes all rows.
    """

    inputs: Inputs
    price: np.ndarray
    weight: np.ndarray | None = None
    new: np.ndarray | None = None


def plan_epoch(train: PricedInputs, config: RunConfig, epoch: int) -> list[tuple[np.ndarray, ...]]:
    """Return the optimizer steps of an epoch, each as micro-batches of row numbers; the last may have fewer of them.

    Args:
        train: the training rows.
        config: of the run.
        epoch: counted from 0.
    """
    rows, multiple = epoch_rows(train, config.seed, epoch), config.speed.length_multiple
    padded = -(-train.inputs.tokens.lengths[rows] // multiple) * multiple
    batches = epoch_batches(padded, config.training, config.speed.sort_window, config.seed, epoch)
    size = config.training.gradient_accumulation_steps
    return [
        tuple(rows[batch] for batch in batches[start : start + size])
        for start in range(0, len(batches), size)
    ]


def epoch_rows(train: PricedInputs, seed: int, epoch: int) -> np.ndarray:
    """Return the numbers of the rows that an epoch takes, int64, ascending.

    Each epoch draws other rows that the model has learned already, so that it does not forget them.
    """
    if train.new is None:
        return np.arange(len(train.price))
    new, known = np.flatnonzero(train.new), np.flatnonzero(~train.new)
    drawn = np.random.default_rng((seed, epoch, 1)).permutation(known)[: len(new)]
    return np.sort(np.concatenate([new, drawn]))


def steps_per_epoch(train: PricedInputs, config: RunConfig) -> list[int]:
    """Return the number of optimizer steps of each epoch; only a token budget makes the numbers differ."""
    epochs = int(config.training.epochs)
    if config.training.batch_tokens is None:
        return [len(plan_epoch(train, config, 0))] * epochs
    return [len(plan_epoch(train, config, epoch)) for epoch in range(epochs)]


def epoch_batches(
    lengths: np.ndarray, training: TrainingConfig, sort_window: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Return the micro-batches of one epoch: a pure function of its arguments.

    The rows of each part of `shuffled_parts` are cut into windows of `sort_window` batches. Inside a window they are
    sorted by length and cut into batches, and the batches of a part are shuffled. If a window's last batch is a single
    row, it joins the batch before it, because batch normalisation cannot train on one row.

    Args:
        lengths: tokens of each row, int64 (N,).
        training: provides batch_size, or batch_tokens if it is set.
        sort_window: number of batches per window; 1 keeps the order random.
        seed: seeds the order, together with `epoch`.
        epoch: counted from 0.

    Returns:
        Row numbers of each micro-batch.
    """
    rng = np.random.default_rng((seed, epoch))
    size = training.batch_size
    if training.batch_tokens:
        size = max(1, round(training.batch_tokens / lengths.mean()))
    epoch_order: list[np.ndarray] = []
    for part in shuffled_parts(len(lengths), rng):
        batches = _batches(part, lengths, training, size, sort_window)
        epoch_order += [batches[i] for i in rng.permutation(len(batches))]
    return epoch_order


def shuffled_parts(rows: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield all row numbers in random order, in parts of at most about `WINDOW_ROWS`, int64 (P,) each.

    Up to `WINDOW_ROWS` rows are one part. More rows are cut into blocks of consecutive rows; the blocks are shuffled,
    and each part consists of the rows of some blocks. So an epoch reads a table that is larger than memory nearly in
    sequence, and each part holds rows from everywhere in the table.

    Args:
        rows: their number.
        rng: is read as the parts are made.
    """
    if rows <= WINDOW_ROWS:
        yield rng.permutation(rows)
        return
    blocks = rng.permutation(-(-rows // BLOCK_ROWS))
    for part in np.array_split(blocks, -(-rows // WINDOW_ROWS)):
        inside = (part[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
        yield rng.permutation(inside[inside < rows])


def _batches(
    order: np.ndarray, lengths: np.ndarray, training: TrainingConfig, size: int, sort_window: int
) -> list[np.ndarray]:
    """Return the batches of rows in a given order: cut into windows, and sorted by length in each."""
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
    return batches


def batches_by_tokens(lengths: np.ndarray, rows: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Split rows, longest first, into batches of at most `tokens` padded tokens and at least one row each."""
    ordered = rows[np.argsort(-lengths[rows], kind="stable")]
    batches: list[np.ndarray] = []
    start = 0
    while start < len(ordered):
        size = max(1, tokens // int(lengths[ordered[start]]))
        batches.append(ordered[start : start + size])
        start += size
    return batches


def micro_batches(
    step: Sequence[np.ndarray], process: int, processes: int
) -> list[tuple[int, np.ndarray, float]]:
    """Return the micro-batches of an optimizer step that one of several processes computes.

    The micro-batches are distributed round-robin. If there are fewer than processes, they are cut into smaller pieces,
    but not into single rows. So a step does not depend on the number of processes. Each process gets the same number,
    because gradients are exchanged together; a batch of weight 0 replaces a missing one.

    Args:
        step: row numbers of each micro-batch.
        process: rank of the process.
        processes: the number of processes.

    Returns:
        For each micro-batch its number in the step, its row numbers, and its share of the step's rows.
    """
    parts = -(-processes // len(step))
    cut = [piece for rows in step for piece in np.array_split(rows, max(1, min(parts, len(rows) // 2)))]
    total = sum(map(len, step))
    own = [(number, cut[number], len(cut[number]) / total) for number in range(process, len(cut), processes)]
    missing = -(-len(cut) // processes) - len(own)
    return own + [(len(cut), cut[0], 0.0)] * missing


_AHEAD = 4
"""Number of batches that are prepared ahead of the training thread."""

Batch = dict[str, Tensor]
PrepareBatch = Callable[[Tensor, Tensor, torch.Generator], Batch]


def _leave_interrupts(worker: int) -> None:
    """Ignore Ctrl-C and SIGTERM in a worker, which inherits the handlers of the training process."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@dataclass(frozen=True)
class Rows(Dataset[Batch]):
    """The batch of some row numbers: model inputs, `price` and, if rows have weights, `weight`, float32 (B,)."""

    examples: PricedInputs
    length_multiple: int
    max_length: int

    def __getitem__(self, rows: np.ndarray) -> Batch:
        """Return one padded batch."""
        batch = to_tensors(self.examples.inputs.batch(rows, self.length_multiple, self.max_length))
        batch |= {"price": torch.from_numpy(self.examples.price[rows].astype(np.float32))}
        if self.examples.weight is not None:
            batch["weight"] = torch.from_numpy(self.examples.weight[rows].astype(np.float32))
        return batch


class Loader:
    """Yields batches in a given order.

    Worker processes make the batches if the configuration says so. If the process may use another thread, that thread
    prepares the encoder's tensors of each batch.

    Args:
        examples: the training rows.
        config: the configuration of the run.
        device: the device of the model.
        prepare_batch: the encoder's `prepare_batch` (see `pricekit.core.contracts.Encoder`), if it has one.
    """

    def __init__(
        self,
        examples: PricedInputs,
        config: RunConfig,
        device: torch.device,
        prepare_batch: PrepareBatch | None = None,
    ) -> None:
        speed = config.speed
        self.rows = Rows(examples, speed.length_multiple, config.max_length)
        self.device = device
        self.pins, self.non_blocking = speed.pin_memory and device.type == "cuda", speed.non_blocking
        self.backbone = config.backbone.name
        self.prepare_batch = prepare_batch if device.type == "cpu" else None
        self.threads = cpu_threads()
        self.order: list[np.ndarray] = []
        self.workers: DataLoader[Batch] | None = None
        if speed.workers:
            self.workers = DataLoader(
                self.rows,
                sampler=self.order,  # refilled for each epoch
                batch_size=None,
                num_workers=speed.workers,
                prefetch_factor=speed.prefetch_factor,
                persistent_workers=speed.persistent_workers,
                pin_memory=self.pins,
                worker_init_fn=_leave_interrupts,
            )

    def __call__(self, order: Sequence[np.ndarray], seeds: Iterable[int] = repeat(0)) -> Iterator[Batch]:
        """Yield the batches of these rows, on the device; the seeds are for the random parts of `prepare_batch`."""
        self.order[:] = order
        if self.prepare_batch is None:
            yield from map(self._moved, self._batches())
        elif self.threads == 1:
            yield from map(self._prepared, self._batches(), seeds)
        else:
            yield from _ahead(self._prepared, zip(self._batches(), seeds, strict=False))

    @property
    def torch_threads(self) -> int:
        """The number of threads that compute an operation.

        One if batches are prepared: the operations of such a model are too short to share. Threads that share an
        operation spin while they wait, and other processes then take the CPU from the thread that still computes.
        """
        return self.threads if self.prepare_batch is None else 1

    def _prepared(self, batch: Batch, seed: int) -> Batch:
        assert self.prepare_batch is not None
        generator = torch.Generator().manual_seed(seed)
        with plugin_call("backbone", self.backbone, "preparing a batch"):
            return batch | self.prepare_batch(batch["input_ids"], batch["attention_mask"], generator)

    def _batches(self) -> Iterator[Batch]:
        done = 0
        if self.workers is not None:
            try:
                for batch in self.workers:
                    yield batch
                    done += 1
                return
            except (RuntimeError, OSError) as error:  # OSError: no process could be started
                if isinstance(error, RuntimeError) and "worker" not in str(error).lower():
                    raise
                reason = str(error).splitlines()[0]
                logger.warning(
                    f"the workers that make batches failed ({reason}); training continues without them"
                )
                self.workers = None
        for rows in self.order[done:]:
            yield self.rows[rows]

    def _moved(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        if self.pins:
            batch = {name: t if t.is_pinned() else t.pin_memory() for name, t in batch.items()}
        return {name: t.to(self.device, non_blocking=self.non_blocking) for name, t in batch.items()}


def _ahead(function: Callable[..., Batch], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Batch]:
    """Yield the results of a function in order; another thread calls it ahead for the next few arguments."""
    with ThreadPoolExecutor(1, "prepare-batch") as thread:
        waiting: deque[Future[Batch]] = deque()
        for values in arguments:
            waiting.append(thread.submit(function, *values))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
