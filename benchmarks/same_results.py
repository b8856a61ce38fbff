"""Whether the working tree trains, exports and predicts exactly as another commit does.

    python benchmarks/same_results.py REVISION [--case default --case resume] [--keep FOLDER]

Both trees run the commands of each case at the same time, each on one core and one thread, on the same generated
products. Then prices and their intervals, by the run and by the bundle, the held-out rows, the split, the metrics and
the answers of other commands are compared to the bit. The exit code is 1 if anything differs. REVISION is checked out
into a temporary git worktree. Both trees use the packages of this Python. All cases take about 10 minutes on two cores.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pricekit.datasets import make_catalog

ROOT = Path(__file__).resolve().parents[1]
ROWS, NEW_ROWS = 600, 100
CHECKPOINTS = ("--set", "training.save_steps=3", "--set", "training.batch_size=64")
SMALL_TREES = ("--set", "feature_options.trees.rounds=30")
TINY_BAG = (
    *("--set", "backbone.vocab_size=500", "--set", "backbone.buckets=512", "--set", "backbone.width=8"),
    *("--set", "backbone.members=1", "--max-length", "32", "--epochs", "3", "--features", "fast15"),
)
TINY_TRANSFORMER = (
    *("--backbone", "transformer", "--set", "backbone.vocab_size=300", "--set", "backbone.width=16"),
    *("--set", "backbone.layers=1", "--set", "backbone.heads=2", "--max-length", "32", "--epochs", "3"),
    *("--set", "speed.gradient_checkpointing=false"),
)
LARGE_FILE = 65 << 20
"""Bytes of a table that training stores on disk."""

TABLES = (
    *("by-run.parquet", "by-bundle.parquet", "features.parquet"),
    *("held_out.parquet", "split.parquet", "rejected.parquet"),
)
"""Files whose cells are compared."""

FEATURES = """
from pathlib import Path
import pandas as pd
from pricekit.features.fit import fit_features
from pricekit.table import Columns, read_table
rows = read_table(Path("products.csv"), Columns(price=None))
fitted, _ = fit_features(["ultra25", "columns"], {}, rows)
values = pd.DataFrame(fitted.transform(rows), columns=fitted.names)
pd.concat([rows.ids, values], axis=1).to_parquet("features.parquet")
"""
"""Features without a model, which no command computes in every tree."""

SECONDS = 900
"""A command that takes longer hangs."""


@dataclass(frozen=True)
class Tree:
    """A source tree at work in a folder, on one core."""

    source: Path
    folder: Path
    core: int

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command of pricekit."""
        return self.start_python("-m", "pricekit", *arguments, **variables)

    def start_python(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start Python with the tree's package."""
        environment = {
            "PYTHONPATH": str(self.source),
            "OMP_NUM_THREADS": "1",
            "PRICEKIT_LOAD_PLUGINS": "",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {self.core}),
        )

    def run(self, *arguments: str) -> str:
        """Run a command to its end; return what it prints on stdout."""
        return _output_of(self.start(*arguments))


def _output_of(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=SECONDS)
    if process.returncode:
        raise RuntimeError(f"{process.args} ended with {process.returncode}:\n{errors}")
    return output


def train_default(tree: Tree) -> None:
    """Train with the defaults, and let other commands answer about the run."""
    tree.run("train", "products.csv", "--out", "run")
    _output_of(tree.start_python("-c", FEATURES))
    answers = {
        "evaluate.json": ("evaluate", "run", "--json"),
        "evaluate-table.json": ("evaluate", "run", "other.csv", "--json"),
        "explain.jsonl": ("explain", "run", "new.csv", "--json", "--limit", "5"),
        "comparables.jsonl": ("comparables", "run", "new.csv", "--among", "products.csv", "--json"),
        "importance.json": ("importance", "run", "other.csv", "--json"),
        "drift.json": ("drift", "run", "other.csv", "--json"),
        "check.txt": ("check", "products.csv"),
    }
    for name, arguments in answers.items():
        (tree.folder / name).write_text(tree.run(*arguments))


def train_best(tree: Tree) -> None:
    """Train the policy `best` with small members."""
    tree.run("train", "products.csv", "--out", "run", "--policy", "best", "--epochs", "3", *SMALL_TREES)


def train_blazing(tree: Tree) -> None:
    """Train the policy `blazing` with a tiny backbone."""
    tree.run("train", "products.csv", "--out", "run", "--policy", "blazing", *TINY_TRANSFORMER)


def cross_validate(tree: Tree) -> None:
    """Cross-validate in three folds, and combine their models with another one."""
    tree.run("cv", "products.csv", "--out", "cv", "--folds", "3", *TINY_BAG)
    tree.run("train", "products.csv", "--out", "single", *TINY_BAG, "--seed", "1")
    tree.run("ensemble", "single", "cv", "--out", "run")


def train_warm(tree: Tree) -> None:
    """Continue a run on a table with new rows."""
    options = ("--features", "optimized22,columns,trees", *SMALL_TREES, "--epochs", "3")
    tree.run("train", "products.csv", "--out", "yesterday", *options)
    tree.run("train", "more.csv", "--out", "run", "--init", "yesterday")


