"""The description of the interface in OpenAPI 3.1, from which tools make clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pricekit.plugin.runners import MAX_TEXT_CHARS
from pricekit_serve import __version__
from pricekit_serve.answers import UNCERTAINTY
from pricekit_serve.bodies import JSON_LINES
from pricekit_serve.limits import COMPARABLES, EXPLAINED_ROWS, Limits
from pricekit_serve.models import Model
from pricekit_serve.rows import ARROW

_ERRORS = {
    400: "it is not an HTTP request",
    401: "the token is missing or wrong",
    403: "a page of another site has sent the request",
    404: "there is no such model, version or address",
    405: "the address does not answer this method",
    408: "the request did not come in time",
    421: "the server does not know the name in the header `Host`",
    431: "the head of the request is too long",
    500: "the server or the model failed",
    503: "the server stops, or too much waits; try again after `Retry-After` seconds",
}
_ERRORS_OF_BODIES = {
    400: "the body is not in its format, or it is not an HTTP request",
    413: "there are too many bytes, rows, columns or values",
    415: "the format or encoding is not supported",
    422: "a value is wrong; `field` names it",
    429: "too many rows wait to be explained; try again after `Retry-After` seconds",
    504: "the prices were not ready in time",
}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None, *, open_: bool = False) -> Any:
    properties = required | (optional or {})
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": open_,
    }


def _list(items: Any) -> Any:
    return {"type": "array", "items": items}


def _ref(name: str) -> Any:
    return {"$ref": f"#/components/schemas/{name}"}


_TEXT: Any = {"type": "string"}
_NUMBER: Any = {"type": "number"}
_SHARE: Any = _NUMBER | {"exclusiveMinimum": 0, "exclusiveMaximum": 1}
_COUNT: Any = {"type": "integer", "minimum": 0}

SCHEMAS: dict[str, Any] = {
    "Factor": _object(
        dict.fromkeys(("kind", "column", "text"), _TEXT)
        | {"start": {"type": "integer"}, "end": {"type": "integer"}, "factor": _NUMBER},
        {"parts": _list(_ref("Factor"))},
    ),
    "Comparable": _object({"id": _TEXT, "name": _TEXT, "price": _NUMBER, "similarity": _NUMBER}, open_=True),
    "Price": _object(
        {"price": _NUMBER},
        {
            "price_low": _NUMBER,
            "price_high": _NUMBER,
            "release": {"type": "boolean"},
            "base": _NUMBER
            | {"description": "the price of a row without any text; times all factors, it is the price"},
            "factors": _list(_ref("Factor")),
            "comparables": _list(_ref("Comparable")),
        },
    )
    | {"patternProperties": {"^price_0[.][0-9]+$": _NUMBER}},
    "Answer": _object(
        {
            "rows": _list(_ref("Price")),
            "model": _TEXT,
            "version": _TEXT,
            "currency": {"type": ["string", "null"]},
        }
    ),
    "Error": _object({"error": _TEXT, "request_id": _TEXT}, {"field": _TEXT}),
    "Output": _object(
        {"name": _TEXT, "shape": _list(_COUNT), "datatype": {"enum": ["FP32", "BOOL"]}},
        {"data": _list({"type": ["number", "boolean"]}), "parameters": _object({"binary_data_size": _COUNT})},
    ),
    "InferenceAnswer": _object(
        {"model_name": _TEXT, "model_version": _TEXT, "outputs": _list(_ref("Output"))}, {"id": _TEXT}
    ),
}
"""What does not depend on a model."""


def document(models: Sequence[Model], limits: Limits) -> dict[str, Any]:
    """Return the description of a server, with the columns and options of each of its models.

    Args:
        models: that it serves now; the first one answers `/predict`.
        limits: of requests.
    """
    paths: dict[str, Any] = {"/predict": {"post": _predict(models[0])}} if models else {}
    schemas = dict(SCHEMAS)
    for model in models:
        name, protocol = model.name, f"/v2/models/{model.name}"
        paths |= {
            f"/models/{name}": {
                "get": _operation("Describe a model: its columns, how a form shows them, and an example")
            },
            f"/models/{name}/predict": {"post": _predict(model)},
            protocol: {"get": _operation("Describe a model")},
            f"{protocol}/ready": {"get": _operation("Say whether a model is ready")},
            f"{protocol}/infer": {"post": _infer(model)},
        }
        schemas |= {
            f"Row-{name}": _row(model),
            f"Request-{name}": _request(model, limits),
            f"Inference-{name}": _inference(model),
        }
    texts = {
        "/models": "List the models and their columns",
        "/v2": "Describe the server",
        "/v2/health/live": "Say that the process answers",
        "/v2/health/ready": "Say whether new requests are welcome; 503 if not",
    }
    metrics = _operation("Metrics in the format of Prometheus")
    metrics["responses"]["200"]["content"] = {"text/plain": {"schema": _TEXT}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "pricekit-serve", "version": __version__},
        "paths": {
            **paths,
            **{path: {"get": _operation(text)} for path, text in texts.items()},
            "/metrics": {"get": metrics},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _row(model: Model) -> dict[str, Any]:
    known = model.columns
    cell = {"type": ["string", "number", "boolean", "null"], "maxLength": MAX_TEXT_CHARS}
    vector = {"type": ["array", "string", "null"], "items": _NUMBER}
    return {
        "type": "object",
        "description": "the cells of a row by column; all must have those that are required",
        "properties": dict.fromkeys(known.names, cell) | dict.fromkeys(known.vectors, vector),
        "required": list(known.text),
        "additionalProperties": cell if known.any else False,
    }


def _options(model: Model) -> dict[str, Any]:
    """Return the options of a request that the model has."""
    options: dict[str, Any] = {
        "explain": {"type": "boolean", "description": "also give the factors of each price"}
    }
    if model.predictor.intervals is not None:
        options |= _uncertainty(model)
    if model.predictor.products is not None:
        options["comparables"] = _COUNT | {
            "maximum": COMPARABLES,
            "description": "also give this many similar products",
        }
    return options


def _uncertainty(model: Model) -> dict[str, Any]:
    """Return the options that say how sure the prices shall be."""
    schemas: dict[str, Any] = {}
    for name, option in UNCERTAINTY.items():
        limits = {"exclusiveMinimum": option.option.least, "exclusiveMaximum": option.option.most}
        number = _NUMBER | {key: limit for key, limit in limits.items() if limit is not None}
        schemas[name] = (_list(_SHARE) if option.is_numbers else number) | {
            "description": option.describe()[0]
        }
    schemas["interval"]["maximum"] = model.predictor.require_intervals().highest
    return schemas


def _request(model: Model, limits: Limits) -> Any:
    rows = _list(_ref(f"Row-{model.name}")) | {
        "maxItems": limits.max_rows,
        "description": f"at most {EXPLAINED_ROWS} with explanations or comparables",
    }
    nullable = {name: option | {"type": [option["type"], "null"]} for name, option in _options(model).items()}
    return _object({"rows": rows}, nullable)


def _inference(model: Model) -> Any:
    known = model.columns
    cell = _TEXT | {"maxLength": MAX_TEXT_CHARS}
    tensor = _object(
        {
            "name": _TEXT if known.any else {"enum": known.names},
            "shape": {
                "type": "array",
                "prefixItems": [_COUNT, {"const": 1}],
                "items": False,
                "minItems": 1,
                "description": "[rows] or [rows, 1]",
            },
            "datatype": {"const": "BYTES"},
            "data": _list({"anyOf": [cell, _list(cell) | {"minItems": 1, "maxItems": 1}]})
            | {"description": "as many texts as the shape says"},
        }
    )
    inputs = _list(tensor) | {"minItems": len(known.text), "description": "one tensor for each column"}
    if not known.any:
        inputs["maxItems"] = len(known.names)
    has_interval = model.predictor.intervals is not None
    parameters = {"binary_data_output": {"type": "boolean"}} | (
        {
            name: _TEXT if UNCERTAINTY[name].is_numbers else schema
            for name, schema in _uncertainty(model).items()
        }
        if has_interval
        else {}
    )
    output = _object(
        {"name": _TEXT if has_interval else {"const": "price"}},
        {"parameters": _object({}, {"binary_data": {"type": "boolean"}}, open_=True)},
        open_=True,
    )
    return _object(
        {"inputs": inputs},
        {"id": _TEXT, "parameters": _object({}, parameters, open_=True), "outputs": _list(output)},
        open_=True,
    )


def _predict(model: Model) -> dict[str, Any]:
    """Return the address that prices rows. Options of other bodies than JSON are in the query."""
    operation = _operation("Price rows", "Answer", f"Request-{model.name}")
    options = ", ".join(_options(model))
    lines = f"one row as JSON in each line; options are in the query: {options}"
    arrow = f"an Arrow IPC stream of the columns, without compression; in the query: {', '.join(UNCERTAINTY)}"
    bodies = dict.fromkeys(JSON_LINES, lines) | {ARROW: arrow}
    answers = dict.fromkeys(JSON_LINES, "one answer as JSON in each line") | {ARROW: "an Arrow IPC stream"}
    for texts, content in (
        (bodies, operation["requestBody"]["content"]),
        (answers, operation["responses"]["200"]["content"]),
    ):
        content |= {kind: {"schema": _TEXT | {"description": text}} for kind, text in texts.items()}
    return operation


def _infer(model: Model) -> dict[str, Any]:
    operation = _operation("Price tensors", "InferenceAnswer", f"Inference-{model.name}")
    binary = {
        "schema": _TEXT
        | {
            "description": "JSON, then the binary tensors; Inference-Header-Content-Length is the size of the JSON"
        }
    }
    operation["requestBody"]["content"]["application/octet-stream"] = binary
    operation["responses"]["200"]["content"]["application/octet-stream"] = binary
    return operation


def _operation(summary: str, answer: str | None = None, request: str | None = None) -> dict[str, Any]:
    failed = {"content": {"application/json": {"schema": _ref("Error")}}}
    content = {"application/json": {"schema": _ref(answer) if answer else {"type": "object"}}}
    statuses = _ERRORS | (_ERRORS_OF_BODIES if request else {})
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {"200": {"description": "the answer", "content": content}}
        | {str(status): {"description": text, **failed} for status, text in sorted(statuses.items())},
    }
    if request:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(request)}},
        }
    return operation
