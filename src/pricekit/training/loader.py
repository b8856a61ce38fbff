"""Batches from memory to the device. Texts are already tokenised, so a batch is only padded, prepared and copied."""

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

from pricekit.config import RunConfig
from pricekit.model.inference import to_tensors
from pricekit.support.log import logger
from pricekit.training.batches import PricedInputs
from pricekit.training.machine import cpu_threads

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
        self.speed = speed
        self.device = device
        self.prepare_batch = prepare_batch if device.type == "cpu" else None
        self.threads = cpu_threads()
        self.order: list[np.ndarray] = []
        self.workers = self._start(speed.workers)

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

    def _start(self, workers: int) -> DataLoader[Batch] | None:
        if not workers:
            return None
        return DataLoader(
            self.rows,
            sampler=self.order,  # refilled for each epoch
            batch_size=None,
            num_workers=workers,
            prefetch_factor=self.speed.prefetch_factor,
            persistent_workers=self.speed.persistent_workers,
            pin_memory=self._pins,
            worker_init_fn=_leave_interrupts,
        )

    @property
    def _pins(self) -> bool:
        return self.speed.pin_memory and self.device.type == "cuda"

    def _moved(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        if self._pins:
            batch = {name: t if t.is_pinned() else t.pin_memory() for name, t in batch.items()}
        return {name: t.to(self.device, non_blocking=self.speed.non_blocking) for name, t in batch.items()}


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
