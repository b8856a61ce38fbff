"""Keyword options that several functions of `pricekit` share, and how they become settings.

Each option is declared once, with its type and a description. `with_options` shows them in the signature and the
docstring of every function that takes them.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar, get_type_hints

from pricekit.errors import ConfigError, DataError, PricekitError, check_limit, path_of
from pricekit.storage import location_of
from pricekit.support.files import describe_failure, restore
from pricekit.support.text import did_you_mean

if TYPE_CHECKING:
    from pricekit.bundle.keys import Trust
    from pricekit.table import Table

Function = TypeVar("Function", bound=Callable[..., Any])

READ_OPTIONS = ("encoding", "delimiter", "columns", "decimal", "currency")
"""The options that control how a file is read."""

_KINDS = ("policy", "backbone", "loss")

PathLike = str | os.PathLike[str]
Keys = PathLike | Sequence[PathLike]
"""Files of public keys."""


class ReadingOptions(TypedDict, total=False):
    """Options for reading a table; pricekit detects those that are not given."""

    text: Annotated[
        str | Sequence[str] | None, "text columns; several columns become labelled lines of one text"
    ]
    id: Annotated[
        str | None, "column that identifies each row; default: sample_id if it exists, otherwise row numbers"
    ]
    encoding: Annotated[str | None, "encoding of a text file"]
    delimiter: Annotated[str | None, "field separator of a text file, such as ';' or tab"]
    columns: Annotated[Sequence[str] | None, "names of all columns of a file that has no header"]
    limit: Annotated[int | None, "number of rows to read, from the first one"]


class PricedOptions(ReadingOptions, total=False):
    """Options for reading a table with prices."""

    price: Annotated[str | None, "column of known prices; default: price"]
    decimal: Annotated[str | None, "decimal mark of prices written as text, '.' or ','"]
    currency: Annotated[str | None, "use only prices in this currency, a code or a sign, such as EUR or €"]


class WeighedOptions(PricedOptions, total=False):
    """Options for reading a table with prices whose rows may count differently."""

    weight: Annotated[
        str | None, "column of row weights, at least 0; in training for the loss, trees and intervals, too"
    ]


class ModelOptions(WeighedOptions, total=False):
    """Options for the model and its training."""

    group: Annotated[str | None, "column whose equal values stay on one side of a split, such as a shop"]
    time: Annotated[
        str | None, "column of dates, times or numbers: earlier rows are trained on, later ones validated on"
    ]
    policy: Annotated[
        str | None, "training policy, which sets the defaults of all options below; default: quick"
    ]
    backbone: Annotated[str | None, "tokenizer and encoder"]
    features: Annotated[str | Sequence[str] | None, "feature plugins"]
    weights: Annotated[str | Path | None, "pretrained weights of the backbone: a folder or a hub id"]
    random_weights: Annotated[
        bool | None,
        "start the backbone from random weights instead of downloading pretrained ones; for benchmarks",
    ]
    metric: Annotated[
        str | None,
        "what to minimise on the validation rows: smape, mape, mdape, wape, mae, medae, rmse or rmsle; it also brings "
        "its natural loss; default: smape",
    ]
    loss: Annotated[str | None, "training objective; default: that of the metric"]
    max_length: Annotated[int | None, "maximum number of tokens per text"]
    seed: Annotated[int | None, "random seed of split, weights and order; default: 0"]
    epochs: Annotated[int | str | None, "maximum number of epochs, or 'auto': more for small tables"]
    time_budget: Annotated[
        float | str | None, "time limit in seconds, or a text such as '2h'; the schedule fits into it"
    ]
    max_latency: Annotated[
        float | str | None,
        "time to price one row alone, in seconds or a text such as '5ms', in torch on this machine: an ensemble "
        "consists of the members that are best within it",
    ]
    refit: Annotated[
        bool | None,
        "after the best epoch is known, train once more on all rows, those of the validation included; default: as the "
        "policy says, and `quick` says yes",
    ]
    track: Annotated[
        str | Sequence[str] | None,
        "trackers that observe the training, such as mlflow or tensorboard, each from its package",
    ]
    config: Annotated[
        str | Path | Mapping[str, Any] | None, "TOML file or mapping of settings; options override it"
    ]
    settings: Annotated[
        Mapping[str, Any] | Sequence[str] | None,
        "single settings by dotted name, such as {'training.epochs': 20}; they override everything else",
    ]


class PretrainingOptions(ReadingOptions, total=False):
    """Options for pretraining."""

    weights: Annotated[str | Path | None, "weights to start from: a folder or a hub id"]
    random_weights: Annotated[bool | None, "start a pretrained backbone from random weights"]
    max_length: Annotated[int | None, "maximum number of tokens per text; default: 128"]
    epochs: Annotated[int | None, "number of epochs; default: 3, from random weights 10"]
    batch_size: Annotated[int | None, "number of texts per step; default: 32"]
    learning_rate: Annotated[float | None, "peak learning rate; default: 1e-4, from random weights 1e-3"]
    seed: Annotated[int | None, "random seed of masks, order and held-out texts; default: 0"]
    settings: Annotated[
        Mapping[str, Any] | Sequence[str] | None,
        "settings of the backbone, such as {'backbone.layers': 2}, and facts_first",
    ]


RESUMABLE = frozenset({"time_budget", "out", *READ_OPTIONS})
"""Options that may differ in a resumed run: those for reading the table, and a new time budget."""


def with_options(declared: type) -> Callable[[Function], Function]:
    """Show keyword options in the signature and the docstring of a function that takes them as `**options`.

    Args:
        declared: the TypedDict of the options; their descriptions replace the line `**options: see below.`
    """
    hints = get_type_hints(declared, include_extras=True)

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        *named, _ = signature.parameters.values()
        more = {name: hint for name, hint in hints.items() if name not in signature.parameters}
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint.__origin__)
            for name, hint in more.items()
        ]
        described = "\n".join(f"        {name}: {hint.__metadata__[0]}." for name, hint in more.items())

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            known = {*signature.parameters, *more}
            if unknown := [name for name in given if name not in known]:
                hint = did_you_mean(unknown[0], known)
                raise TypeError(f"{function.__name__}() has no option '{unknown[0]}'.{hint}")
            given = {name: _plain(value) for name, value in given.items()}
            _check_texts(given, hints)
            check_limit(given.get("limit"))
            return clear_errors(function)(*args, **given)

        checked.__signature__ = signature.replace(parameters=[*named, *shown])  # type: ignore[attr-defined]
        checked.__doc__ = (function.__doc__ or "").replace("        **options: see below.", described)
        return checked  # type: ignore[return-value]

    return decorate


def clear_errors(function: Function) -> Function:
    """Make a function raise a PricekitError if the system refuses to read or write a file."""

    @functools.wraps(function)
    def explained(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except OSError as error:
            if error.filename is None:  # not about a file
                raise
            raise PricekitError(describe_failure(error), path=str(error.filename)) from error

    return explained  # type: ignore[return-value]


def _plain(value: Any) -> Any:
    """Return a numpy scalar as a Python number or text, and any other value unchanged."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _check_texts(given: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raise ConfigError if an option that must be a text has another type."""
    for name, value in given.items():
        if name in hints and hints[name].__origin__ == str | None and not isinstance(value, str | None):
            raise ConfigError(f"{name} is {value!r}; expected a text", parameters=(name,))


