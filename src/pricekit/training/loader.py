"""Batches from memory to the device: tokens are there already, so a batch is only padded and copied."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pricekit.config import RunConfig
from pricekit.log import logger
from pricekit.model.inference import to_tensors
from pricekit.training.batches import PricedInputs


def _leave_interrupts(worker: int) -> None:
    """Leave Ctrl-C and SIGTERM to the training process; a worker would inherit its handlers."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@dataclass(frozen=True)
class Rows(Dataset[dict[str, Tensor]]):
    """The batch of some row numbers: model inputs and `price`, float32 (B,)."""

    examples: PricedInputs
    length_multiple: int
    max_length: int

    def __getitem__(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Return one padded batch."""
        batch = to_tensors(self.examples.inputs.batch(rows, self.length_multiple, self.max_length))
        return batch | {"price": torch.from_numpy(self.examples.price[rows].astype(np.float32))}


class Loader:
    """Yields batches in a given order, made by worker processes where the configuration asks for them."""

    def __init__(self, examples: PricedInputs, config: RunConfig, device: torch.device) -> None:
        speed = config.speed
        self.rows = Rows(examples, speed.length_multiple, config.max_length)
        self.speed = speed
        self.device = device
        self.order: list[np.ndarray] = []
        self.workers = self._start(speed.workers)

    def __call__(self, order: Sequence[np.ndarray]) -> Iterator[dict[str, Tensor]]:
        """Yield the batches of these rows, on the device."""
        self.order[:] = order
        done = 0
        if self.workers is not None:
            try:
                for batch in self.workers:
                    yield self._moved(batch)
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
            yield self._moved(self.rows[rows])

    def _start(self, workers: int) -> DataLoader[dict[str, Tensor]] | None:
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

    def _moved(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.device.type == "cpu":
            return batch
        if self._pins:
            batch = {name: t if t.is_pinned() else t.pin_memory() for name, t in batch.items()}
        return {name: t.to(self.device, non_blocking=self.speed.non_blocking) for name, t in batch.items()}
