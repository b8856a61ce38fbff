"""The reference of settings, from the pydantic models of the configuration and of the plugins' options."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pricekit.config import RunConfig
from pricekit.config.resolve import CHOICES
from pricekit.config.settings import Search
from pricekit.core.loader import registry
from pricekit.core.registry import options_model

PREFIXES = {"backbone": "backbone", "loss": "loss", "policy": "policy", "feature": "feature_options.{name}"}


def settings_page() -> str:
    """Return every setting as Markdown, with type, default and source."""
    return "\n\n".join([*_sections(), *_plugins()])


def _sections() -> Iterator[str]:
    plain = {n: f for n, f in RunConfig.model_fields.items() if not _inner(f)}
    yield "## General settings"
    yield from (_setting(name, field, "default", name) for name, field in plain.items())
    for name, field in RunConfig.model_fields.items():
        if model := _inner(field):
            yield f"## {name}\n\n{_first_line(model)}"
            for key, one in model.model_fields.items():
                yield _setting(f"{name}.{key}", one, "default", f"{name}.{key}")


def _inner(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a section; None for a plugin by name and for a single setting."""
    found = field.annotation
    is_section = isinstance(found, type) and issubclass(found, BaseModel) and "name" not in found.model_fields
    return found if is_section else None


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _plugins() -> Iterator[str]:
    for kind, prefix in PREFIXES.items():
        entries = [entry for entry in registry().of_kind(kind) if entry.package == "pricekit"]
        for entry in entries:
            model = options_model(entry.load())
            if model is None or not model.model_fields:
                continue
            yield f"## {kind.capitalize()} {entry.name}\n\n{entry.summary.capitalize()}."
            for key, field in model.model_fields.items():
                dotted = f"{prefix.format(name=entry.name)}.{key}"
                label = f"{dotted} ({entry.name})" if kind in CHOICES else dotted
                yield _setting(label, field, f"plugin default of the {kind} `{entry.name}`", dotted)


def _setting(label: str, field: FieldInfo, source: str, dotted: str) -> str:
    lines = [
        f"```{{setting}} {label}",
        _sentence((field.description or "").partition("; default: ")[0]),
        "",
        f"- Type: {_type(field)}",
        f"- Default: {_value(field)}",
        f"- Source: {source}{_policies(dotted)}",
    ]
    if search := next((m for m in field.metadata if isinstance(m, Search)), None):
        lines.append(f"- `pricekit tune` searches {_range(search)}")
    return "\n".join([*lines, "```"])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def _type(field: FieldInfo) -> str:
    limits = [
        f"{words} {value}"
        for m in field.metadata
        for name, words in (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
        if (value := getattr(m, name, None)) is not None
    ]
    return ", ".join([_words(field.annotation), *limits])


def _words(kind: Any) -> str:
    """Return a type in words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _words(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(one) for one in arguments)
    if origin in (list, tuple):
        return f"list of {_words(arguments[0])}"
    if origin is dict:
        return "table"
    names = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`", type(None): "none"}
    return names.get(kind) or ("plugin by name" if getattr(kind, "__name__", "") == "Choice" else "table")


def _value(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True) if not field.is_required() else PydanticUndefined
    if value is PydanticUndefined:
        return "none; it must be given"
    if isinstance(value, BaseModel):
        value = value.model_dump().get("name", "")
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{value!r}`".replace("'", '"')


def _range(search: Search) -> str:
    if search.choices:
        return ", ".join(f"`{choice}`" for choice in search.choices)
    if search.times is not None:
        return f"from a {search.times:g}th to {search.times:g} times its value"
    return f"from {search.low:g} to {search.high:g}"


def _policies(dotted: str) -> str:
    """Return what policies set instead."""
    found: dict[str, list[str]] = {}
    for entry in registry().of_kind("policy"):
        if entry.package != "pricekit":
            continue
        defaults: Any = registry().create("policy", entry.name).defaults
        for key in dotted.split("."):
            defaults = defaults.get(key) if isinstance(defaults, Mapping) else None
        if defaults is not None and not isinstance(defaults, Mapping):
            found.setdefault(re.sub(r"'", '"', f"`{defaults!r}`"), []).append(f"`{entry.name}`")
    texts = [
        f"{value} by the {'policies' if len(names) > 1 else 'policy'} {', '.join(names)}"
        for value, names in found.items()
    ]
    return f"; set to {'; '.join(texts)}" if texts else ""
