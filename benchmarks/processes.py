"""Training speed of one process and of two, each with one thread; and of ways to exchange sparse gradients.

    python benchmarks/processes.py TABLE [--backbone bag] [--rounds 5] [--epochs 4] [--set KEY=VALUE ...]
    python benchmarks/processes.py TABLE --exchanges

Each run is a `pricekit train` of one or several processes on this machine; the ways alternate. A run's speed is the
median of its epochs without the first, from `metrics.jsonl`. The table shows medians over the rounds, and the median
ratio of each way to one process in the same round. `--exchanges` also measures what pricekit does not do: torch's sum
of sparse tensors, which exists only for gloo, and the sum of dense gradients.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pricekit.cli.terminal import show_table

ONE, ROWS, SPARSE, DENSE = "one process", "rows", "sparse all-reduce", "dense all-reduce"


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--backbone", default="bag")
    parser.add_argument("--processes", type=int, default=2)
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
    found: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for way in ways:
                out = Path(folder) / f"{number}-{way}"
                found[way].append(measure([*words, "--out", str(out)], out, way, options.processes))
    cells = [[way, *_cells(found[way], found[ONE])] for way in ways]
    title = f"{options.backbone}, {options.processes} processes of one thread, {options.rounds} rounds"
    show_table(title, ["", "rows/s", "ratio"], cells, stderr=False)


def measure(words: list[str], out: Path, way: str, processes: int) -> float:
    """Return the rows per second of a training."""
    count = 1 if way == ONE else processes
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(count):
        environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
        if count > 1:
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": str(port)}
            environment |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
            environment |= {"MASTER_ADDR": "127.0.0.1"}
        command = [sys.executable, __file__, "train", way, *words]
        children.append(subprocess.Popen(command, env=environment))
    codes = [child.wait() for child in children]
    if not {0, 5}.issuperset(codes):
        sys.exit(f"failed: {' '.join(words)}")
    lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    speeds = [json.loads(line)["rows_per_second"] for line in lines]
    return statistics.median(speeds[1:] or speeds)


def train(way: str, words: list[str]) -> None:
    """Be one of the processes."""
    from pricekit.__main__ import run

    if way in (SPARSE, DENSE):
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        from pricekit.training import step
        from pricekit.training.parallel import exchange

        exchange.mean_rows = mean_dense
        step.mean_gradient = allreduce_hook if way == SPARSE else exchange.mean_gradient
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


def _cells(speeds: list[float], alone: list[float]) -> list[str]:
    ratio = statistics.median(speed / other for speed, other in zip(speeds, alone, strict=True))
    return [f"{statistics.median(speeds):,.0f}", f"{ratio:.2f}"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(sys.argv[2], sys.argv[3:])
    else:
        main()
