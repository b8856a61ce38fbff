"""Layers of settings: merge and validate them, read them from TOML files and dotted overrides.

Each layer overrides the previous one: defaults, policy, file, single settings.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pricekit.config.settings import RunConfig
from pricekit.errors import ConfigError, explain_invalid

Layer = Mapping[str, Any]
"""A part of a configuration, as nested tables."""


def build_config(layers: Iterable[Layer]) -> RunConfig:
    """Merge layers over the defaults, later layers over earlier ones, and validate; raises ConfigError."""
    merged: dict[str, Any] = RunConfig().model_dump()
    for layer in layers:
        merged = merge(merged, layer)
    try:
        return RunConfig.model_validate(merged)
    except ValidationError as error:
        raise explain_invalid(error, "the configuration", dotted_names(RunConfig)) from None


def merge(below: Layer, above: Layer) -> dict[str, Any]:
    """Merge one nested table over another.

    If the upper layer names another plugin, the lower layer's options of the plugin are dropped.
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            same_plugin = value.get("name", old.get("name")) == old.get("name")
            result[key] = merge(old, value) if same_plugin else dict(value)
        else:
            result[key] = value
    return result


def read_toml(path: Path) -> dict[str, Any]:
    """Read one layer from a TOML file; raises ConfigError."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the configuration {path} cannot be read: {error.strerror}", parameters=("config",)
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the configuration {path} is not valid TOML: {error}", parameters=("config",)
        ) from None


def read_saved_config(path: Path, *layers: Layer) -> RunConfig:
    """Read the complete configuration that a run saved, with layers over it; raises ConfigError."""
    return build_config([read_toml(path), *layers])


def parse_override(text: str) -> dict[str, Any]:
    """Parse `loss.gamma=1.5` into `{"loss": {"gamma": 1.5}}`; a value is TOML, `none`, or a string."""
    dotted, equals, value = text.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys):
        raise ConfigError(
            f"'{text}' is not a setting; expected key=value, such as loss.gamma=1.5",
            parameters=("settings",),
            setting=text,
        )
    return nested(keys, _toml_value(value.strip()))


def nested(keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a value in nested tables; the keys lead to it."""
    first, *rest = keys
    return {first: nested(rest, value) if rest else value}


def write_override(name: str, value: Any) -> str:
    """Return a setting as `parse_override` reads it.

    Args:
        name: its dotted name.
        value: None, a number, a truth value, a text, or a list of them.

    Example:
        >>> write_override("loss.gamma", 1.5), write_override("loss", "smape"), write_override("limit", None)
        ('loss.gamma=1.5', 'loss=smape', 'limit=none')
    """
    if value is None:
        return f"{name}=none"
    if isinstance(value, str) and value == value.strip() and _toml_value(value) == value and '"' not in value:
        return f"{name}={value}"
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON permits it, TOML does not
    return f"{name}={text}"


def leaves(table: Layer, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value of nested tables with the keys that lead to it; an empty table is a value."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def by_dotted_name(table: Layer) -> dict[str, Any]:
    """Return the values of nested tables by their dotted names, without empty tables."""
    return {".".join(path): value for path, value in leaves(table) if value != {}}


def _toml_value(text: str) -> Any:
    if text.lower() == "none":  # TOML has no null, and None disables some settings
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def setting_field(name: str) -> FieldInfo:
    """Return the field of a setting by its dotted name; that of a plugin for the plugin's name."""
    model: Any = RunConfig
    for key in name.removesuffix(".name").split("."):
        field = model.model_fields[key]
        model = field.annotation
    return cast("FieldInfo", field)


def dotted_names(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the names of all fields of a model and of the models in it, such as `training.epochs`."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        names.append(prefix + name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            names += dotted_names(inner, f"{prefix}{name}.")
    return names
