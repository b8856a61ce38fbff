"""Small models and tables for the trials, and what of them must be equal after a fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pricekit.datasets import make_catalog

TINY = (
    *("--set", "backbone.vocab_size=500", "--set", "backbone.buckets=512", "--set", "backbone.width=8"),
    *("--set", "backbone.members=1", "--set", "training.batch_size=64", "--set", "training.save_steps=3"),
    *("--max-length", "32", "--features", "fast15", "--epochs", "3"),
)
"""Options of a training that takes a second or two, and writes a checkpoint inside of each epoch."""

MEMBERS = ("--set", "members.one.seed=1", "--set", "members.two.seed=2")
"""Options that make a training one of an ensemble."""

TINY_TRANSFORMER = (
    *("--backbone", "transformer", "--set", "backbone.vocab_size=300", "--set", "backbone.width=16"),
    *("--set", "backbone.layers=1", "--set", "backbone.heads=2", "--max-length", "32", "--epochs", "2"),
)
"""Options of a pretraining that takes a few seconds."""


COMMANDS = {
    "train": ["train", "table.csv", "--out", "run", *TINY],
    "members": ["train", "table.csv", "--out", "members", *TINY, *MEMBERS],
    "cv": ["cv", "table.csv", "--out", "cv", "--folds", "2", *TINY],
    "ensemble": ["ensemble", "run", "cv", "--out", "ensemble"],
    "export": ["export", "run", "--out", "bundle"],
    "predict": ["predict", "bundle", "more.csv", "--out", "prices.csv", "--engine", "ort-cpu"],
    "pretrain": ["pretrain", "table.csv", "--out", "weights", *TINY_TRANSFORMER],
}
"""Commands that write, in an order in which each reads what those before it wrote."""


def command_of(kind: str) -> list[str]:
    """Return the words of a command of `COMMANDS`."""
    return list(COMMANDS[kind])


def write_table(path: Path, rows: int = 300, seed: int = 0) -> Path:
    """Write invented products with prices as CSV."""
    make_catalog(rows, seed=seed).to_csv(path, index=False)
    return path


def weights(path: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint by name."""
    from safetensors.numpy import load_file

    return load_file(path)


def assert_equal_weights(one: Path, other: Path) -> None:
    """Assert that two checkpoints hold the same weights, to the bit."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    different = [name for name in first if first[name].tobytes() != second[name].tobytes()]
    assert not different, f"{one} and {other} differ in {different}"


def assert_equal_runs(one: Path, other: Path) -> None:
    """Assert that two finished runs have the same weights, metrics and epochs."""
    assert_equal_weights(one / "best.safetensors", other / "best.safetensors")
    facts = [json.loads((run / "run.json").read_text("utf-8")) for run in (one, other)]
    for name in ("metrics", "best_epoch", "rows", "refit"):
        assert facts[0].get(name) == facts[1].get(name), name
    losses = [
        [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
        for run in (one, other)
    ]
    assert losses[0] == losses[1]


def assert_equal_files(one: Path, other: Path, *names: str) -> None:
    """Assert that files have the same bytes in two folders."""
    different = [name for name in names if (one / name).read_bytes() != (other / name).read_bytes()]
    assert not different, f"{one} and {other} differ in {different}"


def assert_nothing_left(folder: Path) -> None:
    """Assert that a folder and those below contain no temporary files, locks or unfinished folders."""
    left = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name.startswith(".") and not path.name.startswith(".output-")
    ]
    assert not left, f"left behind: {left}"
