"""Times what the guards of features and engines of others cost: CPU per row with them and without.

    python benchmarks/plugin_guards.py [--rows 32768] [--window 8192] [--rounds 9]

Features compute windows of rows, as in prediction. An engine, ONNX Runtime by another name, prices a bundle of `bag`.
Both forms alternate in each round. The target is a ratio of 1.05.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.features.fitted import make
from pricekit.features.fitted_feature import FittedFeature, transformed
from pricekit.plugin import Columns, Table, read_frame
from pricekit.predict.members import read_bundle

PLUGINS = """
import numpy as np
import pandas as pd
from pricekit import plugin

@plugin.feature("loop")
class Loop(plugin.Feature):
    names = ("length", "digits")
    def transform(self, table, state):
        return np.array([[len(t), sum(c.isdigit() for c in t[:60])] for t in table.text], np.float32).reshape(-1, 2)

@plugin.feature("light-loop")
class LightLoop(plugin.Feature):
    names = ("exclamations",)
    def transform(self, table, state):
        return np.array([[text.count("!")] for text in table.text], np.float32).reshape(-1, 1)

@plugin.feature("pattern")
class Pattern(plugin.Feature):
    names = ("amounts",)
    def transform(self, table, state):
        return table.text.str.count("[0-9]+ (?:oz|g|ml)").to_numpy("float32")[:, None]

@plugin.feature("number")
class Number(plugin.Feature):
    names, columns = ("weight",), ("weight",)
    def transform(self, table, state):
        return pd.to_numeric(table.frame["weight"], errors="coerce").fillna(0).to_numpy("float32")[:, None]

@plugin.engine("same")
class Same(plugin.Engine):
    batch_tokens = 1024
    def load(self, graph):
        from pricekit.predict.ort import load_cpu
        return load_cpu(graph.model)
"""


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=32_768)
    parser.add_argument("--window", type=int, default=8_192)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    rows, window, rounds = arguments.rows, arguments.window, arguments.rounds
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plugins.py"
        file.write_text(PLUGINS)
        pk.use_plugins(file)
        frame = pk.make_catalog(rows, seed=1).assign(weight=[str(number % 90 / 4) for number in range(rows)])
        table = read_frame(frame, Columns(price=None))
        results = []
        for name in ("loop", "light-loop", "pattern", "number"):
            guarded = make(name, {}, {})
            windows = [table.slice(start, start + window) for start in range(0, rows, window)]
            forms = (guarded, replace(guarded, guard=None))
            calls = [partial(_all_windows, part, windows) for part in forms]
            results.append(_line(f"feature {name}", *_alternately(calls, rounds), rows))
        pk.train(pk.make_catalog(2_000), epochs=2, features="optimized22").export(Path(folder) / "bundle")
        reader = read_bundle(Path(folder) / "bundle")
        inputs = reader.prepare(table)[0]
        (member,) = reader.open_members("same")
        every = np.arange(len(inputs))
        engines = (member.engine, replace(member.engine, guard=None))
        prices = [partial(one.price, inputs, every) for one in engines]
        results.append(_line("engine", *_alternately(prices, rounds), rows))
    show_table("CPU per row", ["plugin", "guarded, µs", "without, µs", "ratio"], results, stderr=False)


def _all_windows(part: FittedFeature, windows: list[Table]) -> None:
    for rows in windows:
        transformed(part, rows)


def _alternately(calls: list[Callable[[], object]], rounds: int) -> tuple[float, float]:
    """Return the median CPU seconds of two calls, after one round that does not count."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for call, taken in zip(calls, seconds, strict=True):
            began = time.process_time()
            call()
            if number:
                taken.append(time.process_time() - began)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def _line(name: str, guarded: float, without: float, rows: int) -> list[str]:
    each = [f"{seconds / rows * 1e6:.2f}" for seconds in (guarded, without)]
    return [name, *each, f"{guarded / without:.3f}"]


if __name__ == "__main__":
    main()
