"""The processes that train together: one, or those that `accelerate launch` started."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from accelerate import PartialState
from torch import Tensor


class Processes:
    """Rank and device of this process, and the few things that all of them do together."""

    def __init__(self) -> None:
        told = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
        self.state = PartialState(cpu=told or not torch.accelerator.is_available())
        self.rank: int = self.state.process_index
        self.count: int = self.state.num_processes
        self.main: bool = self.state.is_main_process
        self.device: torch.device = self.state.device

    def wait(self) -> None:
        """Return when all processes are here."""
        if self.count > 1:
            self.state.wait_for_everyone()

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes."""
        if self.count > 1:
            tensor = tensor.clone().to(self.device)
            torch.distributed.all_reduce(tensor)
        return tensor

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give the main process's values to all of them: statistics of batches differ between processes."""
        if self.count > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)

    def agreed(self, number: float) -> float:
        """Return the main process's number in all of them: clocks differ."""
        if self.count == 1:
            return number
        return float(self.sum(torch.tensor(number if self.main else 0.0, dtype=torch.float64)))

    def end(self) -> None:
        """Leave the group; a process that exits without it is warned about."""
        if self.count > 1:
            self.wait()
            self.state.destroy_process_group()
