"""Which engine a bundle runs in: the one that was asked for, or the fastest that this machine has."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pricekit.core.contracts import Batch, Graph, PriceBatch
from pricekit.core.guard import guarded
from pricekit.core.loader import registry
from pricekit.engines.ort import usable_cpus
from pricekit.errors import PluginError
from pricekit.files import write_text
from pricekit.screen import notice

AUTO = "auto"
REFERENCE = "ort-cpu"
"""Whose prices `auto` holds those of the others against."""

MAX_DIFFERENCE = 0.02
"""Relative; an engine that differs by more is not used."""

ROWS, LENGTH, REPEATS = 64, 128, 5
"""What `auto` times: so many rows of so many tokens, so often."""


@dataclass(frozen=True)
class Opened:
    """An engine with a bundle's graph loaded."""

    name: str
    price_batch: PriceBatch
    length_multiple: int


def open_engine(name: str, graph: Graph, vocab_size: int) -> Opened:
    """Load a graph into the engine of that name, or for `auto` into the fastest of this machine.

    What was found is kept in the graph's cache folder, and holds until machine or engines change.

    Raises:
        PluginError: the engine is unknown, a library or device that it needs is missing, or its prices differ
            from the reference's.
        BundleError: the graph cannot be loaded.
    """
    record = _Record(graph.cache / "engine.json", _machine())
    if name != AUTO:
        opened = _load(name, graph)
        if name != REFERENCE and name not in record.agreeing:
            _check_prices(opened, graph, vocab_size)
            record.write(record.fastest, {*record.agreeing, name})
        return opened
    if record.fastest:
        try:
            return _load(record.fastest, graph)
        except PluginError:  # it was there then
            pass
    found, failed = _loadable(graph)
    if len(found) > 1:
        found = _fastest_first(found, _made_up_batch(graph, vocab_size))
        record.write(found[0].name, {engine.name for engine in found})
    _say_what_a_gpu_misses(found[0].name, failed)
    return found[0]


class _Record:
    """What was found on this machine before: the fastest engine, and those whose prices agree."""

    def __init__(self, path: Path, machine: str) -> None:
        self.path, self.machine = path, machine
        self.fastest, self.agreeing = "", set[str]()
        try:
            found = json.loads(path.read_text("utf-8"))
            if found["machine"] == machine:
                self.fastest, self.agreeing = str(found["fastest"]), {str(n) for n in found["agreeing"]}
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def write(self, fastest: str, agreeing: set[str]) -> None:
        """Keep it, where that is possible; else it is measured again the next time."""
        found = {"machine": self.machine, "fastest": fastest, "agreeing": sorted(agreeing)}
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, json.dumps(found) + "\n")


def _check_prices(opened: Opened, graph: Graph, vocab_size: int) -> None:
    """Hold an engine's prices against the reference's, where that is installed; raises PluginError."""
    try:
        reference = _load(REFERENCE, graph)
    except PluginError:
        return
    batch = _made_up_batch(graph, vocab_size)
    difference = _difference(opened.price_batch(batch), reference.price_batch(batch))
    if not difference <= MAX_DIFFERENCE:
        raise PluginError(
            f"the engine {opened.name} prices this bundle otherwise than {REFERENCE} does, by up to "
            f"{100 * difference:.0f}%; use --engine {REFERENCE}, or {AUTO}"
        )


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected) / expected))


def _load(name: str, graph: Graph) -> Opened:
    engine = registry().create("engine", name)
    with guarded("engine", name, "loading the graph"):
        return Opened(name, engine.load(graph), int(engine.length_multiple))


def _loadable(graph: Graph) -> tuple[list[Opened], dict[str, str]]:
    """Return the engines that load, and why the others do not; raises PluginError where none does."""
    opened, failed = [], {}
    for entry in registry().of_kind("engine"):
        try:
            opened.append(_load(entry.name, graph))
        except PluginError as error:
            failed[entry.name] = str(error)
    if not opened:
        raise PluginError(failed.get(REFERENCE, "there is no engine; install onnxruntime"))
    return opened, failed


def _fastest_first(opened: list[Opened], batch: Batch) -> list[Opened]:
    """Return the engines by their time for a batch, without those whose prices differ."""
    expected = next((e.price_batch(batch) for e in opened if e.name == REFERENCE), None)
    times: dict[str, list[float]] = {}
    for engine in opened:
        found = engine.price_batch(batch)  # the first call is slower: not timed
        if expected is None or _difference(found, expected) <= MAX_DIFFERENCE:
            times[engine.name] = []
    for _ in range(REPEATS):
        for engine in opened:
            if engine.name in times:
                started = time.perf_counter()
                engine.price_batch(batch)
                times[engine.name].append(time.perf_counter() - started)
    usable = [engine for engine in opened if engine.name in times]
    return sorted(usable, key=lambda engine: statistics.median(times[engine.name]))


def _made_up_batch(graph: Graph, vocab_size: int) -> Batch:
    rng = np.random.default_rng(0)
    shape = (ROWS, min(LENGTH, graph.max_length))
    return {
        "input_ids": rng.integers(0, vocab_size, shape),
        "attention_mask": np.ones(shape, np.int64),
        "features": rng.normal(size=(ROWS, graph.features)).astype(np.float32),
    }


def _machine() -> str:
    """Return a hash of the processor, how much of it is ours, and the engines' versions."""
    model = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    names = [line for line in model.splitlines() if line.startswith("model name")][:1] or [model]
    engines = [(entry.name, entry.package, entry.version) for entry in registry().of_kind("engine")]
    text = json.dumps([platform.machine(), names, usable_cpus(), shutil.which("nvidia-smi"), engines])
    return hashlib.sha256(text.encode()).hexdigest()


def _say_what_a_gpu_misses(chosen: str, failed: dict[str, str]) -> None:
    reason = failed.get("ort-cuda")
    if reason and shutil.which("nvidia-smi"):
        notice(f"engine {chosen}, not the GPU: {reason}")
