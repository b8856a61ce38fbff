"""The options of public functions and commands, and how they become settings.

Each option is declared once: by its name, its type, and an `Option`. Its description and its default are those of the
setting that it names. The functions show it (`with_options`), the command line has it (`pricekit.cli.options`), and
`pricekit.PriceRegressor` takes it.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Required,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pricekit.errors import ConfigError, DataError, PricekitError, path_of
from pricekit.insight import EVALUATIONS, PRODUCTS
from pricekit.io.files import describe_failure, restore
from pricekit.io.storage import location_of
from pricekit.wording import did_you_mean

PathLike = str | os.PathLike[str]
Keys = PathLike | Sequence[PathLike]
"""Files of public keys."""

if TYPE_CHECKING:
    from pricekit.predict.keys import Trust
    from pricekit.table import Table, TableSource
else:
    TableSource = PathLike | Any  # a frame is any of several types, whose packages are slow to import

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """What an option is, apart from its name and its type.

    Attributes:
        setting: the dotted name of the setting that it sets, whose description and default it has.
        help: the description of an option that stands for no setting, or for one of a plugin. Like that of a setting,
            it may end with "; default: ...".
        default: the value of an option without a setting; None: False, () or None, as its type says.
        names: what its values name: a column, a metric, a setting, or a kind of plugin. Completion offers them, and
            lists of columns and plugins may be joined by commas.
        metavar: its value in the usage of a command, if neither its type nor `names` tells it.
        least: the least number; other numbers than whole ones are above it.
        most: the greatest number; other numbers than whole ones are below it.
    """

    setting: str = ""
    help: str = ""
    default: Any = None
    names: str = ""
    metavar: str = ""
    least: float | None = None
    most: float | None = None


class ReadingOptions(TypedDict, total=False):
    """Options for reading a table; pricekit detects those that are not given."""

    text: Annotated[str | Sequence[str] | None, Option("columns.text", names="column")]
    id: Annotated[str | None, Option("columns.id", names="column")]
    limit: Annotated[int | None, Option("limit", least=1)]
    encoding: Annotated[str | None, Option(help="encoding of a text file; default: detected")]
    delimiter: Annotated[
        str | None, Option(help="field separator of a text file, such as ';' or tab; default: detected")
    ]
    sheet: Annotated[str | None, Option(help="sheet of a workbook; default: the first one that has a table")]
    sql: Annotated[
        PathLike | None,
        Option(
            help="file with the query of a database; default: the table or the query that its address names"
        ),
    ]
    columns: Annotated[
        Sequence[str] | None, Option(help="names of all columns of a file without a header", names="column")
    ]


class PricedOptions(ReadingOptions, total=False):
    """Options for reading a table with prices."""

    price: Annotated[str | None, Option("columns.price", names="column")]
    decimal: Annotated[
        str | None, Option(help="decimal mark of prices written as text, '.' or ','; default: detected")
    ]
    currency: Annotated[
        str | None, Option(help="use only prices in this currency, a code or a sign, such as EUR or €")
    ]
    price_unit: Annotated[
        str | None, Option(help="use only prices per this unit, such as m2 or month, or only total")
    ]


class WeighedOptions(PricedOptions, total=False):
    """Options for reading a table with prices whose rows may count differently."""

    weight: Annotated[str | None, Option("columns.weight", names="column")]


class SettingOptions(TypedDict, total=False):
    """Options for a model and its training, whatever its rows come from."""

    policy: Annotated[str | None, Option("policy.name", names="policy")]
    backbone: Annotated[str | None, Option("backbone.name", names="backbone")]
    features: Annotated[str | Sequence[str] | None, Option("features", names="feature")]
    weights: Annotated[
        PathLike | None,
        Option("backbone.weights", "pretrained weights of the backbone: a folder or a hub id"),
    ]
    random_weights: Annotated[
        bool,
        Option(
            "backbone.random_weights",
            "start the backbone from random weights instead of downloading pretrained ones; for benchmarks",
        ),
    ]
    metric: Annotated[str | None, Option("metric", names="metric")]
    loss: Annotated[str | None, Option("loss.name", names="loss")]
    max_length: Annotated[int | None, Option("max_length")]
    epochs: Annotated[int | str | None, Option("training.epochs")]
    time_budget: Annotated[float | str | None, Option("training.time_budget", metavar="TIME")]
    refit: Annotated[bool | None, Option("training.refit")]
    max_latency: Annotated[float | str | None, Option("max_latency", metavar="TIME")]
    track: Annotated[str | Sequence[str] | None, Option("track", names="tracker")]
    config: Annotated[
        PathLike | Mapping[str, Any] | None, Option(help="TOML file of settings; options override it")
    ]
    settings: Annotated[
        Mapping[str, Any] | Sequence[str] | None,
        Option(
            help="single settings by dotted name, such as training.epochs=20, which override everything else; in "
            "Python also as {'training.epochs': 20}",
            names="setting",
            metavar="KEY=VALUE",
        ),
    ]


class ModelOptions(WeighedOptions, SettingOptions, total=False):
    """Options for a model and its training on a table."""

    vectors: Annotated[str | Sequence[str] | None, Option("columns.vectors", names="column")]
    group: Annotated[str | None, Option("columns.group", names="column")]
    time: Annotated[str | None, Option("columns.time", names="column")]
    seed: Annotated[int | None, Option("seed")]


class OutputOptions(TypedDict, total=False):
    """The option of functions that return an object with a folder."""

    out: Annotated[
        PathLike | None,
        Option(help="new or empty folder; default: a temporary one, which exists as long as the result"),
    ]


class OverwriteOptions(TypedDict, total=False):
    """The option of functions that write a folder."""

    overwrite: Annotated[
        bool,
        Option(help="replace what is in `out`; if it is finished, it stays until the new one is complete"),
    ]


class ResumeOptions(OverwriteOptions, total=False):
    """Options of functions that train."""

    resume: Annotated[
        bool,
        Option(
            help="continue what is unfinished in `out`, with its original settings, or start if there is nothing"
        ),
    ]


class FitOptions(OutputOptions, ResumeOptions, ModelOptions, total=False):
    """Options of all functions that train on the prices of a table."""

    allow_leak: Annotated[bool, Option(help="train even if columns or texts leak the price")]


class TeacherOptions(FitOptions, total=False):
    """Options of functions that can train on rows without prices, too."""

    unpriced: Annotated[
        Sequence[TableSource],
        Option(
            help="pseudo-labels: train also on the unpriced rows of this table, with prices predicted by `teacher`"
        ),
    ]
    teacher: Annotated[
        Sequence[PathLike],
        Option(
            help="model that prices the rows of `unpriced`; the prices of several are averaged (geometric mean)"
        ),
    ]


class TrainOptions(TeacherOptions, total=False):
    """Options of `pricekit.train`."""

    valid: Annotated[TableSource | None, Option(help="table to validate on; default: a part of `table`")]
    init: Annotated[PathLike | None, Option("init")]


class CrossValidationOptions(TeacherOptions, total=False):
    """Options of `pricekit.cross_validate`."""

    folds: Annotated[
        int | None, Option(help="number of folds; default: 5, or the original number with `resume`", least=2)
    ]


class TuneOptions(FitOptions, total=False):
    """Options of `pricekit.tune`."""

    trials: Annotated[
        int | None, Option(help="maximum number of trials; default: as many as fit into the time", least=1)
    ]
    folds: Annotated[
        int | None,
        Option(
            help="number of folds that score a trial; default: 3, or the original number with `resume`",
            least=2,
        ),
    ]
    processes: Annotated[
        int,
        Option(help="run this number of trials at a time, each on its part of the CPUs", default=1, least=1),
    ]


class PretrainingOptions(ResumeOptions, ReadingOptions, total=False):
    """Options of `pricekit.pretrain`."""

    backbone: Required[
        Annotated[str, Option("backbone.name", "pretrained backbone, or transformer", names="backbone")]
    ]
    weights: Annotated[
        PathLike | None, Option("backbone.weights", "weights to start from: a folder or a hub id")
    ]
    random_weights: Annotated[
        bool, Option("backbone.random_weights", "start a pretrained backbone from random weights")
    ]
    max_length: Annotated[int | None, Option(help="maximum number of tokens per text; default: 128", least=4)]
    epochs: Annotated[
        int | None, Option(help="number of epochs; default: 3, from random weights 10", least=1)
    ]
    batch_size: Annotated[int | None, Option(help="number of texts per step; default: 32", least=1)]
    learning_rate: Annotated[
        float | None, Option(help="peak learning rate; default: 1e-4, from random weights 1e-3", least=0)
    ]
    seed: Annotated[
        int | None,
        Option(help="random seed of the masks, the order and the held-out texts; default: 0", least=0),
    ]
    settings: Annotated[
        Mapping[str, Any] | Sequence[str] | None,
        Option(
            help="settings of the backbone, such as backbone.layers=2, and facts_first=true; use the same for training",
            names="setting",
            metavar="KEY=VALUE",
        ),
    ]


class MetricOptions(TypedDict, total=False):
    """The option of functions that judge models."""

    metric: Annotated[
        str | None,
        Option(
            help="metric that counts, such as rmsle; default: that which the model, or the first one, was trained to "
            "minimise",
            names="metric",
        ),
    ]


class EnsembleOptions(OutputOptions, OverwriteOptions, MetricOptions, total=False):
    """Options of `pricekit.ensemble`."""


class CompareOptions(MetricOptions, total=False):
    """Options of `pricekit.compare`."""

    latency: Annotated[
        bool,
        Option(
            help="also measure the time that a prediction of one row takes, in torch on this machine, in some seconds "
            "for each model"
        ),
    ]


class TrustOptions(TypedDict, total=False):
    """The option of functions that read a bundle."""

    trust: Annotated[
        Keys | None,
        Option(
            help="PEM file with a public key: open only a bundle that it, or another one of several, has signed",
            metavar="KEY",
        ),
    ]


class OpenOptions(TrustOptions, total=False):
    """Options of functions that open a model."""

    engine: Annotated[
        str | None,
        Option(
            help="engine that runs the graph of a bundle, such as ort-cpu; a run or an ensemble runs in torch; "
            "default: auto, the fastest on this machine by a benchmark, which runs the first time",
            names="engine",
        ),
    ]


class InspectOptions(OpenOptions, total=False):
    """Options of `pricekit.bundles.inspect`."""

    self_test: Annotated[
        bool,
        Option(
            help="then also check, in this process and without limits, that the engine gives the invented rows in the "
            "bundle the prices that they had at its export"
        ),
    ]


class PushOptions(TypedDict, total=False):
    """The option of `pricekit.bundles.push`."""

    public: Annotated[bool, Option(help="let everyone read a new repository; one that exists stays as it is")]


class UncertaintyOptions(TypedDict, total=False):
    """How sure prices are, of all that prices rows: the attributes of `pricekit.predict.intervals.Uncertainty`."""

    interval: Annotated[
        float | None,
        Option(
            help="add price_low and price_high, an interval that contains this share of true prices, such as 0.9",
            least=0,
            most=1,
        ),
    ]
    quantiles: Annotated[
        Sequence[float] | None,
        Option(
            help="add a column for each of these quantiles of the price, such as price_0.05, below which this share "
            "of true prices is expected: ascending shares such as 0.05,0.5,0.95",
            metavar="SHARES",
        ),
    ]
    within: Annotated[
        float | None,
        Option(
            help="add release, which says whether a price may go out without a person, because the true price is "
            "between price / FACTOR and price · FACTOR with the confidence, such as 1.5",
            metavar="FACTOR",
            least=1,
        ),
    ]
    confidence: Annotated[
        float | None,
        Option(
            help="share of the prices that may go out for which this shall hold; default: 0.95",
            least=0,
            most=1,
        ),
    ]


class PredictOptions(ReadingOptions, UncertaintyOptions, total=False):
    """Options of `pricekit.Model.predict_file`."""

    resume: Annotated[
        bool,
        Option(
            help="continue an interrupted prediction into `out`; in a folder, skip files whose prices are complete, "
            "unless their table, the model or the options have changed"
        ),
    ]
    processes: Annotated[
        int | None,
        Option(
            help="number of processes that price rows, each with a copy of the model; default: several, one for each "
            "CPU, if they are faster than threads, as with many rows and a small model",
            least=1,
        ),
    ]
    runner: Annotated[
        str | None,
        Option(
            help="runner of a package, such as ray or spark, whose workers price the files of a folder",
            metavar="NAME",
        ),
    ]
    address: Annotated[
        str | None, Option(help="where the runner finds its cluster; default: as usual for the runner")
    ]
    on_conflict: Annotated[
        Literal["update", "error"] | None,
        Option(
            help="of a row whose id has another price in the table of a database: `update` writes the new one, `error` "
            "writes no row of its batch; default: update"
        ),
    ]
    watch: Annotated[
        PathLike | None,
        Option(
            help="also add the rows to a sketch in this local file, which drift compares with the training table; it "
            "contains counts of rows and no row, and `out` must be a file"
        ),
    ]


class AmongOptions(TypedDict, total=False):
    """The option of functions that look for similar products."""

    among: Annotated[
        TableSource | None,
        Option(
            help="table of products with prices, to find similar ones; default: those of the bundle, if any"
        ),
    ]


class EvaluateOptions(MetricOptions, AmongOptions, total=False):
    """Options of `pricekit.CrossValidation.evaluate`."""

    worst: Annotated[
        int | None,
        Option(
            help="also list this number of rows, those with the largest errors, and show by unit, quantity, price and "
            "category what they have in common",
            least=0,
        ),
    ]
    by: Annotated[
        str | None,
        Option(
            help="group only by this column of the table, up to 50 values; those with fewer than ten rows are merged",
            names="column",
        ),
    ]
    out: Annotated[
        PathLike | None,
        Option(help="also write all rows, largest error first, as CSV, TSV, Parquet or JSON lines"),
    ]


class TableEvaluateOptions(EvaluateOptions, WeighedOptions, total=False):
    """Options of `pricekit.Model.evaluate`."""


class ImportanceOptions(MetricOptions, total=False):
    """Options of `pricekit.CrossValidation.importance`."""

    repeats: Annotated[
        int,
        Option(
            help="number of permutations of each feature or line, whose increases are averaged",
            default=5,
            least=1,
        ),
    ]


class TableImportanceOptions(ImportanceOptions, WeighedOptions, total=False):
    """Options of `pricekit.Model.importance`."""


class ReportOptions(MetricOptions, AmongOptions, WeighedOptions, total=False):
    """Options of `report` of a model and of a cross-validation."""

    out: Annotated[
        PathLike,
        Option(
            help="HTML file to write, locally or at an address; an existing one is replaced",
            default="report.html",
        ),
    ]
    against: Annotated[
        PathLike | Sequence[PathLike],
        Option(help="model or cross-validation of the same table, to compare with", default=()),
    ]


class RowOptions(ReadingOptions, total=False):
    """Options of functions that answer questions about rows."""

    row: Annotated[
        str | Sequence[str],
        Option(
            help="only the row with this id, in the order of the table; default: all rows",
            default=(),
            metavar="ID",
        ),
    ]


class ExplainOptions(RowOptions, total=False):
    """Options of `pricekit.Model.explain`."""

    evaluations: Annotated[
        int,
        Option(
            help="number of prices for each row, at least 2; more of them divide more phrases into words, and a row "
            "with many lines needs two for each",
            default=EVALUATIONS,
            least=2,
        ),
    ]


Property = Literal["brand", "unit", "size"]
"""What two products may have in common."""


class ComparablesOptions(RowOptions, AmongOptions, total=False):
    """Options of `pricekit.Model.comparables`."""

    k: Annotated[
        int, Option(help="number of products for each row, 1 to 1,000", default=PRODUCTS, least=1, most=1000)
    ]
    same: Annotated[
        Property | Sequence[Property],
        Option(
            help="what the products must have in common with the row: brand, unit, or size (up to a factor of 1.25)",
            default=(),
        ),
    ]


class DriftOptions(PricedOptions, total=False):
    """Options of `pricekit.Model.drift`."""

    out: Annotated[
        PathLike | None,
        Option(help="also write an HTML page, which needs no network; an existing file is replaced"),
    ]
    fail_over: Annotated[
        Mapping[str, float] | Sequence[str] | None,
        Option(
            help="limit of a measure, such as psi=0.2; `failures` of the result names those that are exceeded, and a "
            "command exits with code 6; in Python also as {'psi': 0.2}",
            names="measure",
            metavar="MEASURE=LIMIT",
        ),
    ]


Precision = Literal["fp32", "fp16", "int8"]


Target = Literal["log", "log1p", "price"]


class ExportOptions(OverwriteOptions, total=False):
    """Options of `pricekit.Model.export`."""

    precision: Annotated[
        Precision,
        Option(
            help="precision of the graph: fp32, fp16 for GPUs, or int8 for CPUs and smaller files",
            default="fp32",
        ),
    ]
    triton: Annotated[
        PathLike | None,
        Option(
            help="also write a model that reads texts into this model repository of Triton Inference Server, as a new "
            "version of the model with the name of the bundle"
        ),
    ]
    with_comparables: Annotated[
        TableSource | None,
        Option(
            help="table of products with prices, whose ids, texts and prices the bundle will contain, for comparables; "
            "default: none"
        ),
    ]
    with_embeddings: Annotated[
        bool, Option(help="the bundle can also embed: its graph returns the vector of each row's text")
    ]
    sign: Annotated[
        PathLike | None,
        Option(help="PEM file with a private key that signs the bundle", metavar="KEY"),
    ]


class TransformersOptions(ExportOptions, total=False):
    """Options of `pricekit.bundles.from_transformers`."""

    target: Annotated[
        Target | None,
        Option(
            help="what the model of transformers was trained to predict: log, the natural logarithm of the price; "
            "log1p, that of 1 + price; or price"
        ),
    ]
    mean: Annotated[
        float, Option(help="mean that was subtracted from the target, if it was standardised", default=0.0)
    ]
    std: Annotated[
        float,
        Option(
            help="standard deviation that the target was divided by, if it was standardised",
            default=1.0,
            least=0,
        ),
    ]
    sample: Annotated[
        TableSource | None,
        Option(
            help="table with prices, on whose rows the export is verified; fp16 and int8 need one; default: invented "
            "products"
        ),
    ]
    text: Annotated[
        str, Option(help="column of the text that the model reads", default="catalog_content", names="column")
    ]
    price: Annotated[str, Option(help="column of known prices in `sample`", default="price", names="column")]
    max_length: Annotated[
        int | None,
        Option(
            help="maximum number of tokens per text, as in the training; default: that of the tokenizer",
            least=1,
        ),
    ]


@dataclass(frozen=True)
class Parameter:
    """An option with its type.

    Attributes:
        name: in Python.
        annotation: its type.
        option: what else was declared.
        required: it has no default.
    """

    name: str
    annotation: Any
    option: Option
    required: bool

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types of its values, `Literal` among them."""
        union = get_origin(self.annotation) in (Union, UnionType)
        return get_args(self.annotation) if union else (self.annotation,)

    @property
    def several(self) -> bool:
        """Whether it takes several values, apart from numbers, which are one text on the command line."""
        return any(get_origin(kind) is Sequence for kind in self.kinds) and not self.is_numbers

    @property
    def is_numbers(self) -> bool:
        """Whether its value is a list of numbers."""
        return Sequence[float] in self.kinds

    @property
    def is_path(self) -> bool:
        """Whether its values are paths."""
        return "os.PathLike" in str(self.annotation)

    @property
    def number(self) -> type | None:
        """The type of its values if they are numbers only: int or float."""
        return next((kind for kind in self.kinds if kind in (int, float) and str not in self.kinds), None)

    @property
    def default(self) -> Any:
        """Its value if it is not given."""
        if self.option.default is not None:
            return self.option.default
        if self.annotation is bool:
            return False
        return None if type(None) in self.kinds else ()

    def is_set(self, value: Any) -> bool:
        """Return whether a value is not the default."""
        empty = isinstance(value, list | tuple) and not value
        usual = value is self.default or (isinstance(value, str | float) and value == self.default)
        return not (value is None or usual or empty)

    @property
    def choices(self) -> tuple[str, ...]:
        """Its values if these are a few words, otherwise none."""
        return tuple(word for kind in self.kinds if get_origin(kind) is Literal for word in get_args(kind))

    def check(self, value: Any) -> None:
        """Raise ConfigError unless a value is one of its choices, a text, or a number within its limits."""
        if self.choices and not self.several and value is not None and value not in self.choices:
            raise ConfigError(
                f"{self.name} is {value!r}; expected {', '.join(self.choices)}", parameters=(self.name,)
            )
        number, least, most = self.number, self.option.least, self.option.most
        if value is None or not (number or self.annotation in (str, str | None)):
            return
        valid = isinstance(value, int | float if number is float else number or str)
        if valid and number:
            low, high = -math.inf if least is None else least, math.inf if most is None else most
            within = low <= value <= high if number is int else low < value < high
            valid = within and not isinstance(value, bool)
        if not valid:
            expected = "text" if number is None else "whole number" if number is int else "number"
            expected += "" if least is None else f", at least {least}" if number is int else f" above {least}"
            expected += (
                "" if most is None else f", at most {most:,}" if number is int else f" and below {most}"
            )
            raise ConfigError(f"{self.name} is {value!r}; expected a {expected}", parameters=(self.name,))

    def describe(self) -> tuple[str, str]:
        """Return its description, and what holds if it is not given; either may be empty."""
        text, value = self.option.help, self.option.default
        if not text:
            from pricekit.config.layers import setting_field

            field = setting_field(self.option.setting)
            text, value = str(field.description), getattr(field.default, "name", field.default)
        text, _, words = text.partition("; default: ")
        return text, words or ("" if value is None or value is False or value in ([], ()) else str(value))


