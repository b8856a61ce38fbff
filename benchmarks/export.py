"""Time and peak memory of `pricekit export`, for each backbone and precision.

    python benchmarks/export.py TABLE [--backbone distilroberta ...] [--precision fp16 ...] [--repeats 3]
                                      [--runs FOLDER] [--before OLD/src]

For each backbone, with random weights and the true architecture, the script trains a run for one epoch on 200 rows of
a table with prices; --runs keeps the runs for the next call. Each export is a process of its own. --before also
exports with the source tree of another version, in turn. The table shows medians: seconds, CPU seconds (which depend
less on other work), the peak resident memory in GB, and as a multiple of the float32 weights.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pricekit.cli.terminal import show_table

BACKBONES = ("distilroberta", "deberta-v3-small", "deberta-v3-base")
PRECISIONS = ("fp32", "fp16", "int8")
TRAIN = ("--limit", "200", "--epochs", "1", "--random-weights", "--no-refit", "--quiet")
SMALL_BATCHES = ("--set", "training.batch_size=8", "--set", "training.eval_batch_size=16")
HEADERS = ["backbone", "precision", "version", "s", "CPU s", "peak GB", "times the weights"]
NEW = Path(__file__).parents[1] / "src"

Measured = tuple[float, float, float]
"""Seconds, CPU seconds, bytes."""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, help="CSV with prices")
    parser.add_argument("--backbone", nargs="+", default=BACKBONES)
    parser.add_argument("--precision", nargs="+", default=PRECISIONS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for backbone in options.backbone:
            run = (options.runs or Path(folder)) / backbone
            if not run.exists():
                pricekit(NEW, "train", str(options.table), "--backbone", backbone, "--out", str(run), *TRAIN)
            for precision in options.precision:
                lines += _lines(run, precision, options, Path(folder) / "bundle")
    show_table(f"export, 200 rows, {options.repeats} repeats", HEADERS, lines, stderr=False)


def _lines(run: Path, precision: str, options: argparse.Namespace, bundle: Path) -> list[list[str]]:
    """Export a run repeatedly with each version."""
    versions = ({"before": options.before} if options.before else {}) | {"now": NEW}
    found: dict[str, list[Measured]] = {version: [] for version in versions}
    for number in range(options.repeats):
        for version in list(versions)[:: 1 if number % 2 == 0 else -1]:
            arguments = "export", str(run), "--precision", precision, "--out", str(bundle), "--overwrite"
            found[version].append(pricekit(versions[version], *arguments))
    weights = (run / "best.safetensors").stat().st_size
    lines = []
    for version, measured in found.items():
        seconds, cpu, peak = (statistics.median(column) for column in zip(*measured, strict=True))
        numbers = f"{seconds:.0f}", f"{cpu:.0f}", f"{peak / 1e9:.2f}", f"{peak / weights:.1f}"
        lines.append([run.name, precision, version, *numbers])
    return lines


def pricekit(source: Path, command: str, *arguments: str) -> Measured:
    """Run a command of one source tree."""
    small = SMALL_BATCHES if command == "train" else ()
    environment = os.environ | {"PYTHONPATH": str(source.resolve())}
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "pricekit", command, *arguments, *small],
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"failed: pricekit {command} {' '.join(arguments)}")
    unit = 1 if sys.platform == "darwin" else 1024
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, float(usage.ru_maxrss * unit)


if __name__ == "__main__":
    main()
