"""The tools: what each one takes, does and answers. They run in a process of their own, in a private folder."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from pricekit.plugin import DataError, shorten
from pricekit_mcp.limits import Limits

ANSWERED_ROWS = 100
"""The most rows of an answer."""
_FACTORS = 8
"""Parts of a row that have the largest effects on its price."""
_SHOWN = 100
"""Columns and notes of a table, and characters of a part."""


@dataclass(frozen=True)
class InFolder:
    """What an argument names in the folder of the server.

    Attributes:
        folder: a folder; otherwise it is a file.
        new: the tool writes it; otherwise it reads it.
    """

    folder: bool = False
    new: bool = False


_Path = Annotated[str, Field(min_length=1, max_length=1000)]
TablePath = Annotated[_Path, InFolder(), Field(description="table: a relative path, such as products.csv")]
ModelPath = Annotated[_Path, InFolder(folder=True), Field(description="folder of a model, such as run")]
_Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[
    list[_Name] | None, Field(min_length=1, max_length=100, description="columns of text; default: suggested")
]
Price = Annotated[_Name | None, Field(description="column of the price; default: suggested")]
Id = Annotated[_Name | None, Field(description="column of the id; default: suggested")]
Rows = Annotated[int, Field(ge=1, le=ANSWERED_ROWS, description="most rows of the answer: the first ones")]


class Arguments(BaseModel):
    """The arguments of a tool: no others, and no other types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @property
    def named(self) -> dict[str, Any]:
        """Those that are not left out, by name."""
        return self.model_dump(exclude_none=True)


class CheckArguments(Arguments):
    """Arguments of `check`."""

    table: TablePath
    text: Text = None
    price: Price = None
    id: Id = None


class TrainArguments(CheckArguments):
    """Arguments of `train`."""

    out: Annotated[
        _Path, InFolder(folder=True, new=True), Field(description="new folder of the model, such as run")
    ]
    policy: Annotated[
        str | None, Field(max_length=100, pattern="^[a-z0-9-]+$", description="such as fast, quick or best")
    ] = None
    epochs: Annotated[int | None, Field(ge=1, le=1000, description="default: of the policy")] = None
    time_budget: Annotated[
        float | None, Field(gt=0, description="seconds that the training shall take at most")
    ] = None


class EvaluateArguments(Arguments):
    """Arguments of `evaluate`."""

    model: ModelPath
    table: Annotated[
        TablePath | None,
        InFolder(),
        Field(description="table with prices; default: the rows that were held out"),
    ] = None


class PredictArguments(Arguments):
    """Arguments of `predict`."""

    model: ModelPath
    table: TablePath
    out: Annotated[
        _Path | None,
        InFolder(new=True),
        Field(pattern=r"\.csv$", description="new CSV file for the prices of all rows; default: none"),
    ] = None
    rows: Rows = 10


class ExplainArguments(Arguments):
    """Arguments of `explain`."""

    model: ModelPath
    table: TablePath
    ids: Annotated[
        list[_Name] | None,
        Field(min_length=1, max_length=ANSWERED_ROWS, description="ids of the rows; default: the first rows"),
    ] = None
    rows: Rows = 5


class CheckAnswer(BaseModel):
    """How a table is read, and its problems."""

    rows: int
    usable: int | None
    columns: list[str]
    text: list[str]
    price: str | None
    id: str | None
    trainable: bool
    notes: list[str]


class TrainAnswer(BaseModel):
    """A trained model, and its metrics on the rows that it held out; the first is what the training minimised."""

    model: str
    held_out: int
    metrics: dict[str, float | None]
    notes: list[str] = []


class EvaluateAnswer(BaseModel):
    """Scores of a model: its metric with the 95% interval, and other metrics."""

    rows: int
    metric: str
    interval: list[float] | None
    metrics: dict[str, float | None]
    notes: list[str] = []


class PricedRow(BaseModel):
    """A row with its price."""

    id: str
    price: float


class PredictAnswer(BaseModel):
    """Prices: how many there are, the first ones, and the file that has all."""

    rows: int
    currency: str | None
    prices: list[PricedRow]
    out: str | None
    notes: list[str] = []


class Factor(BaseModel):
    """A part of a row, and what it multiplies the price by."""

    column: str
    text: str
    factor: float


class ExplainedRow(BaseModel):
    """A row whose price is `base`, the price without any text, times the factors of its parts, and of `others`."""

    id: str
    price: float
    base: float
    factors: list[Factor]
    others: float


class ExplainAnswer(BaseModel):
    """Why rows have their prices."""

    currency: str | None
    explanations: list[ExplainedRow]
    notes: list[str] = []