@functools.cache
def parameters_of(declared: type) -> dict[str, Parameter]:
    """Return the options of a TypedDict by name, in the order of their declaration."""
    parameters = {}
    for name, hint in get_type_hints(declared, include_extras=True).items():
        required = get_origin(hint) is Required
        annotated = get_args(hint)[0] if required else hint
        kind, option = get_args(annotated)
        parameters[name] = Parameter(name, kind, option, required)
    return parameters


READ_OPTIONS = tuple(name for name, one in parameters_of(PricedOptions).items() if not one.option.setting)
"""The options that control how a file is read, which are no settings."""

RESUMABLE = frozenset({"time_budget", "init", *READ_OPTIONS})
"""Options that may differ in a resumed run: those for reading, and a new time budget. `init` is compared apart."""


def with_options(declared: type) -> Callable[[Function], Function]:
    """Let a function take options as `**options`, and show them in its signature and its docstring.

    The function receives every option, if not from its caller then with its default.

    Args:
        declared: the TypedDict of the options; their descriptions replace the line `**options: see below.`
    """
    parameters = parameters_of(declared)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def checked(*args: Any, **values: Any) -> Any:
            check_known(function.__name__, values, signature.parameters)
            bound = signature.bind(*args, **values)  # a TypeError names what is missing
            bound.apply_defaults()
            for name, parameter in parameters.items():
                bound.arguments[name] = _plain(bound.arguments[name])
                parameter.check(bound.arguments[name])
            with clear_errors():
                return function(*bound.args, **bound.kwargs)

        signature = show_options(checked, declared)
        return checked  # type: ignore[return-value]

    return decorate


