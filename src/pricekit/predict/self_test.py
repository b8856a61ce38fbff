"""`self_test.json`: invented rows and their prices, so that the engine which serves a bundle can be checked.

The rows are the same for every bundle, but for its columns. None of them is a row of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pricekit.errors import BundleError, first_invalid_field
from pricekit.features.preprocess import LONGEST_NAME, MOST_TEXT_COLUMNS
from pricekit.insight.sketch import MOST_OTHER_COLUMNS
from pricekit.io.log import quiet
from pricekit.predict.bundle import Bundle
from pricekit.predict.loaded_engine import MAX_DIFFERENCE, REFERENCE, LoadedEngine
from pricekit.predict.members import BundleReader, Member, table_of, weighted_mean
from pricekit.predict.ort import load_cpu
from pricekit.table import Columns, Table
from pricekit.wording import shorten

SELF_TEST = "self_test.json"

TOLERANCES = {"fp32": 1e-4, "fp16": MAX_DIFFERENCE, "int8": MAX_DIFFERENCE}
"""The largest relative difference of a price by precision; docs/export.md gives the reasons."""

LOOSEST = 0.1
"""The largest tolerance that a file may have."""
MOST_ROWS = 32
LONGEST_CELL = 10_000
"""Characters of a text."""

_TEXTS = (
    "",
    "TEA",
    "USB-C cable 2 m, 3.5 A; 12/24 V, black & white – réf. #A-107/b",
    "2 x 1.5 l + 3/4 lb, 1,299.00 g, 1.299,00 kg, Pack of 144\nValue: 0\nUnit: None",
    "Grüner Tee, 50 Beutel à 1,75 g; зелёный чай 100 г",
    "緑茶 100g×3袋 / 녹차 20 티백 / شاي أخضر ٥٠٠ غرام / हरी चाय 🍵",
    "Item Name: Long\nProduct Description: " + "plain black tea in a tin of 250 g, " * 150 + "\nValue: 250\nUnit: Gram",
)  # fmt: skip
"""Of the first text column, after four products of the invented catalogue."""

_CELLS = (
    *("12.5 oz", "red / 38", "1,299", "Kettlewhim", "2 x 500 ml", "2015"),
    *("", "déjà vu 茶", "-3.25", "2026-06-01", "N/A"),
)
"""Of further columns: as many as rows, so that each column has all of them."""

_NUMBERS = (0, 1, 12.5, -3, 1999, 1e6, 0.001)

_Price = Annotated[float, Field(ge=1e-45, le=3.5e38)]  # in float32
_Cell = Annotated[str, Field(max_length=LONGEST_CELL)] | float
_Name = Annotated[str, Field(max_length=LONGEST_NAME)]


@dataclass(frozen=True)
class SelfTestResult:
    """A self-test that has passed.

    Attributes:
        engine: the name of the engine.
        rows: the number of rows.
        difference: the largest relative difference of a price from that of the export.
        tolerance: the difference that is allowed.
    """

    engine: str
    rows: int
    difference: float
    tolerance: float


class SelfTest(BaseModel):
    """Invented rows and their prices.

    Attributes:
        columns: the text columns of the model, and others that its features read.
        rows: the cells of each row, texts or numbers.
        prices: of each row alone, in ONNX Runtime on a CPU, when the bundle was exported.
        tolerance: the largest relative difference of a price.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True)

    columns: list[_Name] = Field(min_length=1, max_length=MOST_TEXT_COLUMNS + MOST_OTHER_COLUMNS)
    rows: list[list[_Cell]] = Field(min_length=1, max_length=MOST_ROWS)
    prices: list[_Price]
    tolerance: float = Field(gt=0, le=LOOSEST)

    @model_validator(mode="after")
    def _is_consistent(self) -> SelfTest:
        if len({*self.columns}) < len(self.columns):
            raise ValueError("a column occurs twice")
        if len(self.prices) != len(self.rows) or {*map(len, self.rows)} != {len(self.columns)}:
            raise ValueError("the numbers of columns, cells and prices do not fit")
        if any(
            len({isinstance(cell, str) for cell in column}) > 1 for column in zip(*self.rows, strict=True)
        ):
            raise ValueError("a column has texts and numbers")
        return self

    def frame(self) -> pd.DataFrame:
        """Return the rows, without prices."""
        return _frame(self.columns, self.rows)

    def to_text(self) -> str:
        """Return the content of `self_test.json`."""
        return self.model_dump_json() + "\n"

    def check(
        self, columns: Columns, price: Callable[[Table], np.ndarray], engine: str, where: object
    ) -> SelfTestResult:
        """Price the rows, each one alone and all together; raise BundleError if a price differs.

        Args:
            columns: of the model.
            price: returns the prices of a table.
            engine: that computes them.
            where: names the model in the error.
        """
        table, expected = _table(self.columns, self.rows, columns), np.array(self.prices)
        with quiet():  # features warn about invented values
            prices = np.array([_each_alone(table, price), price(table)], np.float64)
        difference = np.abs(prices - expected) / expected
        if difference.max() <= self.tolerance:
            return SelfTestResult(engine, len(table), float(difference.max()), self.tolerance)
        form, row = (int(place) for place in np.unravel_index(difference.argmax(), difference.shape))
        wrong = int((difference > self.tolerance).any(0).sum())
        advice = f"Choose the engine {REFERENCE}; if that fails, too, export the run again"
        if engine == REFERENCE:
            versions = "the versions of pricekit and of the plugins that its manifest names"
            advice = f"Install {versions}, or export the run again"
        raise BundleError(
            f"the self-test of {where} failed in the engine {engine}: the price of row {row + 1} "
            f"({shorten(repr(table.text.iloc[row]), 40)}) {('alone', 'among the other rows')[form]} is "
            f"{prices[form, row]:.6g}; expected {self.prices[row]:.6g}, as when it was exported. {wrong} of "
            f"{len(table)} rows differ, by {100 * difference[form, row]:.3g}% at most; the limit is "
            f"{100 * self.tolerance:g}%. {advice}",
            parameters=() if engine == REFERENCE else ("engine",),
            engine=engine,
            row=row,
            difference=float(difference.max()),
        )


