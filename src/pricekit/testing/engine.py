"""The checks of an engine; torch is imported only to create the graph."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Graph, PriceBatch
from pricekit.errors import BundleError, PluginError
from pricekit.predict.ort import load_cpu
from pricekit.testing.data import FEATURES, batch, difference
from pricekit.testing.runner import (
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

TOLERANCE = 0.02
"""Relative tolerance, the same as when `auto` compares engines with the reference: some compute in bfloat16."""

SHAPES = ((1, 1), (2, 7), (5, 17), (64, 64), (7, 33), (2, 7))
LONGEST = 64
ROUNDS = 6


def checks() -> Checks:
    """Return the checks; see `pricekit.testing.check_engine`."""
    return {
        "has load": lambda make: require_methods(make(), "load"),
        "length_multiple and streams": _numbers,
        "finite, positive float32 prices": _prices,
        "prices match the reference": _parity,
        "independent of the other rows of the batch": _batch_sensitivity,
        "returned arrays are not overwritten": _stays,
        "concurrent streams give the same prices": _streams,
        "rejects an invalid graph": _refuses,
        "module imports no torch": lambda make: require_import_without_torch(make()),
        "runs without torch": _runs_without_torch,
    }


@cache
def _graph() -> bytes:
    """Return the graph for all engines; it is made once, which needs torch and some seconds."""
    from pricekit.testing.models import attention_graph

    return attention_graph()


@contextmanager
def _loaded(make: Make) -> Iterator[tuple[Any, PriceBatch]]:
    """Yield the engine and the loaded graph."""
    with TemporaryDirectory() as folder:
        engine = make()
        longest = _round_up(engine, LONGEST)
        yield engine, engine.load(Graph(_graph(), longest, FEATURES, Path(folder) / "cache"))


def _round_up(engine: Any, length: int) -> int:
    """Return a length, rounded up to the multiple of the engine."""
    multiple = int(engine.length_multiple)
    return -(-length // multiple) * multiple


def _batch(engine: Any, rows: int, length: int) -> Batch:
    return batch(rows, _round_up(engine, length))


def _numbers(make: Make) -> None:
    engine = make()
    for name, default in (("length_multiple", None), ("streams", 1)):
        number = getattr(engine, name, default)
        if not is_count(number):
            fail(f"{name} is {number!r}", "an int of at least 1", f"set {name} = 1")


def _prices(make: Make) -> None:
    with _loaded(make) as (engine, price):
        for rows, length in SHAPES:
            prices = price(_batch(engine, rows, length))
            if not is_float32(prices, np.ndarray, (rows,)):
                fail(
                    f"for {rows} rows of {length} tokens the engine returned {shown(prices)}",
                    f"float32 of shape ({rows},)",
                    "return the graph's output `price` as a numpy array",
                )
            if not (np.isfinite(prices).all() and (prices > 0).all()):
                fail(
                    f"the prices are {prices.tolist()}",
                    "finite, positive prices",
                    "compute with higher precision",
                )


def _parity(make: Make) -> None:
    with _loaded(make) as (engine, price):
        reference = load_cpu(_graph())
        for rows, length in SHAPES:
            inputs = _batch(engine, rows, length)
            _require_close(
                price(inputs),
                reference(inputs),
                f"prices of {rows} rows of {length} tokens differ from those of ONNX Runtime on the CPU",
                "check that all three inputs arrive with their dtype (int64, float32), and that the mask is applied",
            )


def _require_close(prices: np.ndarray, expected: np.ndarray, problem: str, fix: str) -> None:
    error = difference(prices, expected)
    if not error <= TOLERANCE:
        fail(f"{problem} by up to {100 * error:.3g}%", f"a difference of at most {100 * TOLERANCE:g}%", fix)


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
            other = _batch(engine, rows, length)
            price({**other, "features": other["features"] + 1})
        if not np.array_equal(first, kept):
            fail(
                "a later call overwrote an array returned earlier",
                "an array that does not change",
                "return a copy of the buffer",
            )


def _streams(make: Make) -> None:
    with _loaded(make) as (engine, price):
        streams = int(engine.streams)
        if streams == 1:
            return
        batches = [_batch(engine, 2 + number % 7, 5 + number) for number in range(ROUNDS * streams)]
        expected = [price(inputs).copy() for inputs in batches]
        with ThreadPoolExecutor(streams) as pool:
            concurrent = list(pool.map(price, batches))
    fix = "use separate buffers for each thread, or remove streams"
    for prices, alone in zip(concurrent, expected, strict=True):
        _require_close(prices, alone, f"prices computed in {streams} threads differ", fix)


def _refuses(make: Make) -> None:
    with TemporaryDirectory() as folder:
        try:
            make().load(Graph(b"this is not a graph", LONGEST, FEATURES, Path(folder) / "cache"))
        except BundleError:
            return
        except PluginError:
            raise
        except Exception as error:
            fail(
                f"invalid bytes raised {type(error).__name__}: {error}",
                "a BundleError",
                "catch the library's exception and raise pricekit.errors.BundleError from it",
            )
    fail("load accepted invalid bytes", "a BundleError", "open the graph in load, not later")


def _runs_without_torch(make: Make) -> None:
    with _loaded(make):  # other libraries must be imported while torch is available
        pass
    with without_torch("load or a call"), _loaded(make) as (engine, price):
        price(_batch(engine, 2, 5))
