"""Seconds and memory of each stage of `pricekit train` until the first optimizer step, on a table of many rows.

    python benchmarks/training_start.py ../shared/data/amazon2025/train.csv --rows 700000 --features optimized22,columns

The table is made of the rows of the given one: a fifth of the words of each are replaced by others, one in 250 gets a
new spelling, prices vary, and a twentieth of the texts repeat the one before. CPU seconds are those of all threads, and
depend less on other processes than wall seconds. A stage inside another one counts in both. Peak MB are resident.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

import pricekit as pk
from pricekit.cli.terminal import show_table

REPLACED, RESPELLED, REPEATED, NOISE = 0.2, 0.004, 0.05, 0.3
"""Shares of words with another word, and of new spellings; share of repeated texts; deviation of the log price."""

STAGES = {
    "read the table": ("pricekit.runs.split", "load_rows"),
    "search for leaks": ("pricekit.runs.split", "check_leaks"),
    "search for duplicates": ("pricekit.runs.split", "duplicates_in"),
    "split": ("pricekit.runs.split", "split_table"),
    "tokenizer and features": ("pricekit.runs.prepare", "fit_parts"),
    "  of these, features": ("pricekit.runs.prepare", "fit_features"),
    "inputs": ("pricekit.runs.prepare", "inputs_of"),
    "model": ("pricekit.runs.prepare", "new_model"),
    "check of the plugins": ("pricekit.runs.prepare", "check_plugins"),
    "files of the run": ("pricekit.runs.prepare", "_write_run"),
}


class FirstStepError(Exception):
    """Ends the training at its first step."""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", default="optimized22,columns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        write_rows(options.table, table, options.rows)
        found = measure(table, Path(folder) / "run", options.features.split(","))
    rows = [[name, *(f"{value:,.1f}" for value in values)] for name, values in found.items()]
    show_table("training start", ["stage", "s", "CPU s", "peak MB"], rows, stderr=False)


def write_rows(source: Path, target: Path, rows: int) -> None:
    """Write a table of varied rows."""
    rng, frame = random.Random(0), pd.read_csv(source)
    texts, prices = frame["catalog_content"].tolist(), frame["price"].tolist()
    words = [word for text in texts for word in text.split(" ") if word and "\n" not in word]
    text = ""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sample_id", "catalog_content", "price"])
        for row in range(rows):
            chosen = rng.randrange(len(texts))
            if rng.random() >= REPEATED:
                text = " ".join(varied(texts[chosen].split(" "), words, rng))
            price = max(0.01, round(prices[chosen] * rng.lognormvariate(0, NOISE), 2))
            writer.writerow([row, text, price])


def varied(text: list[str], words: list[str], rng: random.Random) -> Iterator[str]:
    """Yield the words of a text, some of them replaced; a word with a line break stays."""
    for word in text:
        drawn = rng.random()
        if drawn >= REPLACED or "\n" in word:
            yield word
            continue
        ending = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=3)) if drawn < RESPELLED else ""
        yield rng.choice(words) + ending


def measure(table: Path, out: Path, features: list[str]) -> dict[str, list[float]]:
    """Return seconds, CPU seconds and peak MB of each stage and of all of them."""
    found = {name: [0.0, 0.0, 0.0] for name in [*STAGES, "until the first step"]}
    for name, (module, function) in STAGES.items():
        _time(importlib.import_module(module), function, found[name])
    step = importlib.import_module("pricekit.training.step").Stepper
    step.take = _stop
    whole = _timed(pk.train, found["until the first step"])
    try:
        whole(table, out=out, features=features)
    except FirstStepError:
        return found
    raise RuntimeError("the training ended before its first step")


def _stop(*_: Any) -> None:
    raise FirstStepError


def _time(module: Any, function: str, into: list[float]) -> None:
    setattr(module, function, _timed(getattr(module, function), into))


def _timed(function: Callable[..., Any], into: list[float]) -> Callable[..., Any]:
    """Return a function that adds its seconds and CPU seconds to `into`, and its peak memory."""

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        _note_peak()
        running.append(into)
        began, cpu = time.perf_counter(), time.process_time()
        try:
            return function(*arguments, **options)
        finally:
            into[0] += time.perf_counter() - began
            into[1] += time.process_time() - cpu
            _note_peak()
            running.pop()

    return run


running: list[list[float]] = []
"""The stages that have begun and not ended, one inside the other."""


def _note_peak() -> None:
    """Note the peak memory so far for each running stage, and begin a new one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    for stage in running:
        stage[2] = max(stage[2], peak)
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
