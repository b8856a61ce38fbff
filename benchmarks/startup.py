"""How long a command takes to start, and what installed plugin packages add to it.

    python benchmarks/startup.py [--plugins 12] [--runs 11]

Processes in turn, medians. The packages register one loss each; the broken ones fail at import. `python -c pass` is
taken off the first line, `plugins list` without packages off the others, which are divided by their number.
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

GOOD = """
import pricekit
@pricekit.hookimpl
def pricekit_register_losses(register):
    register("{name}", "{name}:Loss", "a toy")
"""
BROKEN = "import a_library_that_is_not_there"


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plugins", type=int, default=12)
    parser.add_argument("--runs", type=int, default=11)
    options = parser.parse_args()
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
