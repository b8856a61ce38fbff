"""What a request asks for each row, and the answer to it."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pricekit.plugin import PricekitError
from pricekit.plugin.runners import (
    Uncertainty,
    UncertaintyOptions,
    comparables_of,
    explain_prices,
    parameters_of,
    table_of,
)
from pricekit_serve.errors import RequestError, invalid
from pricekit_serve.limits import COMPARABLES, EXPLAINED_ROWS, Limits
from pricekit_serve.models import Model
from pricekit_serve.queues import Prices, Times
from pricekit_serve.rows import Number, Rows
from pricekit_serve.tracing import record

UNCERTAINTY = parameters_of(UncertaintyOptions)
"""The options that say how sure the prices shall be, by name."""


@dataclass(frozen=True)
class Wanted:
    """What a request asks for, besides the price.

    Attributes:
        uncertainty: how sure the price is.
        explain: the factors of the price.
        comparables: the number of similar products.
    """

    uncertainty: Uncertainty = field(default_factory=Uncertainty)
    explain: bool = False
    comparables: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any], model: Model) -> Wanted:
        """Return what the values of a JSON document ask for; raises RequestError if the model cannot give it."""
        comparables = _number(values, "comparables")
        explain = values.get("explain")
        if explain not in (None, True, False):
            raise invalid("explain", "is neither true nor false")
        count = int(comparables or 0)
        try:
            options = {
                name: (_numbers if option.is_numbers else _number)(values, name)
                for name, option in UNCERTAINTY.items()
            }
            uncertainty = Uncertainty.of_options(options)
            model.predictor.check_uncertainty(uncertainty, once=True)
        except PricekitError as error:
            wrong = [name for name in error.parameters if values.get(name) is not None]
            raise RequestError(422, str(error), (*wrong, *UNCERTAINTY)[0]) from None
        if count != (comparables or 0) or not 0 <= count <= COMPARABLES:
            raise invalid("comparables", f"is {comparables:g}; expected a whole number up to {COMPARABLES}")
        if count and model.predictor.products is None:
            raise invalid("comparables", "are not possible: the bundle was exported without any products")
        return cls(uncertainty, bool(explain), count)

    def check(self, rows: int) -> None:
        """Raise RequestError if explanations or comparables are requested for too many rows."""
        if (self.explain or self.comparables) and rows > EXPLAINED_ROWS:
            raise RequestError(
                413,
                f"the request has {rows:,} rows; at most {EXPLAINED_ROWS} can be explained or compared at once",
                "rows",
            )


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return None if value is None else _finite(name, value)


def _numbers(values: Mapping[str, Any], name: str) -> list[float] | None:
    value = values.get(name)
    if value is not None and not isinstance(value, list):
        raise invalid(name, "is not a list of numbers")
    return None if value is None else [_finite(name, number) for number in value]


def _finite(name: str, value: Any) -> float:
    if not isinstance(value, Number):
        raise invalid(name, "is not a number")
    if not math.isfinite(number := float(value)):
        raise invalid(name, "is too large")
    return number


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes:
        model: which gave it.
        price: of each row, float32 (N,).
        uncertainty: the columns that say how sure the prices are by name, as of `Uncertainty.columns`.
        details: further JSON values of each row; [] if none were requested.
    """

    model: Model
    price: np.ndarray
    uncertainty: Mapping[str, np.ndarray]
    details: Sequence[Mapping[str, Any]]

    def objects(self) -> list[dict[str, Any]]:
        """Return one JSON object for each row."""
        numbers = {"price": self.price, **self.uncertainty}
        columns = [column.tolist() for column in numbers.values()]
        found = [dict(zip(numbers, values, strict=True)) for values in zip(*columns, strict=True)]
        return (
            [{**row, **detail} for row, detail in zip(found, self.details, strict=True)]
            if self.details
            else found
        )

    def to_json(self) -> bytes:
        """Return one JSON document."""
        model = self.model
        about = {"model": model.name, "version": model.version, "currency": model.predictor.currency}
        return as_json({"rows": self.objects(), **about})

    def to_json_lines(self) -> bytes:
        """Return one JSON document for each row."""
        return b"".join(as_json(row) + b"\n" for row in self.objects())

    def to_arrow(self) -> bytes:
        """Return a stream of Arrow IPC with the column price, and those that say how sure it is."""
        table = pa.table({"price": self.price, **self.uncertainty})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())


def as_json(value: Any) -> bytes:
    """Return a value as JSON in ASCII, which also holds halves of characters that texts may contain."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


async def answer(model: Model, rows: Rows, wanted: Wanted, limits: Limits) -> Answer:
    """Price rows.

    Raises:
        RequestError: the queue is full, or the answer takes too long.
        PricekitError: the model fails.
    """
    wanted.check(len(rows))
    if not len(rows):
        none = np.empty((0, 2) if wanted.uncertainty else 0, np.float32)
        return _answer(model, none, wanted, [])
    futures: list[Future[Any]] = []
    times = Times()
    try:
        if wanted.explain or wanted.comparables:
            futures += model.details.call(
                lambda row: _details(model, rows.part(row, row + 1), wanted), len(rows)
            )
        futures.append(model.queue.price(Rows(rows.cells, spread=bool(wanted.uncertainty)), times))
        async with asyncio.timeout(limits.timeout):
            *details, prices = [await asyncio.wrap_future(future) for future in futures]
    except TimeoutError:
        raise RequestError(504, f"the prices were not ready within {limits.timeout:g} seconds") from None
    finally:
        for future in futures:
            future.cancel()
    record("queue", times.came, times.began, {"pricekit.model": model.name})
    record("price", times.began, time.time_ns(), {"pricekit.model": model.name, "pricekit.rows": len(rows)})
    return _answer(model, prices, wanted, details)


def _answer(model: Model, prices: Prices, wanted: Wanted, details: Sequence[Mapping[str, Any]]) -> Answer:
    if not wanted.uncertainty:
        return Answer(model, prices, {}, details)
    price, spread = prices.T
    intervals = model.predictor.require_intervals()
    return Answer(model, price, wanted.uncertainty.columns(intervals, price, spread), details)


def _details(model: Model, row: Rows, wanted: Wanted) -> dict[str, Any]:
    """Return the explanation and the comparables of one row."""
    found: dict[str, Any] = {}
    predictor = model.predictor
    table = table_of(row.for_predictor(predictor.columns), predictor.columns)
    if wanted.explain:
        (explanation,) = explain_prices(predictor, table)
        found |= {"base": explanation.base, "factors": [factor.to_dict() for factor in explanation.factors]}
    if wanted.comparables:
        (comparables,) = comparables_of(predictor, table, wanted.comparables)
        found["comparables"] = [product.to_dict() for product in comparables.products]
    return found
