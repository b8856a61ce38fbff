"""Which engine a bundle runs in: the one that was asked for, or the fastest that this machine has."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import re
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import metadata
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from pricekit.core.contracts import Batch, Graph
from pricekit.core.guard import guarded
from pricekit.core.loader import registry
from pricekit.cpus import usable_cpus
from pricekit.engines.loaded import BATCH_SIZE, LoadedEngine, each
from pricekit.errors import BundleError, PluginError, PricekitError
from pricekit.files import write_text
from pricekit.log import logger
from pricekit.preprocess import Inputs
from pricekit.tokens import Tokens

AUTO = "auto"
GPU = "ort-cuda"
REFERENCE = "ort-cpu"
"""Whose prices `auto` holds those of the others against."""

MAX_DIFFERENCE = 0.02
"""Relative; an engine that differs by more is not used."""

LENGTH, REPEATS, ENOUGH_S = 128, 5, 4.0
"""How many tokens a row has that is timed, how often it is, and after how many seconds no more."""

CHECKED = 2048
"""Tokens whose prices are held against the reference's."""

BATCH_TOKENS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Sizes of a batch that are timed, from the smallest up: a CPU's caches like it small, a GPU large."""

LEAST_S = 0.05
"""Seconds that are timed at least: shorter, and starting the threads would be a part of it."""

BETTER = 1.1
"""How many times as fast a larger size has to be: machines are noisy, and a size that is too large costs more."""


def open_engine(name: str, graph: Graph, vocab_size: int, like: LoadedEngine | None = None) -> LoadedEngine:
    """Load a graph into the engine of that name, or for `auto` into the fastest of this machine.

    What was found is kept in the graph's cache folder, and holds until machine or engines change.

    Args:
        name: of an engine, or `auto`.
        graph: what to load.
        vocab_size: tokens that a made-up batch may hold.
        like: where an alike graph runs, so that no speed is measured again.

    Raises:
        PluginError: the engine is unknown, a library or device that it needs is missing, or its prices differ
            from the reference's.
        BundleError: the graph cannot be loaded.
    """
    record = _Record(graph.cache / "engine.json", _machine())
    if like is not None:
        try:
            return _opened_like(like, graph, vocab_size, record)
        except (PluginError, BundleError):
            if name != AUTO:
                raise
    if name != AUTO:
        opened = _load(name, graph)
        if name in record.batch_tokens:
            return record.fed(opened)
        logger.warning(
            f"trying how the engine {name} prices this bundle fastest; that is kept for the next time."
        )
        _check_prices(opened, graph, vocab_size)
        opened = _sized(opened, graph, vocab_size)
        record.write(record.fastest, {**record.batch_tokens, name: opened.batch_tokens})
        return opened
    reason = _why_not(GPU, graph) if record.without_gpu else None
    if record.fastest and (reason or not record.without_gpu):  # else there is a GPU now
        try:
            opened = record.fed(_load(record.fastest, graph))
            _say_what_a_gpu_misses(opened.name, reason)
            return opened
        except (PluginError, BundleError):  # it was there then
            pass
    logger.warning("trying what prices this bundle fastest on this machine; that is kept for the next time.")
    found, failed = _loadable(graph)
    if len(found) > 1:
        found = _agreeing(found, _made_up_batch(graph, vocab_size))
    found = [_sized(opened, graph, vocab_size) for opened in found]
    fastest = found[0]
    if len(found) > 1:
        fastest = found[int(np.median(_speeds(found, graph, vocab_size), axis=1).argmax())]
    reason = failed.get(GPU) if shutil.which("nvidia-smi") else None
    record.without_gpu = False
    record.write(fastest.name, {engine.name: engine.batch_tokens for engine in found}, reason is not None)
    _say_what_a_gpu_misses(fastest.name, reason)
    return fastest


def _opened_like(like: LoadedEngine, graph: Graph, vocab_size: int, record: _Record) -> LoadedEngine:
    """Load a graph where an alike one runs; raises PluginError, BundleError where that cannot price this one."""
    opened = replace(_load(like.name, graph), batch_tokens=like.batch_tokens)
    if like.name not in record.batch_tokens:
        _check_prices(opened, graph, vocab_size)
        record.write(record.fastest, {**record.batch_tokens, like.name: like.batch_tokens})
    return opened