def resume(tree: Tree) -> None:
    """Kill a training in the middle of an epoch, and resume it."""
    command = ("train", "products.csv", "--out", "run", "--epochs", "4", *CHECKPOINTS, *SMALL_TREES)
    process = tree.start(*command)
    while process.poll() is None and not list(tree.folder.rglob("last.safetensors")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError("the training ended before it was killed")
    tree.run(*command, "--resume")


def train_in_two_processes(tree: Tree) -> None:
    """Train in two processes that exchange gradients with gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ("train", "products.csv", "--out", "run", *TINY_BAG, *CHECKPOINTS)
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    processes = [tree.start(*command, **common, RANK=rank, LOCAL_RANK=rank) for rank in ("0", "1")]
    for process in processes:
        _output_of(process)


def train_with_a_teacher(tree: Tree) -> None:
    """Train on unpriced rows with the prices of a teacher."""
    tree.run("train", "products.csv", "--out", "teacher", *TINY_BAG)
    pseudo = ("--unpriced", "new.csv", "--teacher", "teacher", "--seed", "1")
    tree.run("train", "products.csv", "--out", "run", *pseudo, *TINY_BAG)


def train_stored(tree: Tree) -> None:
    """Train on a table that is stored on disk."""
    tree.run("train", "large.csv", "--out", "run", *TINY_BAG)


CASES: dict[str, Callable[[Tree], None]] = {
    "default": train_default,
    "best": train_best,
    "blazing": train_blazing,
    "cv": cross_validate,
    "warm": train_warm,
    "resume": resume,
    "processes": train_in_two_processes,
    "teacher": train_with_a_teacher,
    "stored": train_stored,
}


def write_tables(folder: Path) -> None:
    """Write the tables that the cases read."""
    folder.mkdir()
    rows = make_catalog(ROWS + 2 * NEW_ROWS, seed=3)
    rows.iloc[:ROWS].to_csv(folder / "products.csv", index=False)
    rows.iloc[: ROWS + NEW_ROWS].to_csv(folder / "more.csv", index=False)
    rows.iloc[ROWS + NEW_ROWS :].to_csv(folder / "other.csv", index=False)
    rows.iloc[ROWS : ROWS + NEW_ROWS].drop(columns="price").to_csv(folder / "new.csv", index=False)
    notes = ["x" * (LARGE_FILE // ROWS)] * ROWS
    rows.iloc[:ROWS].assign(notes=notes).to_csv(folder / "large.csv", index=False)


def results_of(tree: Tree, case: str) -> dict[str, Any]:
    """Run a case, export its run, predict with both; return what must be equal, by name."""
    CASES[case](tree)
    tree.run("export", "run", "--out", "bundle")
    for model in ("run", "bundle"):
        engine = (
            ("--engine", "ort-cpu") if model == "bundle" else ()
        )  # chosen by measurement, if none is named
        tree.run("predict", model, "new.csv", "--out", f"by-{model}.parquet", "--interval", "0.9", *engine)
    results: dict[str, Any] = {}
    for path in sorted(tree.folder.rglob("*")):
        name = str(path.relative_to(tree.folder))
        if path.name in TABLES:
            results[name] = pd.read_parquet(path)
        elif path.name == "run.json":
            facts = json.loads(path.read_text("utf-8"))
            results[name] = {key: facts.get(key) for key in ("metrics", "rows", "best_epoch")}
        elif path.parent == tree.folder and path.suffix in (".json", ".jsonl", ".txt"):
            results[name] = path.read_text("utf-8")
    return results


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Yield the names of results that differ."""
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"{name} (only in the {'old' if name in old else 'new'} tree)"
        elif isinstance(old[name], pd.DataFrame):
            if not old[name].equals(new[name]):
                yield name
        elif old[name] != new[name]:
            yield name


def compare(case: str, sources: Sequence[Path], folder: Path) -> tuple[int, list[str]]:
    """Run a case with both trees at the same time; return how many results were compared, and which differ."""
    cores = sorted(os.sched_getaffinity(0))
    trees = []
    for number, (name, source) in enumerate(zip(("old", "new"), sources, strict=True)):
        place = folder / case / name
        place.mkdir(parents=True)
        for table in (folder / "tables").iterdir():
            (place / table.name).symlink_to(table)
        trees.append(Tree(source, place, cores[number % len(cores)]))
    with ThreadPoolExecutor(2) as pool:
        old, new = pool.map(results_of, trees, [case] * 2)
    return len(old), list(differences(old, new))


def main() -> None:
    """Parse the command line, run the cases and print what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all of them")
    parser.add_argument("--keep", type=Path, help="a new folder for the runs, to look into them afterwards")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep.resolve() if options.keep else Path(temporary) / "results"
        folder.mkdir(parents=True)
        write_tables(folder / "tables")
        old = Path(temporary) / "old"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(old), options.revision], check=True)
        try:
            for case in options.case or CASES:
                began = time.perf_counter()
                count, different = compare(case, (old / "src", ROOT / "src"), folder)
                failed = failed or bool(different)
                outcome = "DIFFER: " + ", ".join(different) if different else "no difference"
                print(
                    f"{case:10} {count:3} results  {time.perf_counter() - began:4.0f} s  {outcome}",
                    flush=True,
                )
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