def check(arguments: CheckArguments, limits: Limits) -> CheckAnswer:
    """Report how a table is read, and its problems: columns, usable rows, duplicates, leaks. Nothing is trained."""
    import pricekit as pk

    report = pk.check(**arguments.named, limit=limits.max_rows + 1)
    _check_rows(report.rows, limits)
    return CheckAnswer(
        rows=report.rows,
        usable=report.usable,
        columns=[shorten(column.name, _SHOWN) for column in report.columns[:_SHOWN]],
        text=list(report.text),
        price=report.price,
        id=report.id,
        trainable=report.trainable,
        notes=list(report.notes),
    )


def train(arguments: TrainArguments, limits: Limits) -> TrainAnswer:
    """Train a model on a table of texts and prices. It takes about a minute for thousands of rows."""
    import pricekit as pk

    reading = {name: value for name, value in arguments.named.items() if name in CheckArguments.model_fields}
    _check_table(reading, limits)
    model = pk.train(**arguments.named)
    return TrainAnswer(model=arguments.out, held_out=len(model.held_out), metrics=_finite(model.metrics))


def evaluate(arguments: EvaluateArguments, limits: Limits) -> EvaluateAnswer:
    """Score a model on a table with prices, or on the rows that it held out."""
    import pricekit as pk

    model = pk.Model(arguments.model)
    if arguments.table is not None:
        _check_table({"table": arguments.table, "text": list(model.columns.text)}, limits)
    scores = model.evaluate(arguments.table)
    return EvaluateAnswer(
        rows=scores.rows,
        metric=scores.metric.name,
        interval=None if scores.interval is None else list(scores.interval),
        metrics=_finite(scores.metrics),
    )


def predict(arguments: PredictArguments, limits: Limits) -> PredictAnswer:
    """Price the rows of a table, which needs no prices. The answer has the first rows, a new file all of them."""
    import pandas as pd

    import pricekit as pk

    model, out = pk.Model(arguments.model), arguments.out or f"{tempfile.mkdtemp()}/prices.csv"
    rows = model.predict_file(arguments.table, out, limit=limits.max_rows + 1, processes=1)
    _check_rows(rows, limits)
    first = pd.read_csv(out, nrows=arguments.rows, dtype=str, keep_default_na=False)
    names = first.iloc[:, 0] if first.shape[1] > 1 else range(len(first))
    pairs = zip(names, first["price"], strict=True)
    prices = [PricedRow(id=shorten(f"{name}", _SHOWN), price=float(price)) for name, price in pairs]
    return PredictAnswer(rows=rows, currency=model.currency, prices=prices, out=arguments.out)


def explain(arguments: ExplainArguments, limits: Limits) -> ExplainAnswer:
    """Show which words and columns make the prices of rows: the first ones, or those with the ids."""
    import pricekit as pk

    model = pk.Model(arguments.model)
    if arguments.ids is None:
        explanations = model.explain(arguments.table, limit=arguments.rows)
    else:
        _check_table({"table": arguments.table, "text": list(model.columns.text)}, limits)
        explanations = model.explain(arguments.table, row=arguments.ids)
    return ExplainAnswer(currency=model.currency, explanations=list(map(_explained, explanations)))


def _explained(explanation: Any) -> ExplainedRow:
    phrases = explanation.phrases()
    return ExplainedRow(
        id=shorten(f"{explanation.id}", _SHOWN),
        price=explanation.price,
        base=explanation.base,
        factors=[
            Factor(column=phrase.column, text=shorten(phrase.text, _SHOWN), factor=phrase.factor)
            for phrase in phrases[:_FACTORS]
        ],
        others=math.prod(phrase.factor for phrase in phrases[_FACTORS:]),
    )


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        run: does it; its docstring describes it.
        takes: its arguments.
        answers: its answer.
    """

    run: Callable[[Any, Limits], BaseModel]
    takes: type[Arguments]
    answers: type[BaseModel]

    @property
    def paths(self) -> dict[str, InFolder]:
        """What its arguments name in the folder, by argument; a model comes before a table that may be in it."""
        return {
            name: kind
            for name, field in self.takes.model_fields.items()
            for kind in field.metadata
            if isinstance(kind, InFolder)
        }


TOOLS = {
    "check": Tool(check, CheckArguments, CheckAnswer),
    "train": Tool(train, TrainArguments, TrainAnswer),
    "evaluate": Tool(evaluate, EvaluateArguments, EvaluateAnswer),
    "predict": Tool(predict, PredictArguments, PredictAnswer),
    "explain": Tool(explain, ExplainArguments, ExplainAnswer),
}


def _check_table(reading: dict[str, Any], limits: Limits) -> None:
    """Raise DataError if a table cannot be read, or has too many rows; no more of them are read."""
    import pricekit as pk

    _check_rows(len(pk.read_table(**reading, limit=limits.max_rows + 1)), limits)


def _check_rows(rows: int, limits: Limits) -> None:
    if rows > limits.max_rows:
        raise DataError(
            f"the table has more than {limits.max_rows:,} rows, the limit of this server; use a smaller table"
        )


def _finite(metrics: Iterable[tuple[str, float]] | dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in dict(metrics).items()}