def model_path(given: Any, parameter: str, trust: Trust | None = None) -> Path:
    """Return the local path of a model to read: a remote one is fetched into the cache.

    A folder that a killed process was replacing is brought back. With `trust`, nothing but a manifest and its signature
    is read before one of these keys has signed it.
    """
    location = location_of(given, parameter)
    if not isinstance(location, Path):
        from pricekit.bundle.folder import fetch_model

        return fetch_model(location, trust)
    path = restore(location)
    if trust is not None:
        from pricekit.bundle.folder import check_trusted

        check_trusted(path, trust)
    return path


def path_or_frame(table: Any) -> Any:
    """Return a path or an address as a location, and anything else, such as a frame or None, as it is."""
    return location_of(table, "table") if isinstance(table, str | os.PathLike) else table


def names_of(given: str | Iterable[str] | None, parameter: str) -> list[str]:
    """Return one name or several as a list; raises ConfigError."""
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    found = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in found):
        raise ConfigError(
            f"{parameter} is {given!r}; expected a name or a list of names", parameters=(parameter,)
        )
    return found


def read_options_of(options: Mapping[str, Any]) -> Any:
    """Return the `ReadOptions` for the options; raises DataError."""
    from pricekit.table import ReadOptions

    given = {name: options.get(name) for name in READ_OPTIONS}
    return ReadOptions(names=tuple(names_of(given.pop("columns"), "columns")), **given)


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
    """Raise DataError if a local file lacks a column that training reads, without an import of torch.

    All other problems are left to those who read the file and the options.

    Args:
        table: as of `pricekit.train`.
        options: of the model; without `resume`, whose run may name the columns.
    """
    from pricekit.config import RunConfig, merge
    from pricekit.table import Columns
    from pricekit.table.read import columns_found

    path = path_or_frame(table)
    if options.get("resume") or not isinstance(path, Path) or not path.is_file():
        return
    settings = functools.reduce(merge, layers_of(options), dict[str, Any]())
    others = {"policy", "init"} & settings.keys() or options.get("init")  # these may name columns, too
    named = settings.get("columns", {})
    if not isinstance(named, Mapping):
        return
    if not others:
        named = RunConfig().columns.model_dump() | dict(named)
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
    given = {name: value for name, value in options.items() if value is not None}
    layer: dict[str, Any] = {kind: {"name": given[kind]} for kind in _KINDS if kind in given}
    single = ("metric", "max_length", "seed", "limit", "max_latency")
    layer |= {name: given[name] for name in single if name in given}
    layer |= {name: names_of(given[name], name) for name in ("features", "track") if name in given}
    pretrained = {name: given[name] for name in ("weights", "random_weights") if given.get(name)}
    if pretrained:
        pretrained |= {"weights": str(pretrained["weights"])} if "weights" in pretrained else {}
        layer["backbone"] = layer.get("backbone", {}) | pretrained
    if training := {name: given[name] for name in ("epochs", "time_budget", "refit") if name in given}:
        layer["training"] = training
    roles = ("price", "id", "weight", "group", "time")
    named = {role: given.get(role) for role in roles} | {"text": names_of(given.get("text"), "text")}
    if columns := {name: value for name, value in named.items() if value}:
        layer["columns"] = columns
    return layer


def settings_layers(settings: Mapping[str, Any] | Sequence[str] | None) -> list[Mapping[str, Any]]:
    """Return single settings, a mapping by dotted name or texts like `training.epochs=20`, as layers."""
    from pricekit.config import parse_override
    from pricekit.config.layers import nested

    if settings is None:
        return []
    if isinstance(settings, str):
        raise ConfigError(
            f"settings is the text {settings!r}; expected a mapping such as {{'training.epochs': 20}}",
            parameters=("settings",),
        )
    if isinstance(settings, list | tuple) and all(isinstance(text, str) for text in settings):
        return [parse_override(text) for text in settings]
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise ConfigError(
            f"settings is {settings!r}; expected a mapping such as {{'training.epochs': 20}}",
            parameters=("settings",),
        )
    return [nested(name.split("."), _plain(value)) for name, value in settings.items()]
