"""`pricekit bench train`: how fast training is, beside what, and thanks to what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pricekit.bench.peers import PEERS, check_peers
from pricekit.bench.timing import Run, Timed, interleaved, peak_memory, ratio
from pricekit.bench.workload import Workload, matmul_peak, own_epoch, padding, training_flops
from pricekit.config import build_config
from pricekit.errors import PricekitError
from pricekit.progress import progress
from pricekit.text import counted
from pricekit.training.machine import choose_precision
from pricekit.training.processes import Processes

SWITCHES: dict[str, dict[str, Any]] = {
    "sorting by length": {"speed": {"sort_window": 1}},
    "padding to the batch's longest": {"speed": {"pad_to_multiple_of": 0}},  # 0 stands for max_length
    "bf16": {"speed": {"precision": "fp32"}},
    "fused optimizer": {"speed": {"fused_optimizer": False}},
    "gradients set to none": {"speed": {"zero_grad_set_to_none": False}},
    "batches in the training process": {"speed": {"workers": 2}},
    "TF32": {"speed": {"tf32": False}},
    "cuDNN benchmark": {"speed": {"cudnn_benchmark": False}},
    "pinned memory, non-blocking": {"speed": {"pin_memory": False, "non_blocking": False}},
    "sliced positions": {"backbone": {"slice_positions": False}},
    "worker processes": {"speed": {"workers": 0}},
    "no compile": {"speed": {"compile": True}},
    "compile": {"speed": {"compile": False}},
    "no gradient checkpointing": {"speed": {"gradient_checkpointing": True}},
    "gradient checkpointing": {"speed": {"gradient_checkpointing": False}},
}
"""What `--ablate` turns round, one at a time; a setting that has the value already is passed over."""

_ON_GPU = ("TF32", "cuDNN benchmark", "pinned memory, non-blocking")


@dataclass(frozen=True)
class Speed:
    """One line of the result; numbers are medians over the rounds."""

    name: str
    rows_per_second: float
    tokens_per_second: float
    times: float | None
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """The result of a benchmark.

    Attributes:
        own: pricekit itself.
        peers: what it was compared with; `times` is how many times faster pricekit is.
        switches: what was turned off; `times` is how many times faster it is with the switch.
        facts: padding, memory and the share of the machine's peak.
    """

    own: Speed
    peers: list[Speed]
    switches: list[Speed]
    facts: dict[str, float | str]


def measure(workload: Workload, peers: list[str], repeats: int, *, ablate: bool) -> Measured:
    """Time an epoch over the workload's rows, peers and switches beside it."""
    device = Processes().device
    precision = choose_precision(workload.config.speed, device)
    check_peers(workload, peers)
    own, memory = peak_memory(lambda: own_epoch(workload)[1], device)
    runs = {"pricekit": own} | {name: PEERS[name][1](workload, precision, device) for name in peers}
    switches = _switches(workload, precision, device) if ablate else {}
    with progress("timing", repeats * (1 + len(switches))) as advance:
        times = interleaved(runs, repeats, after_round=lambda: advance(1))
        mine = times.pop("pricekit")
        found = [_speed(workload, PEERS[n][0], t, ratio(t, mine)) for n, t in times.items()]
        del runs
        changed = []
        for name, changes in switches.items():
            changed.append(_without(workload, name, changes, own, repeats))
            advance(repeats)
    line = _speed(workload, "pricekit", mine, None)
    return Measured(line, found, changed, _facts(workload, line, precision, device, memory))


def _speed(workload: Workload, name: str, timed: Timed, times: float | None, note: str = "") -> Speed:
    return Speed(name, workload.rows / timed.median, workload.tokens / timed.median, times, note)


def _switches(workload: Workload, precision: str, device: torch.device) -> dict[str, dict[str, Any]]:
    """Return the switches that mean something here."""
    left_out = set() if device.type == "cuda" else set(_ON_GPU)
    left_out |= {"bf16"} if precision == "fp32" else set()
    if not workload.config.backbone.options.get("slice_positions"):
        left_out.add("sliced positions")
    chosen = {name: changes for name, changes in SWITCHES.items() if name not in left_out}
    chosen["padding to the batch's longest"] = {"speed": {"pad_to_multiple_of": workload.config.max_length}}
    now = workload.config.model_dump()
    return {
        name: changes for name, changes in chosen.items() if build_config([now, changes]) != workload.config
    }


def _without(workload: Workload, name: str, changes: dict[str, Any], own: Run, repeats: int) -> Speed:
    """Time pricekit with one switch turned round, beside itself as it is."""
    try:
        _, other = own_epoch(workload, changes)
        times = interleaved({"with": own, "without": other}, repeats)
    except (PricekitError, RuntimeError) as error:
        return Speed(name, 0.0, 0.0, None, f"failed: {' '.join(str(error).split())[:80]}")
    return _speed(workload, name, times["without"], ratio(times["without"], times["with"]))


def machine(device: torch.device) -> str:
    """Name what is measured: numbers are committed with it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return counted(torch.get_num_threads(), "CPU thread")


def _facts(
    workload: Workload, own: Speed, precision: str, device: torch.device, memory: float
) -> dict[str, float | str]:
    flops = training_flops(workload.model) * own.tokens_per_second
    peak = matmul_peak(precision, device, workload.config.speed)
    return {
        "machine": machine(device),
        "precision": precision,
        "rows of a round": float(workload.rows),
        "tokens of a row": workload.tokens / workload.rows,
        "tokens computed for each real one, whole table": padding(workload),
        "peak memory of the process, GiB": memory,
        "GFLOP/s": flops / 1e9,
        "GFLOP/s of a matrix product": peak / 1e9,
        "share of it": flops / peak,
    }
