"""The checks of an engine; torch is imported only to create the graph."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, thread
from contextlib import chdir, contextmanager, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Engine, Graph, PriceBatch
from pricekit.errors import BundleError, PluginError, PricekitError
from pricekit.predict.loaded_engine import MAX_CHANGE, MAX_DIFFERENCE, is_price, relative_differences
from pricekit.predict.ort import load_cpu
from pricekit.testing.data import FEATURES, batch
from pricekit.testing.runner import (
    CheckFailed,
    Checks,
    Make,
    fail,
    is_count,
    is_float32,
    require_import_without_torch,
    require_methods,
    shown,
    without_torch,
)
from pricekit.wording import counted, shorten

LONGEST = 300
SHAPES = ((1, 1), (1, LONGEST), (2, 7), (65, 33), (300, 12), (1000, 12), (64, 70), (3, LONGEST), (2, 7))
CALLS = 100
"""Calls of one row, after which an engine has the same prices."""
"""Rows and tokens of batches. Two have one shape, but other rows."""

ROUNDS = 40
"""Batches for each stream."""

SECOND_LOAD_S = 60.0
"""The time for a second load of a graph, whose compiled files are in the cache."""

END_S = 5.0
"""The time for threads to end after nothing refers to the engine."""


def checks() -> Checks:
    """Return the checks; see `pricekit.testing.check_engine`."""
    return {
        "has load and no Options": _members,
        "length_multiple, streams and batch_tokens": _numbers,
        "finite, positive float32 prices": _prices,
        "prices match the reference": _parity,
        "the same prices each time": _repeats,
        "independent of the other rows of the batch": _batch_sensitivity,
        "returned arrays are not overwritten": _stays,
        "batches are not changed": _unchanged,
        "concurrent streams give the same prices": _streams,
        "a second engine loads the same graph": _second,
        "rejects an invalid graph": _refuses,
        "writes only into graph.cache": _writes,
        "prints nothing": _prints,
        "leaves no threads": _threads,
        "module imports no torch": lambda make: require_import_without_torch(make()),
        "runs without torch": _runs_without_torch,
    }


@cache
def _graph(backbone: str | None) -> bytes:
    """Return the graph for all engines; it is made once, which needs torch and some seconds."""
    from pricekit.testing.models import small_graph

    return small_graph(backbone or "transformer")


@contextmanager
def _loaded(make: Make) -> Iterator[tuple[Any, PriceBatch]]:
    """Yield the engine and the loaded graph."""
    with TemporaryDirectory() as folder:
        engine = make()
        yield engine, engine.load(_graph_in(folder, engine))


def _graph_in(folder: str, engine: Any, model: bytes | None = None) -> Graph:
    return Graph(model or _graph(engine.backbone), LONGEST, FEATURES, Path(folder) / "cache")


def _batch(engine: Any, rows: int, length: int, seed: int = 0) -> Batch:
    """Return a batch whose length is rounded up as in a prediction; each seventh row has large features."""
    inputs = batch(rows, _round_up(engine, length))
    scale = np.where(np.arange(rows) % 7 == 6, np.float32(500), np.float32(1))[:, None]
    return {**inputs, "features": (inputs["features"] + np.float32(seed)) * scale}


def _round_up(engine: Any, length: int) -> int:
    multiple = int(engine.length_multiple)
    return min(-(-length // multiple) * multiple, LONGEST)


def _price(price: PriceBatch, inputs: Batch) -> np.ndarray:
    """Return the prices of a batch; fail with its shape if the engine does."""
    try:
        return price(inputs)
    except (PricekitError, CheckFailed):
        raise
    except Exception as error:
        rows, length = inputs["input_ids"].shape
        fail(
            f"{_size(rows, length)} raised {type(error).__name__}: {shorten(str(error), 300)}",
            "their prices",
            f"price batches of any number of rows, and of any length up to graph.max_length, here {LONGEST}",
        )


def _size(rows: int, length: int) -> str:
    return f"{counted(rows, 'row')} of {counted(length, 'token')}"


def _members(make: Make) -> None:
    engine = make()
    require_methods(engine, "load")
    if hasattr(engine, "Options"):
        fail(
            f"{type(engine).__name__} has Options",
            "none: neither the command line nor Python can set options of an engine",
            "remove Options; __init__ gets no arguments",
        )


def _numbers(make: Make) -> None:
    engine = make()
    for name in ("length_multiple", "streams", "batch_tokens"):
        number = getattr(engine, name)
        if not is_count(number):
            fail(f"{name} is {number!r}", "an int of at least 1", f"set {name} = {getattr(Engine, name)}")


def _prices(make: Make) -> None:
    with _loaded(make) as (engine, price):
        for rows, length in SHAPES:
            prices = _price(price, _batch(engine, rows, length))
            if not is_float32(prices, np.ndarray, (rows,)):
                fail(
                    f"for {_size(rows, length)} the engine returned {shown(prices)}",
                    f"float32 of shape ({rows},)",
                    "return the graph's output `price` as a numpy array",
                )
            if not (usable := is_price(prices)).all():
                fail(
                    f"the price of row {1 + int(usable.argmin())} in a batch of {_size(rows, length)} is "
                    f"{prices[usable.argmin()]}",
                    "finite, positive prices",
                    "pass input_ids and attention_mask as int64 and features as float32; where the mask is 0, "
                    "attention and means must ignore the tokens; compute a float32 graph in float32, because float16 "
                    "overflows above 65,504",
                )


def _parity(make: Make) -> None:
    with _loaded(make) as (engine, price):
        reference = load_cpu(_graph(engine.backbone))
        for number, (rows, length) in enumerate(SHAPES):
            inputs = _batch(engine, rows, length, SHAPES[:number].count((rows, length)))
            expected = reference(inputs)
            _require_close(
                _price(price, inputs),
                expected,
                f"prices of {_size(*inputs['input_ids'].shape)} differ from those of ONNX Runtime on the CPU",
                "check that all three inputs arrive with their dtype (int64, float32), that the mask is applied, and "
                "that no price is limited, rounded, cached or at another row's place",
            )


def _repeats(make: Make) -> None:
    with _loaded(make) as (engine, price):
        for number, (rows, length) in enumerate(SHAPES):
            inputs = _batch(engine, rows, length)
            first = _price(price, inputs).copy()
            for _ in range(CALLS if number == 0 else 0):
                _price(price, inputs)
            _require_close(
                _price(price, inputs),
                first,
                f"prices of the same {_size(rows, length)} differ the second time",
                "use no random numbers, and set all of each buffer before it is read",
                MAX_CHANGE,
            )


def _require_close(
    prices: np.ndarray, expected: np.ndarray, problem: str, fix: str, most: float = MAX_DIFFERENCE
) -> None:
    if np.shape(prices) != expected.shape:
        fail(f"{problem}: the engine returned {shown(prices)}", f"shape {expected.shape}", fix)
    differences = relative_differences(prices, expected)
    worst = int(differences.argmax())
    if not differences[worst] <= most:
        fail(
            f"{problem} by up to {100 * differences[worst]:.3g}%: that of row {worst + 1} is {prices[worst]:.6g} "
            f"instead of {expected[worst]:.6g}",
            f"a difference of at most {100 * most:g}%",
            fix,
        )


def _batch_sensitivity(make: Make) -> None:
    with _loaded(make) as (engine, price):
        inputs = _batch(engine, 9, 33)
        among, shuffled = price(inputs).copy(), np.random.default_rng(0).permutation(9)
        alone = []
        for row, live in enumerate(inputs["attention_mask"].sum(1)):
            length = _round_up(engine, live)  # without the padding that longer rows need
            alone.append(price({name: x[row : row + 1, :length] for name, x in inputs.items()}).copy())
        again = price({name: array[shuffled] for name, array in inputs.items()})
    fix = "price each row independently, in the given order, and ignore padding"
    _require_close(np.concatenate(alone), among, "prices of rows alone and in a batch differ", fix)
    _require_close(again, among[shuffled], "prices of shuffled rows differ", fix)


def _stays(make: Make) -> None:
    with _loaded(make) as (engine, price):
        first = price(_batch(engine, 3, 9))
        kept = first.copy()
        for rows, length in ((3, 9), (3, 17)):
            price(_batch(engine, rows, length, seed=1))
        if not np.array_equal(first, kept):
            fail(
                "a later call overwrote an array returned earlier",
                "an array that does not change",
                "return a copy of the buffer",
            )


def _unchanged(make: Make) -> None:
    with _loaded(make) as (engine, price):
        inputs = _batch(engine, 5, 12)
        kept = {name: array.copy() for name, array in inputs.items()}
        _price(price, inputs)
    for name, array in kept.items():
        if inputs.keys() != kept.keys() or not np.array_equal(inputs[name], array):
            fail(f"the engine changed {name} of the batch", "a batch that does not change", "change a copy")


def _streams(make: Make) -> None:
    with _loaded(make) as (engine, price):
        streams = int(engine.streams)
        if streams == 1:
            return
        batches = [_batch(engine, 2 + number % 2, 12, number % 5) for number in range(ROUNDS * streams)]
        expected = [price(inputs).copy() for inputs in batches]
        with ThreadPoolExecutor(streams) as pool, _hasty_threads():
            concurrent = list(pool.map(lambda inputs: price(inputs).copy(), batches))
    fix = "use separate buffers for each thread, or remove streams"
    for prices, alone in zip(concurrent, expected, strict=True):
        _require_close(prices, alone, f"prices computed in {streams} threads differ", fix)


@contextmanager
def _hasty_threads() -> Iterator[None]:
    """Let threads take turns after each few instructions, so that what they have in common shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _second(make: Make) -> None:
    """Load the graph again while it is open, as the processes of one prediction do."""
    with TemporaryDirectory() as folder:
        engine, results = make(), list[Any]()
        first = engine.load(_graph_in(folder, engine))
        inputs = _batch(engine, 5, 12)
        expected = _price(first, inputs).copy()

        def load() -> None:
            try:
                results.append(_price(make().load(_graph_in(folder, engine)), inputs))
            except Exception as error:
                results.append(error)

        loading = threading.Thread(target=load, daemon=True)
        loading.start()
        loading.join(SECOND_LOAD_S)
        ended = results.copy()  # a thread that still waits fails when the folder goes
    problem = f"the second load did not end within {SECOND_LOAD_S:g} s"
    if ended and not isinstance(ended[0], Exception):
        _require_close(ended[0], expected, "prices of a second engine differ", "compile for the same graph")
        return
    if ended:
        problem = f"the second load raised {type(ended[0]).__name__}: {shorten(str(ended[0]), 300)}"
    fail(
        f"{problem}, while the first engine is open",
        "an engine with the files that the first one wrote into graph.cache",
        "keep no lock after load: several processes open one graph at the same time",
    )


