"""Engines with a loaded model, and the choice of the one that runs a bundle: a named one, or the fastest here."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import threading
import time
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from pricekit.core.calls import plugin_call, repair
from pricekit.core.contracts import Batch, Graph
from pricekit.core.loader import registry
from pricekit.core.registry import Entry, remedy_for
from pricekit.errors import BundleError, PluginError, PricekitError
from pricekit.features.preprocess import Inputs
from pricekit.io.cpus import usable_cpus
from pricekit.io.files import write_text
from pricekit.io.log import logger, onnx_runtime
from pricekit.predict.loaded_engine import BATCH_SIZE, REFERENCE, Guard, LoadedEngine, agree, for_each
from pricekit.text.tokens import Tokens
from pricekit.wording import shorten

AUTO = "auto"
RECORD = "engine.json"
GPU = "ort-cuda"
GPUS = (GPU, "ort-tensorrt", "ort-tensorrt-rtx")
GUARDED = GPUS[1:]
"""Engines of pricekit whose prices are compared like those of other packages: TensorRT chooses how to compute."""

LENGTH, REPEATS, ENOUGH_S = 128, 5, 4.0
"""Tokens of a sample row; rounds of a comparison; seconds after which no further round starts."""

COMPARED = ((1, 128), (2, 64), (65, 32), (256, 16))
"""Rows, and tokens of the longest one, of the batches that "auto" compares with the reference's."""

LEAST_S = 0.05
"""Minimum seconds per measurement. In a shorter one, the start of the threads would count."""

_ENGINE_EXTRA = re.compile("extra == .(?:cpu|gpu|tensorrt)")


def open_engine(name: str, graph: Graph, vocab_size: int, similar: str | None = None) -> LoadedEngine:
    """Load a graph into the engine with a name, or for "auto" into the fastest engine on this machine.

    Only "auto" measures speed, if there are several engines, once for each graph. The result is cached in the graph's
    cache folder until the machine or an engine changes. TensorRT, and an engine from another package, get a guard,
    which loads the graph into the reference, too, when it prices.

    Args:
        name: the name of an engine, or "auto".
        graph: the graph to load.
        vocab_size: the number of tokens, for sample rows.
        similar: the name of the engine of a similar graph, which "auto" takes instead of measuring again; or None.

    Raises:
        PluginError: the engine is unknown, or a library or device that it needs is missing.
        BundleError: the graph cannot be loaded.
    """
    if name != AUTO:
        return _load(name, graph)
    if similar is not None:
        with suppress(PluginError, BundleError):
            return _load(similar, graph)
    record = _read_record(graph)
    return _open_recorded(graph, record) or _open_fastest(graph, vocab_size, record)


def _open_recorded(graph: Graph, record: EngineRecord) -> LoadedEngine | None:
    """Open the engine that was fastest before; None if it is unknown or cannot be loaded, or if a GPU is now usable."""
    reason: PricekitError | None = None
    if record.without_gpu:
        try:
            _load(GPU, graph)
        except (PluginError, BundleError) as error:
            reason = error
        else:
            return None
    if not record.fastest:
        return None
    try:
        opened = _load(record.fastest, graph)
    except (PluginError, BundleError):
        return None
    _warn_of_unused_gpu(opened.name, reason)
    return opened


def _open_fastest(graph: Graph, vocab_size: int, record: EngineRecord) -> LoadedEngine:
    opened: list[LoadedEngine] = []
    failed: dict[str, PricekitError] = {}
    for entry in registry().of_kind("engine"):
        try:
            opened.append(_load(entry.name, graph))
        except (PluginError, BundleError) as error:  # a library is missing, or an operation is unsupported
            failed[entry.name] = error
    if not opened:
        raise failed.get(REFERENCE, PluginError("there is no engine; install onnxruntime"))
    reference = next((engine for engine in opened if engine.name == REFERENCE), None)
    if reference is not None and len(opened) > 1:
        rows, batches = sample_batches(graph, vocab_size)
        opened = [e for e in opened if e is reference or agree(e, reference, rows, batches)]
    fastest = opened[0]
    if len(opened) > 1:
        logger.info(
            "measuring which engine is fastest for this bundle on this machine; the result is cached."
        )
        try:
            tokens_per_second = speeds(opened, sample_inputs(graph, vocab_size))
        except BundleError as error:  # the graph cannot price random tokens, but perhaps the rows
            logger.warning(f"the engine is {fastest.name}, because no speed could be measured: {error}")
            return fastest
        fastest = opened[int(np.median(tokens_per_second, axis=1).argmax())]
    used = any(engine.name in GPUS for engine in opened)
    reason = failed.get(GPU) if shutil.which("nvidia-smi") and not used else None
    record = record.model_copy(update={"fastest": fastest.name, "without_gpu": reason is not None})
    _write_record(graph, record)
    _warn_of_unused_gpu(fastest.name, reason)
    return fastest


def _load(name: str, graph: Graph) -> LoadedEngine:
    entry, engine = registry().get("engine", name), registry().create("engine", name)
    with suppress(ImportError):  # silences it: an engine of another package may use it, too
        onnx_runtime()
    with plugin_call("engine", name, "loading the graph"):
        try:
            price = engine.load(graph)
        except ImportError as error:
            raise PluginError(
                f"the engine '{name}' of {entry.package} {entry.version} cannot import what it needs: {error}. "
                f"{remedy_for(error, entry.package, entry.version)}",
                parameters=("engine",),
                **entry.facts(),
            ) from error
        streams, multiple, tokens = (
            _count(entry, engine, number) for number in ("streams", "length_multiple", "batch_tokens")
        )
    turns = threading.Semaphore(streams)  # for predictions in several threads

    def price_batch(batch: Batch) -> np.ndarray:
        with turns, plugin_call("engine", name, "pricing a batch"):
            prices: np.ndarray = price(batch)
        return prices

    trusted = entry.package == "pricekit" and name not in GUARDED
    guard = None if trusted else Guard(entry, partial(_load, REFERENCE, graph))
    return LoadedEngine(name, price_batch, multiple, streams, tokens, graph.max_length, guard)


