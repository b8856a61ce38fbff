"""The Open Inference Protocol, version 2: tensors of texts in, tensors of prices out."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from pricekit import __version__
from pricekit.plugin import shorten
from pricekit.plugin.runners import BOUNDS
from pricekit_serve.errors import RequestError, invalid
from pricekit_serve.models.answers import Answer, Wanted
from pricekit_serve.models.model import Model
from pricekit_serve.requests.rows import KnownColumns, Number, Rows, check_cell, check_count, check_names

OUTPUTS = ("price", *BOUNDS)


def server_metadata() -> dict[str, Any]:
    """Return the metadata of the server."""
    return {"name": "pricekit-serve", "version": __version__, "extensions": []}


def model_metadata(model: Model) -> dict[str, Any]:
    """Return the metadata of a model: its columns as inputs, and its outputs."""
    names = (*model.columns.text, *model.columns.others)
    outputs = OUTPUTS if model.predictor.intervals is not None else OUTPUTS[:1]
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "pricekit",
        "inputs": [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in names],
        "outputs": [{"name": name, "datatype": "FP32", "shape": [-1]} for name in outputs],
    }


def rows_of_tensors(given: Any, known: KnownColumns, most: int) -> Rows:
    """Return the rows of a request's inputs, one tensor for each column; raises RequestError."""
    inputs = given.get("inputs") if isinstance(given, dict) else None
    if not isinstance(inputs, list) or not inputs:
        raise invalid("inputs", "is missing or no list of tensors")
    cells: dict[str, list[str]] = {}
    for number, tensor in enumerate(inputs):
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if type(name) is not str or name in cells:
            raise invalid(f"inputs[{number}].name", "is missing, no text, or the name of another input")
        cells[name] = _texts(f"inputs[{number}]", tensor, most)
    check_names("inputs", cells, known)
    if len({len(column) for column in cells.values()}) > 1:
        raise invalid("inputs", "have different numbers of rows")
    return Rows(
        {name: cells[name] for name in [*known.text, *sorted(cells.keys() - {*known.text, known.id})]}
    )


def _texts(field: str, tensor: Mapping[str, Any], most: int) -> list[str]:
    shape, data = tensor.get("shape"), tensor.get("data")
    if tensor.get("datatype") != "BYTES":
        raise invalid(f"{field}.datatype", "is not BYTES")
    if not isinstance(shape, list) or not all(isinstance(n, Number) and n.isdigit() for n in shape):
        raise invalid(f"{field}.shape", "is no list of numbers")
    if not isinstance(data, list):
        raise invalid(f"{field}.data", "is missing or no list; binary data are not supported")
    sizes = [int(n[:9]) for n in shape]
    if not 1 <= len(sizes) <= 2 or prod(sizes[1:]) != 1:
        raise invalid(f"{field}.shape", "is neither [rows] nor [rows, 1]")
    check_count(len(data), most)
    flat = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in data]
    if len(flat) != sizes[0]:
        raise invalid(f"{field}.data", f"has {len(flat):,} values; its shape says {sizes[0]:,}")
    for place, value in enumerate(flat):
        if type(value) is not str:
            raise invalid(f"{field}.data[{place}]", "is no text")
    return [check_cell(f"{field}.data[{place}]", text) for place, text in enumerate(flat)]


def wanted_outputs(given: Mapping[str, Any], model: Model) -> tuple[Wanted, list[str]]:
    """Return what a request asks for, and the names of its outputs, by default all; raises RequestError."""
    parameters = given.get("parameters", {})
    if not isinstance(parameters, dict):
        raise invalid("parameters", "is no object")
    wanted = Wanted.of({"interval": parameters.get("interval")}, model)
    possible = OUTPUTS if wanted.interval is not None else OUTPUTS[:1]
    outputs = given.get("outputs", [{"name": name} for name in possible])
    if not isinstance(outputs, list):
        raise invalid("outputs", "is no list")
    names: list[str] = []
    for number, output in enumerate(outputs):
        name = output.get("name") if isinstance(output, dict) else None
        if type(name) is not str or name not in possible:
            hint = '; it needs the parameter "interval"' * (name in OUTPUTS)
            expected = f"{', '.join(possible)}{hint}"
            raise invalid(f"outputs[{number}].name", f"is {shorten(repr(name))}; expected {expected}")
        names.append(name)
    return wanted, names


def inference(answer: Answer, names: list[str], request_id: Any) -> dict[str, Any]:
    """Return the answer to a request, with its own id if it has one."""
    columns = {"price": answer.price, **answer.bounds}
    outputs = [
        {"name": name, "datatype": "FP32", "shape": [len(columns[name])], "data": columns[name].tolist()}
        for name in names
    ]
    own = {"id": request_id} if request_id is not None else {}
    return {"model_name": answer.model.name, "model_version": answer.model.version, **own, "outputs": outputs}


def request_id_of(given: Mapping[str, Any]) -> str | None:
    """Return the id of a request; raises RequestError if it is no text."""
    found = given.get("id")
    if found is not None and type(found) is not str:
        raise RequestError(422, "id is no text", "id")
    return found
