"""CPU time and peak memory of `check` on a table with many columns of mixed kinds.

python benchmarks/wide_tables.py 5000 300
"""

import argparse
import csv
import random
import resource
import tempfile
from pathlib import Path

import pricekit as pk

WORDS = [
    "tea",
    "green",
    "black",
    "jam",
    "plum",
    "mild",
    "fresh",
    "box",
    "large",
    "small",
    "organic",
    "premium",
    "red",
    "blue",
]


def cell(kind: int, rng: random.Random) -> str:
    """Return a cell of one of twelve kinds of columns."""
    return (
        lambda: str(rng.randrange(100_000)),
        lambda: f"{100 * rng.random():.3f}",
        lambda: rng.choice(WORDS),
        lambda: " ".join(rng.choices(WORDS, k=3)),
        lambda: f"20{rng.randrange(10, 25)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 28):02}",
        lambda: "",
        lambda: " ".join(rng.choices(WORDS, k=30)),
        lambda: f"€ {rng.randrange(1, 2000)},{rng.randrange(100):02}",
        lambda: str(rng.randrange(100)) if rng.random() < 0.1 else "",
        lambda: f"{rng.randrange(1, 500)} kg",
        lambda: f"{rng.getrandbits(40):X}",
        lambda: "same",
    )[kind]()


def main() -> None:
    """Write a table, check it, and print the time and the memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("columns", type=int)
    parser.add_argument("rows", type=int)
    options, rng = parser.parse_args(), random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(
                ["title", "price", *(f"column {number}" for number in range(options.columns - 2))]
            )
            for row in range(options.rows):
                title, price = f"{' '.join(rng.choices(WORDS, k=5))} {row}", f"{rng.lognormvariate(3, 1):.2f}"
                writer.writerow([title, price, *(cell(n % 12, rng) for n in range(options.columns - 2))])
        began = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        pk.check(path)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    print(f"check: {spent.ru_utime + spent.ru_stime - began:.1f} CPU s, peak {spent.ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
