"""Damaged files: flipped bits, zeroed blocks, truncation and exchanged files, in whatever training and export write."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import pricekit as pk
from pricekit.config import RunConfig
from pricekit.config.resolve import configure
from pricekit.errors import PricekitError
from pricekit.io.log import logger
from pricekit.runs.opened import open_run, read_sample
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop
from tests.faults.campaign import Case
from tests.faults.models import assert_equal_runs, write_table

TRIALS, SHORT = 500, 60
REQUIREMENT = "detected before use, file named, fallback used"

SETTINGS: dict[str, Any] = {
    "backbone": {"name": "bag", "vocab_size": 400, "buckets": 256, "width": 4, "members": 1},
    "features": ["fast15"],
    "training": {"epochs": 3, "batch_size": 64, "save_steps": 3},
    "speed": {"progress": False},
    "max_length": 32,
}
FOLDERS = ("run", "unfinished", "ensemble", "cv", "bundle")
UNFINISHED_EPOCH = 2


def config_of(**changes: Any) -> RunConfig:
    """Return the configuration of the small runs."""
    return configure([SETTINGS, changes])


def prepare(folder: Path) -> None:
    """Train, combine and export small models, each of them twice: the second ones provide the exchanged files."""
    table = write_table(folder / "table.csv", 150)
    for seed, parent in enumerate((folder, folder / "other")):
        parent.mkdir(exist_ok=True)
        config, settings = config_of(seed=seed), {**SETTINGS, "seed": seed}
        train(Source(table), config, parent / "run")
        stop_training(table, config, parent / "unfinished")
        pk.cross_validate(table, out=parent / "cv", folds=2, settings=settings)
        pk.ensemble([parent / "run", parent / "cv"], out=parent / "ensemble")
        pk.load(parent / "run").export(parent / "bundle")
    np.savez(
        folder / "prices.npz", **{name: _prices(folder / name) for name in ("run", "ensemble", "bundle")}
    )


def stop_training(table: Path, config: RunConfig, out: Path) -> None:
    """Start a run that stops in the validation of its last epoch."""

    def validate(session: Any, *rest: Any, call: Callable[..., Any] = loop.validate) -> Any:
        if session.state.epoch == UNFINISHED_EPOCH:
            raise KeyboardInterrupt
        return call(session, *rest)

    before, loop.validate = loop.validate, validate
    try:
        train(Source(table), config, out)
    except KeyboardInterrupt:
        return
    finally:
        loop.validate = before
    raise AssertionError("the training did not stop")


def trial(case: Case) -> str:
    """Damage one file, or exchange two; then use the folder in the ways that users have."""
    kind = FOLDERS[case.number % len(FOLDERS)]
    copy = case.folder / kind
    shutil.copytree(case.shared / kind, copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file() and not path.name.startswith("."))
    file = case.random.choice(files)
    how, damaged = _damage(case, kind, copy, file, files)
    if not damaged:
        return "nothing changed"
    uses = _USES[kind]
    outcomes = {_use(use, case, copy, damaged) for use in uses}
    return f"{how}: {'found' if 'found' in outcomes else 'equal results'}"


def _damage(case: Case, kind: str, copy: Path, file: Path, files: list[Path]) -> tuple[str, list[Path]]:
    """Damage a file; return how, and the files that differ from before."""
    how = case.random.choice(["bits", "zeros", "truncated", "other's", "exchanged"])
    before = {path: path.read_bytes() for path in files}
    if how == "other's":
        source = case.shared / "other" / kind / file.relative_to(copy)
        if source.is_file():
            shutil.copyfile(source, file)
    elif how == "exchanged":
        other = case.random.choice([path for path in files if path != file])
        file.write_bytes(before[other])
        other.write_bytes(before[file])
    else:
        file.write_bytes(_damaged(case.random, before[file], how))
    return how, [path for path in files if path.read_bytes() != before[path]]


def _damaged(rng: random.Random, content: bytes, how: str) -> bytes:
    found = bytearray(content)
    if how == "truncated":
        return bytes(found[: rng.choice([0, rng.randrange(len(found)), len(found) - 1])])
    for _ in range(rng.choice([1, 1, 3])):
        place = rng.randrange(len(found))
        if how == "bits":
            found[place] ^= 1 << rng.randrange(8)
        else:
            length = rng.choice([16, 512, 4096])
            found[place : place + length] = bytes(len(found[place : place + length]))
    return bytes(found)


def _use(use: Callable[[Case, Path], None], case: Case, copy: Path, damaged: list[Path]) -> str:
    """Use a folder: the error names a damaged file, or nothing differs and the log names what was replaced."""
    with _logged() as messages:
        try:
            use(case, copy)
        except PricekitError as error:
            text = str(error)
            names = [path.name for path in damaged]
            # The manifest of another bundle is intact, but the other files are not those that it lists.
            named = any(name in text for name in names) or (
                "manifest.json" in names and "the manifest" in text
            )
            assert named, f"{names} damaged, but the error is: {text}"
            assert "\n" not in text, text
            return "found"
    return "found" if any("damaged" in message or "another" in message for message in messages) else "equal"


@contextmanager
def _logged() -> Iterator[list[str]]:
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)


def _prices(path: Path) -> np.ndarray:
    engine = "ort-cpu" if (path / "manifest.json").is_file() else None
    return np.asarray(pk.load(path, engine).predict(pk.make_catalog(20, seed=5)))


def _predict(case: Case, copy: Path) -> None:
    expected = np.load(case.shared / "prices.npz")[copy.name]
    assert np.array_equal(_prices(copy), expected), "other prices"


def _read_facts(case: Case, copy: Path) -> None:
    """Read the metrics, the held-out rows and the sample."""
    found, expected = pk.load(copy), pk.load(case.shared / copy.name)
    assert found.metrics == expected.metrics
    assert found.held_out.equals(expected.held_out)
    if copy.name == "run":
        assert read_sample(open_run(copy)).frame.equals(read_sample(open_run(case.shared / "run")).frame)


def _resume(case: Case, copy: Path) -> None:
    train(Source(case.shared / "table.csv"), config_of(), copy, mode="resume")
    assert_equal_runs(copy, case.shared / "run")
    assert_equal_held_out(copy, case.shared / "run")


def _resume_by_name(case: Case, copy: Path) -> None:
    pk.train(case.shared / "table.csv", out=copy, resume=True)
    assert_equal_runs(copy, case.shared / "run")


def _resume_cv(case: Case, copy: Path) -> None:
    pk.cross_validate(case.shared / "table.csv", out=copy, resume=True)
    assert_equal_held_out(copy, case.shared / "cv")


def assert_equal_held_out(one: Path, other: Path) -> None:
    """Assert that two folders have the same held-out rows and predictions."""
    first, second = pk.load(one), pk.load(other)
    assert first.held_out.equals(second.held_out)


_USES: dict[str, tuple[Callable[[Case, Path], None], ...]] = {
    "run": (_predict, _read_facts, _resume),
    "unfinished": (_resume_by_name,),
    "ensemble": (_predict, _read_facts),
    "cv": (_read_facts, _resume_cv),
    "bundle": (_predict,),
}