class _Record:
    """What was found on this machine before: the fastest engine, and how large a batch each right one likes."""

    def __init__(self, path: Path, machine: str) -> None:
        self.path, self.machine = path, machine
        self.fastest, self.batch_tokens, self.without_gpu = "", dict[str, int](), False
        try:
            found = json.loads(path.read_text("utf-8"))
            if found["machine"] == machine:
                sizes = {str(name): int(tokens) for name, tokens in found["batch_tokens"].items()}
                self.fastest, self.batch_tokens = str(found["fastest"]), sizes
                self.without_gpu = bool(found.get("without_gpu"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            pass

    def write(self, fastest: str, batch_tokens: Mapping[str, int], without_gpu: bool = False) -> None:
        """Keep it, where that is possible; else it is measured again the next time."""
        found: dict[str, object] = {"machine": self.machine, "fastest": fastest, "batch_tokens": batch_tokens}
        found |= {"without_gpu": without_gpu or self.without_gpu}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, json.dumps(found) + "\n")
        except OSError as error:
            logger.warning(f"what was found cannot be kept in {self.path.parent}: {error.strerror or error}.")

    def fed(self, opened: LoadedEngine) -> LoadedEngine:
        """Return the engine with batches of the size that it likes."""
        return replace(opened, batch_tokens=self.batch_tokens.get(opened.name, opened.batch_tokens))


def _sized(opened: LoadedEngine, graph: Graph, vocab_size: int) -> LoadedEngine:
    """Return the engine with batches of the largest size that is clearly faster than smaller ones.

    Two sizes that are not end the search; one may be a little faster only, and its double more so.
    """
    best, *larger = (replace(opened, batch_tokens=tokens) for tokens in BATCH_TOKENS)
    failed = 0
    for engine in larger:
        small, large = _speeds([best, engine], graph, vocab_size)
        if np.median(large / small) >= BETTER:
            best, failed = engine, 0
        elif (failed := failed + 1) == 2:
            break
    return best


def _speeds(engines: list[LoadedEngine], graph: Graph, vocab_size: int) -> np.ndarray:
    """Return tokens a second, (engines, rounds), each engine given its batches and taking turns with the others.

    A batch is padded each time, as those of a table are.
    """
    inputs = _made_up(graph, vocab_size)
    batches = [engine.batches(inputs) for engine in engines]
    repeats = [1] * len(engines)
    rounds: list[list[float]] = []
    began = time.perf_counter()
    for number in range(1 + REPEATS):
        speeds = []
        for place, engine in enumerate(engines):
            some = list(islice(cycle(batches[place]), engine.streams * repeats[place]))
            started = time.perf_counter()
            each(partial(_price, engine, inputs), some, engine.streams)
            took = time.perf_counter() - started
            speeds.append(int(inputs.tokens.lengths[np.concatenate(some)].sum()) / took)
            if not number:
                repeats[place] = 1 + int(LEAST_S / took)
        if number:  # the first round is slower
            rounds.append(speeds)
        if rounds and time.perf_counter() - began > ENOUGH_S:
            break
    return np.array(rounds).T


def _price(engine: LoadedEngine, inputs: Inputs, rows: np.ndarray) -> None:
    engine.price_batch(engine.batch(inputs, rows))


def _check_prices(opened: LoadedEngine, graph: Graph, vocab_size: int) -> None:
    """Hold an engine's prices against the reference's, where that is installed; raises PluginError."""
    if opened.name == REFERENCE:
        return
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


def _load(name: str, graph: Graph) -> LoadedEngine:
    engine = registry().create("engine", name)
    with guarded("engine", name, "loading the graph"):
        streams, price = int(getattr(engine, "streams", 1)), engine.load(graph)
    turns = threading.Semaphore(streams)  # also where several threads predict

    def price_batch(batch: Batch) -> np.ndarray:
        with turns, guarded("engine", name, "pricing a batch"):
            found: np.ndarray = price(batch)
        return found

    return LoadedEngine(name, price_batch, int(engine.length_multiple), streams, max_length=graph.max_length)


def _loadable(graph: Graph) -> tuple[list[LoadedEngine], dict[str, PricekitError]]:
    """Return the engines that load the graph, and why others do not; raises what the reference did if none does."""
    opened: list[LoadedEngine] = []
    failed: dict[str, PricekitError] = {}
    for entry in registry().of_kind("engine"):
        try:
            opened.append(_load(entry.name, graph))
        except (
            PluginError,
            BundleError,
        ) as error:  # a library is missing, or knows not all of its operations
            failed[entry.name] = error
    if not opened:
        raise failed.get(REFERENCE, PluginError("there is no engine; install onnxruntime"))
    return opened, failed


def _agreeing(opened: list[LoadedEngine], batch: Batch) -> list[LoadedEngine]:
    """Return the engines without those whose prices differ from the reference's, where that is among them."""
    reference = next((engine for engine in opened if engine.name == REFERENCE), None)
    if reference is None:
        return opened
    expected = reference.price_batch(batch)
    return [engine for engine in opened if engine is reference or _agrees(engine, batch, expected)]


def _agrees(engine: LoadedEngine, batch: Batch, expected: np.ndarray) -> bool:
    try:
        return _difference(engine.price_batch(batch), expected) <= MAX_DIFFERENCE
    except Exception:  # it loads the graph and cannot run it
        return False


def _made_up(graph: Graph, vocab_size: int) -> Inputs:
    """Return rows of equal length, as many as the largest batch may have."""
    rng = np.random.default_rng(0)
    length = min(LENGTH, graph.max_length)
    ids = rng.integers(0, vocab_size, BATCH_SIZE * length).astype(np.int32)
    tokens = Tokens(ids, np.arange(BATCH_SIZE + 1) * length)
    return Inputs(tokens, rng.normal(size=(BATCH_SIZE, graph.features)).astype(np.float32), 0)


def _made_up_batch(graph: Graph, vocab_size: int) -> Batch:
    """Return about `CHECKED` tokens, rows that end earlier and earlier; the mask hides what is unlike padding."""
    inputs = _made_up(graph, vocab_size)
    batch = inputs.batch(np.arange(max(1, CHECKED // int(inputs.tokens.lengths[0]))))
    rows, length = batch["input_ids"].shape
    ends = length - np.arange(rows) * length // (2 * rows)
    return {**batch, "attention_mask": (np.arange(length) < ends[:, None]).astype(np.int64)}


_ENGINE_EXTRA = re.compile("extra == .(?:cpu|gpu)")


def _machine() -> str:
    """Return a hash of the processor, how much of it is ours, and the versions of engines and of what they need."""
    model = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    names = [line for line in model.splitlines() if line.startswith("model name")][:1] or [model]
    engines = [(entry.name, entry.package, entry.version) for entry in registry().of_kind("engine")]
    libraries = {package: _versions_below(package) for _, package, _ in engines}
    text = json.dumps(
        [platform.machine(), names, usable_cpus(), shutil.which("nvidia-smi"), engines, libraries]
    )
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _versions_below(package: str) -> dict[str, str]:
    """Return the versions of what an engine's package requires, of pricekit itself what `cpu` and `gpu` install."""
    found = {}
    with contextlib.suppress(metadata.PackageNotFoundError, ValueError):  # a file given with --plugin
        for requirement in metadata.requires(package) or []:
            if package == "pricekit" and not _ENGINE_EXTRA.search(requirement):
                continue
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(name)
    return found


def _why_not(name: str, graph: Graph) -> PricekitError | None:
    """Return why an engine does not load a graph, None where it does."""
    try:
        _load(name, graph)
    except (PluginError, BundleError) as error:
        return error
    return None


def _say_what_a_gpu_misses(chosen: str, reason: PricekitError | None) -> None:
    if reason:
        logger.warning(f"engine {chosen}, not the GPU: {reason}")