def show_options(function: Callable[..., Any], declared: type) -> inspect.Signature:
    """Show the options of a TypedDict in the docstring and the signature of a function; return the signature."""
    signature = inspect.signature(function)
    *named, _ = signature.parameters.values()
    shown = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.required else one.default,
            annotation=one.annotation,
        )
        for name, one in parameters_of(declared).items()
        if name not in signature.parameters
    ]
    signature = signature.replace(parameters=[*named, *shown])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__doc__ = described(function.__doc__, declared)
    return signature


def described(docstring: str | None, declared: type) -> str:
    """Return a docstring in which the descriptions of options replace the line `**options: see below.`."""

    def lines(line: re.Match[str]) -> str:
        rows = []
        for name, parameter in parameters_of(declared).items():
            text, default = parameter.describe()
            row = f"{name}: {text}{f'; default: {default}' if default else ''}."
            rows.append(textwrap.fill(row, 120, initial_indent=line[1], subsequent_indent=f"{line[1]}    "))
        return "\n".join(rows)

    return re.sub(r"^( +)\*\*options: see below\.$", lines, docstring or "", flags=re.MULTILINE)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Raise a PricekitError if the system refuses to read or write a file in the block."""
    try:
        yield
    except OSError as error:
        if error.filename is None:  # not about a file
            raise
        raise PricekitError(describe_failure(error), path=str(error.filename)) from error


def _plain(value: Any) -> Any:
    """Return a numpy scalar as a Python number or text, and any other value unchanged."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def check_known(function: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise TypeError for an option that a function does not have."""
    if unknown := [name for name in options if name not in known]:
        raise TypeError(f"{function}() has no option '{unknown[0]}'.{did_you_mean(unknown[0], known)}")


