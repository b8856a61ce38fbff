"""Values for the progress bar and `metrics.jsonl`: loss, speed and GPU utilisation."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pricekit.training.guard import spike

if TYPE_CHECKING:
    from pricekit.training.session import Session

BUSY = 80
"""Utilisation in percent below which the run ends with advice."""

NOTE_SECONDS = 0.5
"""The loss is read from the device at most this often: reading waits for the device."""


class EpochLoss:
    """The loss of the current epoch, summed on the device until it is read."""

    def __init__(self, session: Session) -> None:
        self.session = session
        device = session.processes.device
        # In float64 the sum of float32 losses is exact, so it does not depend on when it is stored.
        self.total = torch.zeros(
            (), dtype=torch.float32 if device.type == "mps" else torch.float64, device=device
        )
        self.began, self.noted_at = time.perf_counter(), 0.0
        self.rows_before = session.state.rows

    def add(self, loss: Tensor | None, rows: int) -> None:
        """Add the mean loss of a step, a scalar, over its rows; None is a skipped step."""
        if loss is not None:
            self.total += loss.to(self.total.dtype) * rows

    def store(self) -> None:
        """Move the sum, over all processes, to the training state; raises SpikeError if it is not finite."""
        session = self.session
        session.stepper.guard.read()
        session.state.loss = _finite(session.state.loss + float(session.processes.sum(self.total)), session)
        self.total.zero_()

    def note(self) -> str:
        """Return epoch, mean loss and rows per second; "" within half a second of the last note."""
        now, session = time.perf_counter(), self.session
        if now - self.noted_at <= NOTE_SECONDS:
            return ""
        state, self.noted_at = session.state, now
        if session.processes.count == 1:  # several would read at different steps
            session.stepper.guard.read()
        mean = _finite(state.loss + float(self.total) * session.processes.count, session) / max(1, state.rows)
        speed = (state.rows - self.rows_before) / (now - self.began)
        epoch = f"epoch {state.epoch + 1}/{session.epochs}"
        return f"{epoch}  loss {mean:.4f}  {speed:,.0f} rows/s{session.monitor.note()}"


def _finite(loss: float, session: Session) -> float:
    if not math.isfinite(loss):
        config = session.config
        raise spike(
            f"the loss is not finite at step {session.state.step}. It comes from the loss '{config.loss.name}' or the "
            f"backbone '{config.backbone.name}'"
        )
    return loss


class Monitor:
    """Reads memory and utilisation of one NVIDIA GPU; silent without a GPU or its driver library."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.readings: list[int] = []
        self.handle: object | None = None
        if device.type == "cuda":
            try:
                import pynvml

                pynvml.nvmlInit()
                # By UUID, because CUDA_VISIBLE_DEVICES renumbers the devices of torch.
                uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
                self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            except Exception:  # no library, no driver, no permission: nothing is monitored
                self.handle = None

    def note(self) -> str:
        """Read the GPU and return a short note; "" without a GPU."""
        if self.device.type != "cuda":
            return ""
        memory = torch.cuda.max_memory_allocated(self.device) / 2**30
        if self.handle is None:
            return f"  {memory:.1f} GiB"
        try:
            import pynvml

            self.readings.append(int(pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu))
        except Exception:  # a part of a GPU and some virtual GPUs do not report it
            self.handle = None
            return f"  {memory:.1f} GiB"
        return f"  {memory:.1f} GiB, GPU {self.readings[-1]}%"

    def record(self) -> dict[str, float]:
        """Return the values for `metrics.jsonl`: peak memory in GiB, mean utilisation in percent."""
        if self.device.type != "cuda":
            return {}
        found = {"gpu_memory_gib": torch.cuda.max_memory_allocated(self.device) / 2**30}
        if self.readings:
            found["gpu_utilization"] = sum(self.readings) / len(self.readings)
        return found

    def advice(self) -> str:
        """Return advice in one line if the GPU was often idle, else ""."""
        if not self.readings or (busy := sum(self.readings) / len(self.readings)) >= BUSY:
            return ""
        return (
            f"the GPU was busy {busy:.0f}% of the time; use more of it with a larger training.batch_size and fewer "
            "gradient_accumulation_steps, or with speed.workers=2"
        )
