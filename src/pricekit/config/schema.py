"""The JSON schema of the configuration, including the options of every plugin."""

from __future__ import annotations

from typing import Any

from pricekit.config import RunConfig
from pricekit.config.resolve import CHOICES
from pricekit.core.loader import registry
from pricekit.core.registry import Entry, options_model, remedy_for

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_DURATION = {
    "type": "string",
    "minLength": 1,
    "pattern": r"^(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s?)?$",
}
"""Durations that `config.parse_duration` accepts."""

Schema = dict[str, Any]


Skipped = dict[str, list[str]]
"""Plugins that are missing in the schema, such as "loss focal", by the reason and what to do."""


def config_schema() -> tuple[Schema, Skipped]:
    """Return the JSON schema (draft 2020-12) of a configuration file, and the skipped plugins.

    A file is one of several layers, so no key is required, not even a plugin's name: `[loss]` may contain options
    of the loss that the policy names.
    """
    schema = {"$schema": DIALECT, **RunConfig.model_json_schema()}
    schema |= {
        "title": "pricekit",
        "description": "A configuration of pricekit; the policy provides all other settings.",
    }
    defs, properties = schema["$defs"], schema["properties"]
    del defs["Choice"]
    skipped: Skipped = {}
    for kind in CHOICES:
        del properties[kind]["$ref"], properties[kind]["default"]
        properties[kind]["anyOf"] = _choice(_of_kind(kind, defs, skipped))
    features = _of_kind("feature", defs, skipped)
    properties["features"]["items"] = {"type": "string", "enum": list(features)}
    properties["feature_options"] |= {"properties": features, "additionalProperties": False}
    defs["TrainingConfig"]["properties"]["time_budget"]["anyOf"].append(_DURATION)
    return schema, skipped


def _choice(plugins: dict[str, Schema]) -> list[Schema]:
    """Return the schemas of a plugin's name, or of a table with its name, options, or both."""
    tables = [
        table | {"properties": {"name": {"type": "string", "const": name}} | table["properties"]}
        for name, table in plugins.items()
    ]
    return [{"type": "string", "enum": list(plugins)}, *tables]


def _of_kind(kind: str, defs: Schema, skipped: Skipped) -> dict[str, Schema]:
    """Return the schema of each plugin's options, by name."""
    schemas = {}
    for entry in registry().of_kind(kind):
        try:
            schemas[entry.name] = _options(entry, defs)
        except Exception as error:  # import and schema run the plugin's code
            cause = error.__cause__ or error
            reason = f"{type(cause).__name__}: {' '.join(str(cause).split())}"
            remedy = remedy_for(cause, entry.package, entry.version)
            skipped.setdefault(f"({reason}). {remedy}", []).append(f"{kind} {entry.name}")
    return schemas


def _options(entry: Entry, defs: Schema) -> Schema:
    """Return the schema of a plugin's options as a table; add its definitions to `defs`."""
    table: Schema = {"type": "object", "properties": {}}
    if model := options_model(entry.load()):
        place = f"{entry.kind}.{entry.name}."
        table = model.model_json_schema(by_alias=False, ref_template=f"#/$defs/{place}{{model}}")
        inner = {place + name: schema for name, schema in table.pop("$defs", {}).items()}
        if reference := table.pop("$ref", None):  # recursive options
            table |= inner[reference.removeprefix("#/$defs/")]
        table.pop("required", None)
        defs |= inner
    return table | {"title": entry.name, "description": entry.summary, "additionalProperties": False}
