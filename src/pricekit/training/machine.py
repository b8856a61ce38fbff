"""The machine that trains: precision, threads, and the global switches of torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pricekit.config import SpeedConfig
from pricekit.errors import ConfigError
from pricekit.io.cpus import usable_cpus
from pricekit.wording import counted

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
    features = torch.cpu.get_capabilities()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))


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


BUSY = 80
"""Utilisation in percent below which the run ends with advice."""


class Monitor:
    """Reads memory and utilisation of one GPU; silent without a GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.readings: list[int] = []

    def note(self) -> str:
        """Read the GPU and return a short note; "" without a GPU."""
        if self.device.type != "cuda":
            return ""
        memory = f"  {torch.cuda.max_memory_allocated(self.device) / 2**30:.1f} GiB"
        try:
            self.readings.append(torch.cuda.utilization(self.device))
        except Exception:
            # There is no driver library or no permission. Parts of a GPU and some virtual ones do not report it.
            return memory
        return f"{memory}, GPU {self.readings[-1]}%"

    def record(self) -> dict[str, float]:
        """Return the values for `metrics.jsonl`: peak memory in GiB, mean utilisation in percent."""
        if self.device.type != "cuda":
            return {}
        record = {"gpu_memory_gib": torch.cuda.max_memory_allocated(self.device) / 2**30}
        if self.readings:
            record["gpu_utilization"] = sum(self.readings) / len(self.readings)
        return record

    def advice(self) -> str:
        """Return advice in one line if the GPU was often idle, else ""."""
        if not self.readings or (busy := sum(self.readings) / len(self.readings)) >= BUSY:
            return ""
        return (
            f"the GPU was busy {busy:.0f}% of the time; use more of it with a larger training.batch_size and fewer "
            "gradient_accumulation_steps, or with speed.workers=2"
        )