def model_path(model: Any, parameter: str, trust: Trust | None = None) -> Path:
    """Return the local path of a model to read: a remote one is fetched into the cache.

    A folder that a killed process was replacing is brought back. With `trust`, nothing but a manifest and its signature
    is read before one of these keys has signed it.
    """
    location = location_of(model, parameter)
    if not isinstance(location, Path):
        from pricekit.predict.bundle import fetch_model

        return fetch_model(location, trust)
    path = restore(location)
    if trust is not None:
        from pricekit.predict.bundle import check_trusted

        check_trusted(path, trust)
    return path


def path_or_frame(table: Any) -> Any:
    """Return a path or an address as a location, and anything else, such as a frame or None, as it is."""
    return location_of(table, "table") if isinstance(table, str | os.PathLike) else table


def several(value: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple; a frame, a path or a model is one value."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def names_of(value: str | Iterable[str] | None, parameter: str) -> list[str]:
    """Return one name or several as a list; raises ConfigError."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    names = list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"{parameter} is {value!r}; expected a name or a list of names", parameters=(parameter,)
        )
    return names


def read_options_of(options: Mapping[str, Any]) -> Any:
    """Return the `ReadOptions` for the options; raises DataError."""
    from pricekit.table import ReadOptions

    return ReadOptions(
        encoding=options.get("encoding"),
        delimiter=options.get("delimiter"),
        names=tuple(names_of(options.get("columns"), "columns")),
        decimal=options.get("decimal"),
        currency=options.get("currency"),
        sheet=options.get("sheet"),
        price_unit=options.get("price_unit"),
        sql=None if options.get("sql") is None else _query_in(path_of(options["sql"], "sql")),
    )


def _query_in(path: Path) -> str:
    try:
        query = path.read_text("utf-8").strip().removesuffix(";").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}", parameters=("sql",)) from None
    if not query:
        raise ConfigError(f"{path} contains no query", parameters=("sql",))
    return query


def refuse_reading_options(options: Mapping[str, Any], why: str = "no table is given") -> None:
    """Raise ConfigError if options for reading a table are set; the message says why there is no table to read."""
    if names := [name for name in WeighedOptions.__annotations__ if options.get(name) is not None]:
        raise ConfigError(f"{names[0]} is an option for reading a table, but {why}", parameters=tuple(names))


def columns_over(columns: Any, options: Mapping[str, Any]) -> Any:
    """Return a model's columns, replaced by those that the options name."""
    if text := names_of(options.get("text"), "text"):
        columns = replace(columns, text=tuple(text))
    if options.get("price"):
        columns = replace(columns, price=options["price"])
    if options.get("id"):
        columns = replace(columns, id=options["id"], id_required=True)
    return columns


def rows_without_prices(table: Any, columns: Any, options: Mapping[str, Any]) -> Table:
    """Read a table with these columns, or those that the options name, but not its prices; raises DataError."""
    from pricekit.table import read_table

    columns = replace(columns_over(columns, options), price=None)
    return read_table(table, columns, limit=options.get("limit"), read_options=read_options_of(options))


def check_columns_soon(table: Any, options: Mapping[str, Any]) -> None:
    """Raise DataError if a local file lacks a column that is named for the training, without an import of torch.

    All other problems are left to those who read the file and the options.

    Args:
        table: as of `pricekit.train`.
        options: of the model; without `resume`, whose run may name the columns.
    """
    from pricekit.config import merge
    from pricekit.table import Columns
    from pricekit.table.read import columns_found

    path = path_or_frame(table)
    if options.get("resume") or not isinstance(path, Path) or not path.is_file():
        return
    settings = functools.reduce(merge, layers_of(options), dict[str, Any]())
    named = settings.get("columns", {})
    if not isinstance(named, Mapping):
        return
    text, price, row_id = names_of(named.get("text"), "text"), named.get("price"), named.get("id")
    try:
        columns_found(path, Columns(tuple(text), price, row_id, row_id is not None), read_options_of(options))
    except DataError as error:
        if "column" in error.facts:
            raise


def config_of(options: Mapping[str, Any], *below: Mapping[str, Any]) -> Any:
    """Return the configuration for the model options, over the layers `below`; raises ConfigError, PluginError."""
    from pricekit.config.resolve import configure

    return configure([*below, *layers_of(options)])


def layers_of(options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the layers of settings for the model options, the lowest first."""
    from pricekit.config import read_toml

    config = options.get("config")
    if not isinstance(config, Mapping):
        config = {} if config is None else read_toml(path_of(config, "config"))
    return [config, option_layer(options), *settings_layers(options.get("settings"))]


def option_layer(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that options name, as one layer of the configuration."""
    from pricekit.config.layers import merge, nested

    layer: dict[str, Any] = {}
    for name, parameter in parameters_of(TrainOptions).items():
        value = options.get(name)
        if parameter.option.setting and parameter.is_set(value):
            if parameter.several:
                value = names_of(value, name)
            elif isinstance(value, os.PathLike):
                value = os.fspath(value)
            layer = merge(layer, nested(parameter.option.setting.split("."), value))
    return layer


def settings_layers(settings: Mapping[str, Any] | Sequence[str] | None) -> list[Mapping[str, Any]]:
    """Return single settings, a mapping by dotted name or texts like `training.epochs=20`, as layers."""
    from pricekit.config import parse_override
    from pricekit.config.layers import nested

    if settings is None:
        return []
    if isinstance(settings, list | tuple) and all(isinstance(text, str) for text in settings):
        return [parse_override(text) for text in settings]
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        words = "the text " if isinstance(settings, str) else ""
        raise ConfigError(
            f"settings is {words}{settings!r}; expected a mapping such as {{'training.epochs': 20}}",
            parameters=("settings",),
        )
    return [nested(name.split("."), _plain(value)) for name, value in settings.items()]
