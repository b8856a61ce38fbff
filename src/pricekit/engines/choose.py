"""The choice of the engine that runs a bundle: a named one, or the fastest on this machine."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pricekit.core.calls import plugin_call
from pricekit.core.contracts import Batch, Graph
from pricekit.core.loader import registry
from pricekit.engines import timing
from pricekit.engines.loaded import BATCH_TOKENS, LoadedEngine
from pricekit.engines.timing import EngineRecord, read_record
from pricekit.errors import BundleError, PluginError, PricekitError
from pricekit.support.log import logger
from pricekit.support.progress import progress

AUTO = "auto"
GPU = "ort-cuda"
REFERENCE = "ort-cpu"
"""The engine whose prices all others must match."""

MAX_DIFFERENCE = 0.02
"""Maximum relative price difference from the reference. Engines that differ by more are not used."""


def open_engine(
    name: str, graph: Graph, vocab_size: int, similar: LoadedEngine | None = None
) -> LoadedEngine:
    """Load a graph into the engine with a name, or for "auto" into the fastest engine on this machine.

    Only "auto" measures speed, once for each graph. The result is cached in the graph's cache folder until the machine
    or an engine changes. A named engine uses the batch size that "auto" has measured for it, or else its default.
    The prices of engines from other packages are compared with the reference's once, which loads the graph a second
    time.

    Args:
        name: the name of an engine, or "auto".
        graph: the graph to load.
        vocab_size: the number of tokens, for sample rows.
        similar: the engine of a similar graph, which "auto" reuses instead of measuring again.

    Raises:
        PluginError: the engine is unknown, a library or device that it needs is missing, or its prices differ
            from the reference's.
        BundleError: the graph cannot be loaded.
    """
    record = read_record(graph.cache / "engine.json")
    if name != AUTO:
        return _open_named(name, graph, vocab_size, record, similar)
    if similar is not None:
        with suppress(PluginError, BundleError):
            return _open_named(similar.name, graph, vocab_size, record, similar)
    return _open_recorded(graph, record) or _open_fastest(graph, vocab_size, record)


def _open_named(
    name: str, graph: Graph, vocab_size: int, record: EngineRecord, similar: LoadedEngine | None
) -> LoadedEngine:
    opened = _load(name, graph)
    if registry().get("engine", name).package != "pricekit" and name not in record.checked:
        _check_prices(opened, graph, vocab_size)
        record.save(checked=(*record.checked, name))
    default = similar if similar is not None and similar.name == name else opened
    return replace(opened, batch_tokens=record.batch_tokens.get(name, default.batch_tokens))


def _open_recorded(graph: Graph, record: EngineRecord) -> LoadedEngine | None:
    """Open the engine that was fastest before; None if it is unknown or cannot be loaded, or if a GPU is now usable."""
    reason = _load_failure(GPU, graph) if record.without_gpu else None
    if not record.fastest or (record.without_gpu and reason is None):
        return None
    try:
        opened = _load(record.fastest, graph)
    except (PluginError, BundleError):
        return None
    _warn_of_unused_gpu(opened.name, reason)
    return replace(opened, batch_tokens=record.batch_tokens.get(opened.name, opened.batch_tokens))


def _open_fastest(graph: Graph, vocab_size: int, record: EngineRecord) -> LoadedEngine:
    logger.info("measuring which engine is fastest for this bundle on this machine; the result is cached.")
    found, failed = _load_all(graph)
    if len(found) > 1:
        found = _agreeing(found, timing.sample_batch(graph, vocab_size))
    inputs = timing.sample_inputs(graph, vocab_size)
    with progress("choosing the fastest engine", len(found) * (len(timing.BATCH_TOKENS) - 1) + 1) as advance:
        found = [timing.with_best_batch_size(engine, inputs, advance) for engine in found]
        fastest = found[0]
        if len(found) > 1:
            fastest = found[int(np.median(timing.speeds(found, inputs), axis=1).argmax())]
    reason = failed.get(GPU) if shutil.which("nvidia-smi") else None
    record.save(
        fastest=fastest.name,
        batch_tokens={engine.name: engine.batch_tokens for engine in found},
        checked=tuple(engine.name for engine in found),
        without_gpu=reason is not None,
    )
    _warn_of_unused_gpu(fastest.name, reason)
    return fastest


def _load(name: str, graph: Graph) -> LoadedEngine:
    engine = registry().create("engine", name)
    with plugin_call("engine", name, "loading the graph"):
        streams, price = int(getattr(engine, "streams", 1)), engine.load(graph)
    turns = threading.Semaphore(streams)  # for predictions in several threads

    def price_batch(batch: Batch) -> np.ndarray:
        with turns, plugin_call("engine", name, "pricing a batch"):
            found: np.ndarray = price(batch)
        return found

    tokens = int(getattr(engine, "batch_tokens", BATCH_TOKENS))
    return LoadedEngine(name, price_batch, int(engine.length_multiple), streams, tokens, graph.max_length)


def _load_all(graph: Graph) -> tuple[list[LoadedEngine], dict[str, PricekitError]]:
    """Return the engines that load the graph, and the errors of the others; raises the reference's if none does."""
    opened: list[LoadedEngine] = []
    failed: dict[str, PricekitError] = {}
    for entry in registry().of_kind("engine"):
        try:
            opened.append(_load(entry.name, graph))
        except (PluginError, BundleError) as error:  # a library is missing, or an operation is unsupported
            failed[entry.name] = error
    if not opened:
        raise failed.get(REFERENCE, PluginError("there is no engine; install onnxruntime"))
    return opened, failed


def _agreeing(opened: list[LoadedEngine], batch: Batch) -> list[LoadedEngine]:
    """Return the engines whose prices agree with the reference's; all of them if there is no reference."""
    reference = next((engine for engine in opened if engine.name == REFERENCE), None)
    if reference is None:
        return opened
    expected = reference.price_batch(batch)
    return [engine for engine in opened if engine is reference or _agrees(engine, batch, expected)]


def _agrees(engine: LoadedEngine, batch: Batch, expected: np.ndarray) -> bool:
    try:
        return _difference(engine.price_batch(batch), expected) <= MAX_DIFFERENCE
    except Exception:  # it loads the graph, but cannot run it
        return False


def _check_prices(opened: LoadedEngine, graph: Graph, vocab_size: int) -> None:
    """Compare an engine's prices with the reference's, if that is installed; raises PluginError."""
    try:
        reference = _load(REFERENCE, graph)
    except PluginError:
        return
    batch = timing.sample_batch(graph, vocab_size)
    difference = _difference(opened.price_batch(batch), reference.price_batch(batch))
    if not difference <= MAX_DIFFERENCE:
        raise PluginError(
            f"the prices of the engine {opened.name} differ from those of {REFERENCE} for this bundle by up to "
            f"{100 * difference:.0f}%; choose {REFERENCE} or {AUTO}",
            parameters=("engine",),
            engine=opened.name,
            difference=difference,
        )


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected) / expected))


def _load_failure(name: str, graph: Graph) -> PricekitError | None:
    """Return why an engine cannot load a graph, None if it can."""
    try:
        _load(name, graph)
    except (PluginError, BundleError) as error:
        return error
    return None


def _warn_of_unused_gpu(chosen: str, reason: PricekitError | None) -> None:
    if reason:
        logger.warning(f"the engine is {chosen}; the GPU cannot be used: {reason}")
