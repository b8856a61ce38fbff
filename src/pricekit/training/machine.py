"""The machine that trains: processes, interrupts, precision, threads, and the global switches of torch."""

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

from pricekit.config import SpeedConfig
from pricekit.errors import ConfigError
from pricekit.support.cpus import usable_cpus
from pricekit.support.interrupts import SIGNALS, finish_first
from pricekit.support.log import logger
from pricekit.support.text import counted

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_precision(speed: SpeedConfig, device: torch.device) -> str:
    """Return the precision to train in: fp32, bf16 or fp16; raises ConfigError if the device cannot use it."""
    if speed.precision == "fp16" and device.type != "cuda":
        raise ConfigError(
            f"speed.precision is fp16, which needs a CUDA GPU; this machine trains on {device.type}. Set it to auto, "
            "bf16 or fp32",
            parameters=("settings",),
            setting="speed.precision",
        )
    if speed.precision != "auto":
        return speed.precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if device.type == "cpu" and cpu_has_bf16() else "fp32"


def cpu_has_bf16() -> bool:
    """Return whether the CPU multiplies bfloat16 in hardware; in software it is slower than float32."""
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def describe(device: torch.device, precision: str, speed: SpeedConfig, processes: int) -> str:
    """Return one line about device, threads, processes and precision."""
    if device.type == "cuda":
        where = torch.cuda.get_device_name(device)
    else:
        where = f"{device.type}, {counted(cpu_threads(), 'thread')}"
    why = ""
    if speed.precision == "auto" and device.type == "cpu":
        why = (
            " (the CPU supports bfloat16)" if precision == "bf16" else " (the CPU does not support bfloat16)"
        )
    many = f", {processes} processes" if processes > 1 else ""
    return f"training on {where}{many}, precision {precision}{why}"


def cpu_threads() -> int:
    """Return the number of threads that training may use on the CPU.

    This is torch's number (OMP_NUM_THREADS, `torch.set_num_threads`), limited by the CPUs of the process.
    """
    return min(torch.get_num_threads(), usable_cpus())


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute each operation with `count` threads while the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def fast_math(speed: SpeedConfig) -> Iterator[None]:
    """Set torch's global switches while the block runs, then restore them."""
    saved = (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
    )
    try:
        torch.set_float32_matmul_precision(speed.matmul_precision if speed.tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = speed.tf32
        torch.backends.cudnn.benchmark = speed.cudnn_benchmark
        yield
    finally:
        torch.set_float32_matmul_precision(saved[0])
        torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = saved[1:]


class Processes:
    """Rank and device of this process, and operations across all processes.

    Attributes:
        rank: number of this process, from 0.
        count: the number of processes.
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
        """Wait for all processes."""
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
        """Leave the process group; torch warns if a process exits without doing so."""
        if self.count > 1:
            self.wait()
            self.state.destroy_process_group()


@contextmanager
def defer_interrupts(*, enabled: bool) -> Iterator[threading.Event]:
    """Set the yielded event at the first signal; the second signal raises KeyboardInterrupt.

    Args:
        enabled: False does not handle signals, as with several processes, which a signal reaches at different steps.
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

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        with finish_first():
            yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
