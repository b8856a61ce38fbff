"""Speed of training: pricekit, other training loops, and the effect of each switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pricekit.config import build_config
from pricekit.errors import PricekitError
from pricekit.io.progress import progress
from pricekit.training.machine import choose_precision
from pricekit.training.parallel import Processes
from pricekit.wording import counted
from speed.peers import PEERS, check_peers
from speed.timing import Run, Timed, interleaved, peak_memory, ratio
from speed.workload import Workload, matmul_peak, own_epoch, padding, training_flops

SWITCHES: dict[str, dict[str, Any]] = {
    "sorting by length": {"speed": {"sort_window": 1}},
    "padding to the batch's longest": {"speed": {"pad_to_multiple_of": 0}},  # 0 stands for max_length
    "bf16": {"speed": {"precision": "fp32"}},
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
"""Settings that `--ablate` changes, one at a time; a setting that has this value already is skipped."""

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
        peers: the other loops; `times` is how many times faster pricekit is.
        switches: pricekit without one switch each; `times` is how many times faster the switch makes it.
        facts: padding, memory and the share of the machine's peak.
    """

    own: Speed
    peers: list[Speed]
    switches: list[Speed]
    facts: dict[str, float | str]


def measure(workload: Workload, peers: list[str], repeats: int, *, ablate: bool) -> Measured:
    """Time an epoch over the workload's rows, with peers and switches in the same rounds."""
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
    """Return the switches that have an effect on this machine and configuration."""
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
    """Time pricekit with one setting changed, in turns with the unchanged one."""
    try:
        _, other = own_epoch(workload, changes)
        times = interleaved({"with": own, "without": other}, repeats)
    except (PricekitError, RuntimeError) as error:
        return Speed(name, 0.0, 0.0, None, f"failed: {' '.join(str(error).split())[:80]}")
    return _speed(workload, name, times["without"], ratio(times["without"], times["with"]))


def machine(device: torch.device) -> str:
    """Return the name of the device; it is published with the numbers."""
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
