"""How long a command takes to start, what installed plugin packages add to it, and its CPU time before it works.

    python benchmarks/startup.py [--plugins 12] [--runs 11]
    python benchmarks/startup.py --sources ../before/src src [--rows 1000] [--runs 11] [--bundle BUNDLE]

Processes in turn, medians. The packages register one loss each; the broken ones fail at import. `python -c pass` is
taken off the first line, `plugins list` without packages off the others, which are divided by their number.

The second form prints the CPU seconds, of all threads, that source folders need until a missing column or an unknown
setting is an error, until the rows of a table are read, until the first optimizer step, and for the prices of ten rows,
with a bundle of the default that the first folder trains on the generated rows, or an own one. A line starts with what
it is measured by: the import of the libraries that it cannot do without.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pricekit.cli.terminal import show_table
from pricekit.datasets import make_catalog

GOOD = """
import pricekit
@pricekit.plugin.hookimpl
def pricekit_register_losses(register):
    register("{name}", "{name}:Loss", "a toy")
"""
BROKEN = "import a_library_that_is_not_there"
FIRST_ROWS = """
import os, sys
import pricekit.table.source as source
from pricekit.cli.main import main

chunks = source.OpenedTable.chunks

def end(table, rows, warnings):
    if rows > 1000:  # fewer show the names and the columns of a table
        os._exit(1)
    return chunks(table, rows, warnings)

source.OpenedTable.chunks = end
sys.argv = ["pricekit", "train", sys.argv[1], "--out", sys.argv[2]]
main()
"""
FIRST_STEP = """
import os, sys
import pricekit as pk
from torch.optim.optimizer import register_optimizer_step_pre_hook

steps = []

def end(*_):
    steps.append(1)
    if len(steps) == 2:  # the first one checks the plugins
        os._exit(1)

register_optimizer_step_pre_hook(end)
pk.train(sys.argv[1], out=sys.argv[2])
"""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plugins", type=int, default=12)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--sources", nargs="+", type=Path, default=[])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--without-training", action="store_true", help="leave out the first step")
    options = parser.parse_args()
    if options.sources:
        measure_sources(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        good, broken = Path(folder) / "good", Path(folder) / "broken"
        install(good, "good", GOOD, options.plugins)
        install(broken, "broken", BROKEN, options.plugins)
        listing = ("-m", "pricekit", "plugins", "list", "--json")
        ways: dict[str, tuple[tuple[str, ...], str]] = {
            "pass": (("-c", "pass"), ""),
            "help": (("-m", "pricekit", "--help"), ""),
            "none": (listing, ""),
            "good": (listing, str(good)),
            "broken": (listing, str(broken)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.runs):
            for name, (arguments, path) in ways.items():
                seconds[name].append(timed(arguments, path))
    rows = [["pricekit --help", f"{1000 * over(seconds['help'], seconds['pass']):.0f}"]]
    for name in ("good", "broken"):
        added = 1000 * over(seconds[name], seconds["none"]) / options.plugins
        rows.append([f"a {name} plugin package", f"{added:.1f}"])
    show_table("start", ["what", "ms"], rows, stderr=False)


def measure_sources(options: argparse.Namespace) -> None:
    """Print the CPU seconds of each source folder, and how they compare with the imports that are needed."""
    sources, bundle = options.sources, options.bundle
    with tempfile.TemporaryDirectory() as folder:
        table, few, run = Path(folder) / "table.csv", Path(folder) / "few.csv", str(Path(folder) / "run")
        make_catalog(options.rows).to_csv(table, index=False)
        make_catalog(10, seed=1).to_csv(few, index=False)
        own = str(bundle or Path(folder) / "bundle")
        caches = [Path(folder) / f"cache-{number}" for number in range(len(sources))]
        if bundle is None:
            cpu_seconds(("-m", "pricekit", "train", str(table), "--out", run), sources[0], caches[0])
            cpu_seconds(("-m", "pricekit", "export", run, "--out", own), sources[0], caches[0])
            shutil.rmtree(run)
        train = ("-m", "pricekit", "train", str(table), "--out", run)
        price = ("-m", "pricekit", "predict", own, str(few), "--out", str(Path(folder) / "prices.csv"))
        reading, pricing = "import pandas, pyarrow", "import pandas, onnxruntime"
        ways = {
            reading: (reading, ("-c", reading)),
            "a missing column": (reading, (*train, "--text", "missing")),
            "an unknown setting": (reading, (*train, "--set", "training.epoch=3")),
            "until the rows are read": (reading, ("-c", FIRST_ROWS, str(table), run)),
            pricing: (pricing, ("-c", pricing)),
            "predict 10 rows": (pricing, price),
            "import torch": ("import torch", ("-c", "import torch")),
            "until the first step": ("import torch", ("-c", FIRST_STEP, str(table), run)),
        }
        if options.without_training:
            del ways["import torch"], ways["until the first step"]
        seconds: dict[tuple[str, Path], list[float]] = {(way, path): [] for way in ways for path in sources}
        for number in range(options.runs + 1):
            for (way, path), found in seconds.items():
                cpu = cpu_seconds(ways[way][1], path, caches[sources.index(path)])
                found += (
                    [cpu] if number else []
                )  # the first time, bytecode is written and engines are measured
                shutil.rmtree(run, ignore_errors=True)
    lines = []
    for way, (base, _) in ways.items():
        medians = [statistics.median(seconds[way, path]) for path in sources]
        times = [median / statistics.median(seconds[base, sources[0]]) for median in medians]
        lines.append([way, *(f"{m:.2f}" for m in medians), *(f"{t:.2f}" for t in times)])
    headers = [*(f"s, {path}" for path in sources), *(f"times the import, {path}" for path in sources)]
    show_table("CPU time", ["until", *headers], lines, stderr=False)


def cpu_seconds(arguments: tuple[str, ...], source: Path, cache: Path) -> float:
    """Return the CPU seconds of a process that imports pricekit from a folder, with a cache of its own."""
    environment = os.environ | {"PYTHONPATH": str(source.absolute()), "XDG_CACHE_HOME": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def install(folder: Path, name: str, source: str, count: int) -> None:
    """Write packages as pip leaves them."""
    for number in range(count):
        module = f"{name}{number}"
        facts = folder / f"{module}-1.0.dist-info"
        facts.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source.format(name=module))
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[pricekit]\n{module} = {module}\n")


def timed(arguments: tuple[str, ...], path: str) -> float:
    """Return the seconds that a process takes."""
    environment = os.environ | ({"PYTHONPATH": path} if path else {})
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
    return time.perf_counter() - started


def over(found: list[float], base: list[float]) -> float:
    """Return the median of the differences, in turn."""
    return statistics.median(a - b for a, b in zip(found, base, strict=True))


if __name__ == "__main__":
    main()