def _count(entry: Entry, engine: Any, name: str) -> int:
    """Return a number of an engine; raises PluginError unless it is an int of at least 1."""
    number = getattr(engine, name)
    if isinstance(number, int) and number >= 1:
        return int(number)
    raise PluginError(
        f"the engine '{entry.name}' of {entry.package} {entry.version} has {name} = {shorten(repr(number))}; expected "
        f"an int of at least 1. Choose another engine, or {repair('engine', entry.name)}",
        parameters=("engine",),
        **entry.facts(),
    )


def _warn_of_unused_gpu(chosen: str, reason: PricekitError | None) -> None:
    if reason:
        logger.warning(f"the engine is {chosen}; the GPU cannot be used: {reason}")


def sample_inputs(graph: Graph, vocab_size: int) -> Inputs:
    """Return rows of equal length and random tokens, as many as the largest batch may have."""
    rng = np.random.default_rng(0)
    length = min(LENGTH, graph.max_length)
    ids = rng.integers(0, max(1, vocab_size), BATCH_SIZE * length).astype(np.int32)
    tokens = Tokens(ids, np.arange(BATCH_SIZE + 1) * length)
    return Inputs(tokens, rng.normal(size=(BATCH_SIZE, graph.features)).astype(np.float32), 0)


def sample_batches(graph: Graph, vocab_size: int) -> tuple[Inputs, list[np.ndarray]]:
    """Return rows of random tokens, and those of each batch of `COMPARED`; the padding is no special token."""
    rng = np.random.default_rng(0)
    lengths = [
        min(longest, graph.max_length) - np.arange(rows) * min(longest, graph.max_length) // (2 * rows)
        for rows, longest in COMPARED
    ]
    offsets = np.concatenate([[0], np.concatenate(lengths).cumsum()])
    ids = rng.integers(0, max(1, vocab_size), offsets[-1]).astype(np.int32)
    features = rng.normal(size=(len(offsets) - 1, graph.features)).astype(np.float32)
    batches = np.split(np.arange(len(features)), np.cumsum([*map(len, lengths)])[:-1])
    return Inputs(Tokens(ids, offsets), features, max(0, vocab_size - 1)), batches


def speeds(engines: list[LoadedEngine], inputs: Inputs) -> np.ndarray:
    """Return tokens per second, (engines, rounds); the engines take turns, each with its own batch size.

    Padding is part of the measured time, as it is for a table.
    """
    batches = [engine.batches(inputs) for engine in engines]
    repeats = [1] * len(engines)
    rounds: list[list[float]] = []
    started = time.perf_counter()
    for number in range(1 + REPEATS):
        tokens_per_second = []
        for place, engine in enumerate(engines):
            some = list(islice(cycle(batches[place]), engine.streams * repeats[place]))
            began = time.perf_counter()
            for_each(partial(engine.price_rows, inputs), some, engine.streams)
            seconds = time.perf_counter() - began
            tokens_per_second.append(int(inputs.tokens.lengths[np.concatenate(some)].sum()) / seconds)
            if not number:
                repeats[place] = 1 + int(LEAST_S / seconds)
        if number:  # the first round is slower
            rounds.append(tokens_per_second)
        if rounds and time.perf_counter() - started > ENOUGH_S:
            break
    return np.array(rounds).T


class EngineRecord(BaseModel):
    """Results for one graph; they are valid until the machine or an engine changes.

    Attributes:
        machine: as of `_machine`.
        fastest: the engine that `auto` chose; "" before a measurement.
        without_gpu: there was an NVIDIA GPU that could not be used.
    """

    machine: str
    fastest: str = ""
    without_gpu: bool = False


def _write_record(graph: Graph, record: EngineRecord) -> None:
    """Cache a record. If that fails, the engines are measured again next time."""
    try:
        graph.cache.mkdir(parents=True, exist_ok=True)
        write_text(graph.cache / RECORD, record.model_dump_json() + "\n")
    except OSError as error:
        logger.warning(f"the measurements cannot be cached in {graph.cache}: {error.strerror or error}.")


def _read_record(graph: Graph) -> EngineRecord:
    """Return the record of a graph; an empty one if there is none for this machine or the file is damaged."""
    machine = _machine()
    with suppress(OSError, ValueError):
        record = EngineRecord.model_validate_json((graph.cache / RECORD).read_bytes())
        if record.machine == machine:
            return record
    return EngineRecord(machine=machine)


def _machine() -> str:
    """Return a hash of the processor, the usable CPUs, and the versions of engines and their libraries."""
    model = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    names = [line for line in model.splitlines() if line.startswith("model name")][:1] or [model]
    engines = [(entry.name, entry.package, entry.version) for entry in registry().of_kind("engine")]
    libraries = {package: _library_versions(package) for _, package, _ in engines}
    text = json.dumps(
        [platform.machine(), names, usable_cpus(), shutil.which("nvidia-smi"), engines, libraries]
    )
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _library_versions(package: str) -> dict[str, str]:
    """Return the versions of an engine package's requirements; of pricekit, those of its extras for engines."""
    versions = {}
    with suppress(metadata.PackageNotFoundError, ValueError):  # a file given with --plugin
        for requirement in metadata.requires(package) or []:
            if package == "pricekit" and not _ENGINE_EXTRA.search(requirement):
                continue
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            with suppress(metadata.PackageNotFoundError):
                versions[name] = metadata.version(name)
    return versions
