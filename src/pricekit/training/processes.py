"""The processes that train together: this one alone, or those that `accelerate launch` started."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from accelerate import PartialState
from torch import Tensor


class Processes:
    """Rank and device of this process, and what all processes do together.

    Attributes:
        rank: number of this process, from 0.
        count: how many processes there are.
        main: whether this is the process that writes files and logs.
        device: where this process computes.
    """

    def __init__(self) -> None:
        cpu_only = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
        self.state = PartialState(cpu=cpu_only or not torch.accelerator.is_available())
        self.rank: int = self.state.process_index
        self.count: int = self.state.num_processes
        self.main: bool = self.state.is_main_process
        self.device: torch.device = self.state.device

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            self.state.wait_for_everyone()

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, of the same shape."""
        if self.count > 1:
            tensor = tensor.clone().to(self.device)
            torch.distributed.all_reduce(tensor)
        return tensor

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Copy the main process's values into the tensors of all others: batch statistics differ between them."""
        if self.count > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)

    def from_main(self, number: float) -> float:
        """Return the main process's number in every process: clocks differ."""
        if self.count == 1:
            return number
        return float(self.sum(torch.tensor(number if self.main else 0.0, dtype=torch.float64)))

    def end(self) -> None:
        """Leave the process group; torch warns about a process that exits without."""
        if self.count > 1:
            self.wait()
            self.state.destroy_process_group()
