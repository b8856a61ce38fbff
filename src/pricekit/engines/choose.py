"""Which engine a bundle runs in: the one that was asked for, or the fastest that this machine has."""

from __future__ import annotations

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
"""Relative; an engine that differs by more is not chosen by `auto`."""

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

    What `auto` found is kept in the graph's cache folder, and holds until machine or engines change.

    Raises:
        PluginError: the engine is unknown, or a library or device that it needs is missing.
        BundleError: the graph cannot be loaded.
    """
    if name != AUTO:
        return _load(name, graph)
    record, machine = graph.cache / "engine.json", _machine()
    if found := _remembered(record, machine):
        try:
            return _load(found, graph)
        except PluginError:  # it was there then
            pass
    opened, failed = _loadable(graph)
    if len(opened) > 1:
        opened = _fastest_first(opened, _made_up_batch(graph, vocab_size))
        _remember(record, machine, opened[0].name)
    _say_what_a_gpu_misses(opened[0].name, failed)
    return opened[0]


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
        if expected is None or bool(np.all(np.abs(found - expected) <= MAX_DIFFERENCE * expected)):
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


def _remembered(record: Path, machine: str) -> str | None:
    try:
        found = json.loads(record.read_text("utf-8"))
        return str(found["engine"]) if found["machine"] == machine else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(record: Path, machine: str, name: str) -> None:
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        write_text(record, json.dumps({"machine": machine, "engine": name}) + "\n")
    except OSError:  # measured again the next time
        pass


def _say_what_a_gpu_misses(chosen: str, failed: dict[str, str]) -> None:
    reason = failed.get("ort-cuda")
    if reason and shutil.which("nvidia-smi"):
        notice(f"engine {chosen}, not the GPU: {reason}")
