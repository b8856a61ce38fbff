"""How busy the GPU is, for the progress line and for `metrics.jsonl`."""

from __future__ import annotations

import torch

BUSY = 80
"""Percent of utilisation under which the run ends with a line of advice."""


class Monitor:
    """Reads memory and utilisation of one NVIDIA GPU; silent where there is none or no driver library."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.readings: list[int] = []
        self.handle: object | None = None
        if device.type == "cuda":
            try:
                import pynvml

                pynvml.nvmlInit()
                # By its UUID, because CUDA_VISIBLE_DEVICES renumbers the devices of torch.
                uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
                self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            except Exception:  # no library, no driver, no permission: training goes on without
                self.handle = None

    def note(self) -> str:
        """Read the GPU and return a short note, "" where there is none."""
        if self.device.type != "cuda":
            return ""
        memory = torch.cuda.max_memory_allocated(self.device) / 2**30
        if self.handle is None:
            return f"  {memory:.1f} GiB"
        try:
            import pynvml

            self.readings.append(int(pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu))
        except Exception:  # a part of a GPU, and some virtual ones, do not tell
            self.handle = None
            return f"  {memory:.1f} GiB"
        return f"  {memory:.1f} GiB, GPU {self.readings[-1]}%"

    def record(self) -> dict[str, float]:
        """Return what `metrics.jsonl` keeps: peak memory in GiB and mean utilisation in percent."""
        if self.device.type != "cuda":
            return {}
        found = {"gpu_memory_gib": torch.cuda.max_memory_allocated(self.device) / 2**30}
        if self.readings:
            found["gpu_utilization"] = sum(self.readings) / len(self.readings)
        return found

    def advice(self) -> str:
        """Return one line where the GPU was idle for much of the time, else ""."""
        if not self.readings or (busy := sum(self.readings) / len(self.readings)) >= BUSY:
            return ""
        return (
            f"the GPU was busy {busy:.0f}% of the time; a larger training.batch_size with fewer "
            "gradient_accumulation_steps, or --set speed.workers=2, would use more of it."
        )
