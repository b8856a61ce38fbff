"""The description of the interface in OpenAPI 3.1, from which tools make clients."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pricekit import __version__
from pricekit_serve.limits import COMPARABLES
from pricekit_serve.models.answers import as_json
from pricekit_serve.requests.arrow import CONTENT_TYPE

_ERRORS = {
    400: "the body is not in its format",
    401: "the token is missing or wrong",
    403: "a page of another site has sent the request",
    404: "there is no such model, version or address",
    408: "the body did not come in time",
    413: "there are too many bytes or rows",
    415: "the format or encoding is not supported",
    421: "the server does not know the name in the header `Host`",
    422: "a value is wrong; `field` names it",
    500: "the server or the model failed",
    503: "too many rows wait; try again after `Retry-After` seconds",
    504: "the prices were not ready in time",
}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None, *, open_: bool = False) -> Any:
    properties = required | (optional or {})
    found = {"type": "object", "properties": properties, "required": list(required)}
    return found | {"additionalProperties": open_}


def _list(items: Any) -> Any:
    return {"type": "array", "items": items}


def _ref(name: str) -> Any:
    return {"$ref": f"#/components/schemas/{name}"}


_LINES = "for rows in JSON lines; a JSON body has it as a field, and an Arrow body cannot ask for it"
_IN_QUERY = {
    "interval": "for rows in JSON lines or Arrow; a JSON body has it as a field",
    "explain": _LINES,
    "comparables": _LINES,
}
"""What parameters in the query are for."""

_TEXT: Any = {"type": "string"}
_NUMBER: Any = {"type": "number"}
_SHAPE = _list({"type": "integer", "minimum": 0})

SCHEMAS: dict[str, Any] = {
    "Row": {
        "type": "object",
        "description": "the cells of the columns that the model reads, by name",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
    "Request": _object(
        {"rows": _list(_ref("Row"))},
        {
            "interval": _NUMBER | {"description": "the share of true prices between the bounds, such as 0.9"},
            "explain": {"type": "boolean", "description": "also give the factors of each price"},
            "comparables": {"type": "integer", "minimum": 0, "maximum": COMPARABLES},
        },
    ),
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
            "base": _NUMBER
            | {"description": "the price of a row without any text; times all factors, it is the price"},
            "factors": _list(_ref("Factor")),
            "comparables": _list(_ref("Comparable")),
        },
    ),
    "Answer": _object(
        {
            "rows": _list(_ref("Price")),
            "model": _TEXT,
            "version": _TEXT,
            "currency": {"type": ["string", "null"]},
        }
    ),
    "Error": _object({"error": _TEXT, "request_id": _TEXT}, {"field": _TEXT}),
    "Tensor": _object(
        {"name": _TEXT, "shape": _SHAPE, "datatype": {"enum": ["BYTES", "FP32"]}, "data": {"type": "array"}},
    ),
    "InferenceRequest": _object(
        {"inputs": _list(_ref("Tensor"))},
        {
            "id": _TEXT,
            "parameters": _object({}, {"interval": _NUMBER}, open_=True),
            "outputs": _list(_object({"name": _TEXT}, open_=True)),
        },
        open_=True,
    ),
    "InferenceAnswer": _object(
        {"model_name": _TEXT, "model_version": _TEXT, "outputs": _list(_ref("Tensor"))}, {"id": _TEXT}
    ),
}


@cache
def document_json() -> bytes:
    """Return the description as JSON."""
    return as_json(document())


def document() -> dict[str, Any]:
    """Return the description."""
    predict = _operation("Price rows", "Answer", "Request", query=_IN_QUERY)
    predict["requestBody"]["content"] |= {
        "application/jsonl": {"schema": _ref("Row")},
        CONTENT_TYPE: {"schema": {"type": "string", "contentMediaType": CONTENT_TYPE}},
    }
    predict["responses"]["200"]["content"] |= {
        "application/jsonl": {"schema": _ref("Price")},
        CONTENT_TYPE: {"schema": {"type": "string", "contentMediaType": CONTENT_TYPE}},
    }
    infer = _operation("Price tensors", "InferenceAnswer", "InferenceRequest")
    name = _in_path("name")
    asked = {
        "/models": "List the models and their columns",
        "/v2": "Describe the server",
        "/v2/health/live": "Say that the process answers",
        "/v2/health/ready": "Say whether new requests are welcome; 503 if not",
        "/metrics": "Metrics in the format of Prometheus",
    }
    of_model = {
        "/models/{name}": "Describe a model: its columns, how a form shows them, and an example",
        "/v2/models/{name}": "Describe a model",
        "/v2/models/{name}/ready": "Say whether a model is ready",
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "pricekit-serve", "version": __version__},
        "paths": {
            "/predict": {"post": predict},
            "/models/{name}/predict": {"post": predict, "parameters": [name]},
            "/v2/models/{name}/infer": {"post": infer, "parameters": [name]},
            **{path: {"get": _operation(text)} for path, text in asked.items()},
            **{path: {"get": _operation(text), "parameters": [name]} for path, text in of_model.items()},
        },
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(
    summary: str,
    answer: str | None = None,
    request: str | None = None,
    query: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    failed = {"content": {"application/json": {"schema": _ref("Error")}}}
    found: dict[str, Any] = {
        "summary": summary,
        "responses": {"200": {"description": "the answer"}}
        | {str(status): {"description": text, **failed} for status, text in _ERRORS.items()},
    }
    if answer:
        found["responses"]["200"]["content"] = {"application/json": {"schema": _ref(answer)}}
    if request:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(request)}}}
    if query is not None:
        found["parameters"] = [
            {
                "name": each,
                "in": "query",
                "description": description,
                "schema": SCHEMAS["Request"]["properties"][each],
            }
            for each, description in query.items()
        ]
    return found


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}
