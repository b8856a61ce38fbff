"""Compare configurations over seeds: each seed splits the rows in its own way, the same for all of them."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pricekit as pk
from pricekit.cli.terminal import show_table


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every such comparison."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--limit", type=int, help="rows to read")
    parser.add_argument("--max-length", type=int, help="tokens of a text; default: that of the policy")
    return parser


def compare(given: argparse.Namespace, variants: Mapping[str, Mapping[str, Any]]) -> None:
    """Train each variant with each seed, without a refit, and print mean SMAPE and seconds as a table.

    Args:
        given: the arguments of `parser_of`.
        variants: options of `pricekit.train` by name; the first is the base of the differences.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for seed in given.seeds:
        for name, options in variants.items():
            found[name].append(_trained(given, {**options, "seed": seed}))
            print(f"seed {seed}, {name}: {found[name][-1][0]:.2f} in {found[name][-1][1]:.0f} s", flush=True)
    base = [score for score, _ in next(iter(found.values()))]
    rows = [[name, *_cells(runs, base)] for name, runs in found.items()]
    show_table("", ["", "SMAPE", "difference of each seed", "seconds"], rows, stderr=False)


def _trained(given: argparse.Namespace, options: dict[str, Any]) -> tuple[float, float]:
    """Return the SMAPE on the validation rows and the seconds of a training."""
    shared = {"limit": given.limit, "max_length": given.max_length, "refit": False}
    chosen = {name: value for name, value in shared.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = pk.train(given.table, out=Path(folder) / "run", **chosen, **options)
        return run.metrics["smape"], time.perf_counter() - began


def _cells(runs: list[tuple[float, float]], base: list[float]) -> list[str]:
    scores, seconds = zip(*runs, strict=True)
    differences = " ".join(f"{score - other:+.2f}" for score, other in zip(scores, base, strict=True))
    return [f"{statistics.mean(scores):.2f}", differences, f"{statistics.mean(seconds):.0f}"]