Content = type[str] | type[float] | int
"""What a column contains: texts, numbers, or vectors of a width."""


def make_self_test(bundle: Bundle, precision: str, others: Mapping[str, Content]) -> SelfTest:
    """Return the self-test of a bundle that will be written; one member at a time is open.

    Args:
        bundle: its files.
        precision: of its graphs.
        others: columns besides the text that its features read, and what they contain.

    Raises:
        BundleError: a price is not finite or not above 0.
        PluginError: a feature fails.
    """
    reader = BundleReader.of(bundle)
    names, rows = _invented(reader.columns.text, others)
    table = _table(names, rows, reader.columns)
    prices, weights = [], []
    for preprocessor, (files, weight) in zip(reader.preprocessors, bundle.members(), strict=True):
        engine = LoadedEngine(REFERENCE, load_cpu(files["model.onnx"]))
        member = Member(preprocessor, engine)
        with quiet():  # features warn about invented values
            prices.append(_each_alone(table, lambda some, by=member: by.prices(by.preprocessor(some))))  # type: ignore[misc]
        weights.append(weight)
    means = weighted_mean(prices, weights)
    return SelfTest(columns=names, rows=rows, prices=means.tolist(), tolerance=TOLERANCES[precision])


def read_self_test(content: bytes, columns: Columns, where: object) -> SelfTest:
    """Read what `SelfTest.to_text` wrote; raises BundleError that names `where` if it is damaged."""
    reason = " (a text column of the model is missing)"
    try:
        self_test = SelfTest.model_validate_json(content)
    except ValueError as error:
        reason = first_invalid_field(error)
    else:
        if {*columns.text} <= {*self_test.columns}:
            return self_test
    raise BundleError(f"the {SELF_TEST} of {where} is damaged{reason}; export it again")


def require_self_test(self_test: SelfTest | None) -> SelfTest:
    """Return the self-test of a model; raises BundleError if it has none."""
    if self_test is None:
        raise BundleError(
            "the model has no self-test: only bundles have one, if their features can price invented rows; export the "
            "run"
        )
    return self_test


def invented_texts() -> list[str]:
    """Return texts of all kinds: products of the invented catalogue, and what is hard to read."""
    from pricekit.datasets import make_catalog

    return [*make_catalog(4)["catalog_content"], *_TEXTS]


def _invented(
    text: Sequence[str], others: Mapping[str, Content]
) -> tuple[list[str], list[list[str | float]]]:
    """Return the columns and the rows. One row is empty, and one is longer than most models read."""
    contents: list[Content] = [*(str for _ in text[1:]), *others.values()]
    rows: list[list[str | float]] = []
    for number, first in enumerate(invented_texts()):
        further = (
            (0.0 if content is float else "") if not first else _cell(content, place)
            for place, content in enumerate(contents, start=number)
        )
        rows.append([first, *further])
    return [*text, *others], rows


def _cell(content: Content, place: int) -> str | float:
    """Return the invented cell of a column at a place; a vector that no cell can hold is missing."""
    if isinstance(content, int):
        vector = (
            "[" + ",".join(f"{((place + 3 * number) % 11 - 5) / 100:g}" for number in range(content)) + "]"
        )
        return vector if content and len(vector) <= LONGEST_CELL else ""
    return _NUMBERS[place % len(_NUMBERS)] if content is float else _CELLS[place % len(_CELLS)]


def _table(names: Sequence[str], rows: Sequence[Sequence[str | float]], columns: Columns) -> Table:
    with quiet():  # invented cells are not in the formats of the columns
        return table_of(_frame(names, rows), columns)


def _frame(names: Sequence[str], rows: Sequence[Sequence[str | float]]) -> pd.DataFrame:
    return pd.DataFrame(dict(zip(names, zip(*rows, strict=True), strict=True)))


def _each_alone(table: Table, price: Callable[[Table], np.ndarray]) -> np.ndarray:
    """Return the price of each row alone, float32 (N,)."""
    return np.concatenate([price(table.take(np.array([row]))) for row in range(len(table))])
