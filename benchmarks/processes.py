"""Training speed of one process and of two, each with one thread; and of ways to exchange sparse gradients.

    python benchmarks/processes.py TABLE [--backbone bag] [--rounds 5] [--epochs 4] [--set KEY=VALUE ...] [--exchanges]

Each run is a `pricekit train` of one or two processes on this machine; the ways alternate. The speed of a run is the
median of its epochs without the first: rows per second, and rows per second of processor time of its first process,
which other work on the machine hardly changes. The table shows medians over the rounds, and the median ratio of each
way to one process in the same round. `--exchanges` also measures what pricekit does not do: torch's sum of sparse
tensors, which exists only for gloo, and the sum of dense gradients.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pricekit.cli.terminal import show_table

ONE, ROWS, SPARSE, DENSE = "one process", "rows", "sparse all-reduce", "dense all-reduce"
PROCESSES = 2

Speeds = tuple[float, float]
"""Rows per second, and rows per second of processor time."""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--backbone", default="bag")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--limit", type=int, default=4000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--exchanges", action="store_true")
    options = parser.parse_args()
    words = [
        str(options.table),
        "--backbone",
        options.backbone,
        "--epochs",
        str(options.epochs),
        "--no-refit",
    ]
    words += ["--limit", str(options.limit), "--quiet", "--set", "training.patience=none"]
    words += [word for setting in options.set for word in ("--set", setting)]
    ways = [ONE, ROWS, *([SPARSE, DENSE] if options.exchanges else [])]
    found: dict[str, list[Speeds]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for way in ways:
                found[way].append(measure(words, Path(folder) / f"{number}-{way}", way))
    show_table(
        f"{options.backbone}, {options.rounds} rounds",
        ["", "rows/s", "ratio", "rows per processor second", "ratio"],
        [[way, *_cells(found[way], found[ONE], 0), *_cells(found[way], found[ONE], 1)] for way in ways],
        stderr=False,
    )


def measure(words: list[str], out: Path, way: str) -> Speeds:
    """Return the speeds of a training."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    children = []
    for rank in range(1 if way == ONE else PROCESSES):
        launched = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(PROCESSES)}
        environment = dict(os.environ) | common | ({} if way == ONE else launched)
        command = [sys.executable, __file__, "train", way, *words, "--out", str(out)]
        children.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
    codes = [child.wait() for child in children]
    if not {0, 5}.issuperset(codes):
        sys.exit(f"failed: {' '.join(words)}")
    epochs = json.loads(Path(f"{out}.json").read_text("utf-8"))
    wall, processor = ([rows / epoch[kind] for rows, *epoch in epochs[1:]] for kind in (0, 1))
    return statistics.median(wall), statistics.median(processor)


def train(way: str, words: list[str]) -> None:
    """Be one of the processes, and write rows, seconds and processor seconds of each epoch beside the run."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    from pricekit.__main__ import run
    from pricekit.training import loop, parallel, step

    if way == SPARSE:
        step.mean_gradient = allreduce_hook
    if way == DENSE:
        parallel.mean_rows = mean_dense
    epochs: list[tuple[int, float, float]] = []

    def train_epoch(session: Any, *rest: Any, call: Any = loop.train_epoch) -> Any:
        rows, began, used = session.state.rows, time.perf_counter(), time.process_time()
        out_of_time = call(session, *rest)
        rows = session.state.rows - rows
        epochs.append((rows, time.perf_counter() - began, time.process_time() - used))
        if session.processes.main:
            Path(f"{words[-1]}.json").write_text(json.dumps(epochs), "utf-8")
        return out_of_time

    loop.train_epoch = train_epoch
    sys.argv = ["pricekit", "train", *words]
    run()


def mean_dense(group: Any, gradient: Any) -> Any:
    """Return the mean of a sparse gradient over all processes, summed as a dense one."""
    import torch

    total = gradient.to_dense()
    torch.distributed.all_reduce(total, group=group)
    rows = total.abs().sum(1).nonzero()[:, 0]  # the optimizer expects rows
    values = total[rows] / group.size()
    return torch.sparse_coo_tensor(
        rows[None], values, gradient.shape, is_coalesced=True, check_invariants=False
    )


def _cells(speeds: list[Speeds], alone: list[Speeds], kind: int) -> list[str]:
    ratio = statistics.median(speed[kind] / other[kind] for speed, other in zip(speeds, alone, strict=True))
    return [f"{statistics.median(speed[kind] for speed in speeds):,.0f}", f"{ratio:.2f}"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(sys.argv[2], sys.argv[3:])
    else:
        main()
