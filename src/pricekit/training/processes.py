"""The processes that train together, and the signals that interrupt one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from accelerate import PartialState
from torch import Tensor

from pricekit.log import logger


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


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def defer_interrupts(*, enabled: bool) -> Iterator[threading.Event]:
    """Set the yielded event at the first signal; the second signal raises KeyboardInterrupt.

    Args:
        enabled: False leaves the signals alone, as with several processes, which a signal reaches at different steps.
    """
    interrupted = threading.Event()
    if not enabled or threading.current_thread() is not threading.main_thread():  # only it receives signals
        yield interrupted
        return

    def note(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        logger.warning("stopping after this step with a checkpoint; interrupt again to stop at once")

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