def _refuses(make: Make) -> None:
    engine = make()
    graph = _graph(engine.backbone)
    for what, model in (
        ("invalid bytes", b"this is not a graph"),
        ("half a graph", graph[: len(graph) // 2]),
    ):
        with TemporaryDirectory() as folder:
            try:
                make().load(_graph_in(folder, engine, model))
            except BundleError:
                continue
            except PluginError:
                raise
            except Exception as error:
                fail(
                    f"{what} raised {type(error).__name__}: {error}",
                    "a BundleError",
                    "catch the library's exception and raise pricekit.errors.BundleError from it",
                )
            fail(f"load accepted {what}", "a BundleError", "open the graph in load, not later")


def _writes(make: Make) -> None:
    with TemporaryDirectory() as here, TemporaryDirectory() as folder:
        with chdir(here):
            engine = make()
            _price(engine.load(_graph_in(folder, engine)), _batch(engine, 2, 5))
        outside = [
            path.name for path in (*Path(here).iterdir(), *Path(folder).iterdir()) if path.name != "cache"
        ]
    if outside:
        fail(
            f"the engine wrote {', '.join(sorted(outside))} into the current folder or beside graph.cache",
            "files in graph.cache only",
            "create the folder graph.cache, and write there",
        )


def _prints(make: Make) -> None:
    with redirect_stdout(StringIO()) as output, _loaded(make) as (engine, price):
        _price(price, _batch(engine, 2, 5))
    if text := output.getvalue():
        fail(
            f"the engine printed {shorten(repr(text), 80)}",
            "nothing on stdout, which is for data",
            "use logging, or print to sys.stderr",
        )


def _threads(make: Make) -> None:
    """Those of a ThreadPoolExecutor end with the interpreter."""
    before = {*threading.enumerate()}
    _load_and_price(make)
    deadline = time.monotonic() + END_S
    while left := [
        each
        for each in threading.enumerate()
        if each not in before and not each.daemon and each not in thread._threads_queues
    ]:
        if time.monotonic() > deadline:
            fail(
                f"the thread {left[0].name} runs {END_S:g} s after nothing refers to the engine",
                "no thread that keeps the process from ending",
                "start it with daemon=True, or end it with the engine",
            )
        gc.collect()
        time.sleep(0.05)


def _load_and_price(make: Make) -> None:
    with _loaded(make) as (engine, price):
        _price(price, _batch(engine, 2, 5))


def _runs_without_torch(make: Make) -> None:
    with _loaded(make):  # other libraries must be imported while torch is available
        pass
    with without_torch("load or a call"), _loaded(make) as (engine, price):
        price(_batch(engine, 2, 5))
