"""The exceptions that pricekit raises.

    PricekitError
    ├── ConfigError     a setting is unknown, of the wrong type or contradicts another
    ├── DataError       a table cannot be read or used
    │   └── NoRowsError     a table without a row
    ├── PluginError     a plugin is unknown, broken, or registered twice
    ├── TrainingError   training cannot start, continue or be resumed
    ├── ExportError     a model cannot be exported, or its graph differs from it
    ├── BundleError     a bundle is incomplete, altered or of another schema
    └── MachineError    the machine cannot do it, such as inspect a bundle with too little memory

Each message names the cause, what was expected and the fix, without the name of a flag.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.wording import nearest, printable, scheme_of, shorten

if TYPE_CHECKING:
    from pydantic import ValidationError


class PricekitError(Exception):
    """Base class of pricekit's exceptions.

    The message has no control characters, because it may quote a stranger's table or bundle. Errors cross processes:
    a pickled one keeps its attributes.

    Attributes:
        parameters: names of the parameters of `pricekit`'s functions that fix the problem, such as
            `("text", "price")`. The command line shows the flags with the same names.
        facts: details by name, such as `{"column": "titel", "candidates": ["title", "brand"]}`.

    Example:
        >>> from pricekit.errors import DataError
        >>> error = DataError("the table has no column 'titel'", parameters=("text",), column="titel")
        >>> error.parameters, error.facts
        (('text',), {'column': 'titel'})
    """

    def __init__(self, message: str = "", *, parameters: tuple[str, ...] = (), **facts: Any) -> None:
        super().__init__(printable(message))
        self.parameters = parameters
        self.facts = facts


class ConfigError(PricekitError):
    """A setting is unknown, of the wrong type, or contradicts another one."""


class DataError(PricekitError):
    """A table cannot be read, or no row of it can be used."""


class NoRowsError(DataError):
    """A table has no rows. If a table consists of several files, such a file is skipped."""


class PluginError(PricekitError):
    """A plugin is unknown, failed to load, or its name is taken."""


class TrainingError(PricekitError):
    """Training cannot start, continue or be resumed."""


class LostProcessError(TrainingError):
    """Another process that trains together with this one has ended, so that this one cannot continue."""


class ExportError(PricekitError):
    """A model cannot be exported, or the exported graph differs from the model."""


class BundleError(PricekitError):
    """A bundle is incomplete, was altered, or has an unknown schema version."""


class MachineError(PricekitError):
    """The machine cannot do something, or not now; nothing is wrong with the data."""


def is_panic(error: BaseException) -> bool:
    """Return whether an error is the panic of a library written in Rust, such as tokenizers; it is no `Exception`."""
    return type(error).__module__ == "pyo3_runtime"


def first_invalid_field(error: BaseException) -> str:
    """Return the first invalid value of a validation error and the reason, in brackets; "" for other errors."""
    from pydantic import ValidationError  # slow to import

    if not isinstance(error, ValidationError):
        return ""
    first = error.errors()[0]
    place = f"{shorten('.'.join(map(str, first['loc'])), 100)}: " if first["loc"] else ""
    return f" ({place}{shorten(first['msg'].removeprefix('Value error, '), 300)})"


def explain_invalid(error: ValidationError, where: str, names: Iterable[str]) -> ConfigError:
    """Return a ConfigError for a validation error, with the nearest name for each unknown key."""
    known = list(names)
    problems: list[dict[str, Any]] = [dict(one) for one in error.errors()]
    keys = [
        part for part in problems[0]["loc"] if isinstance(part, str) and part != "name"
    ]  # "policy" of policy.name
    unknown = problems[0]["type"] in ("extra_forbidden", "invalid_key")  # no parameter sets it
    return ConfigError(
        f"{where}: " + "; ".join(_explain_one(one, known) for one in problems),
        parameters=(*([] if unknown else keys[-1:]), "settings"),
        setting=".".join(str(part) for part in problems[0]["loc"]),
        candidates=known,
    )


def _explain_one(problem: dict[str, Any], known: list[str]) -> str:
    dotted = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        close = nearest(dotted, known, cutoff=0.5)
        hint = f"did you mean '{close}'?" if close else f"available: {', '.join(known)}"
        return f"unknown setting '{dotted}'; {hint}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{dotted} is {problem['input']!r}: {message}" if dotted else message


def path_of(value: Any, parameter: str) -> Path:
    """Return the value of a parameter as a local Path; raises ConfigError if it is not a path, or is an address."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if isinstance(value, str) and scheme_of(value):
        raise ConfigError(
            f"{parameter} is {value}, but only a local path is possible here; write it locally, and copy it with the "
            "provider's tools",
            parameters=(parameter,),
        )
    if isinstance(path, str) and path and "\0" not in path:
        return Path(path)
    shown = repr(value) if isinstance(value, str | bytes) or value is None else f"a {type(value).__name__}"
    raise ConfigError(f"{parameter} is {shown}; expected a path", parameters=(parameter,))
