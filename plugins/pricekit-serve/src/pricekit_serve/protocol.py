"""The Open Inference Protocol, version 2, with its extension for binary tensors: texts in, prices out."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pricekit.plugin import shorten
from pricekit.plugin.runners import RELEASE, Uncertainty
from pricekit_serve import __version__
from pricekit_serve.answers import UNCERTAINTY, Answer, Wanted, as_json
from pricekit_serve.bodies import parse_json
from pricekit_serve.errors import RequestError, invalid
from pricekit_serve.limits import Limits
from pricekit_serve.models import Model
from pricekit_serve.rows import Number, Rows, check_cell, check_count, check_names, check_size, with_vectors

_PRICE = {"price": np.dtype(np.float32)}
_SURE = {name: column.dtype for name, column in Uncertainty(0.9, within=2).of_no_rows().items()}
"""Outputs that say how sure a price is, of those whose names do not depend on the request."""
_DATATYPES = {np.dtype(np.float32): "FP32", np.dtype(bool): "BOOL"}
JSON_BYTES = "inference-header-content-length"
"""The header that says how many bytes of a body are JSON; binary tensors follow them."""
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,20})?")
_LENGTH = struct.Struct("<I")
"""The length before each text of a binary tensor."""


def server_metadata() -> dict[str, Any]:
    """Return the metadata of the server."""
    return {"name": "pricekit-serve", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(model: Model) -> dict[str, Any]:
    """Return the metadata of a model: its columns as inputs, and its outputs."""
    names = (*model.columns.text, *model.columns.others)
    outputs = _PRICE if model.predictor.intervals is None else _PRICE | _SURE
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "pricekit",
        "inputs": [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in names],
        "outputs": [
            {"name": name, "datatype": _DATATYPES[kind], "shape": [-1]} for name, kind in outputs.items()
        ],
    }


@dataclass(frozen=True)
class Inference:
    """A request.

    Attributes:
        rows: to be priced.
        wanted: besides the price.
        outputs: the names of the outputs, and whether each is returned as a binary tensor.
        id: that the client gave the request; None without one.
    """

    rows: Rows
    wanted: Wanted
    outputs: Sequence[tuple[str, bool]]
    id: str | None

    @classmethod
    def read(cls, body: bytes, json_bytes: str | None, model: Model, limits: Limits) -> Inference:
        """Return the request in a body; raises RequestError if it is not one.

        Args:
            body: a JSON document, and behind it the binary tensors in the order of the inputs.
            json_bytes: the header that says how many bytes are JSON; None if all are.
            model: that prices the rows.
            limits: of requests.
        """
        document, binary = _split(body, json_bytes)
        content = parse_json(document, model.columns.most_values(limits.max_rows))
        if not isinstance(content, dict):
            raise invalid("inputs", "is missing; the body is not an object")
        rows = _rows(content, binary, model, limits)
        wanted, outputs = _outputs(content, model)
        if (request_id := content.get("id")) is not None and type(request_id) is not str:
            raise invalid("id", "is not a text")
        return cls(rows, wanted, outputs, request_id)

    def answer(self, prices: Answer) -> tuple[bytes, int | None]:
        """Return the body of the answer, and how many bytes of it are JSON; None if it has no binary tensors."""
        columns = {"price": prices.price, **prices.uncertainty}
        outputs, tensors = [], []
        for name, is_binary in self.outputs:
            column = columns[name]
            output = {"name": name, "datatype": _DATATYPES[column.dtype], "shape": [len(column)]}
            if is_binary:
                tensors.append(column.astype(column.dtype.newbyteorder("<")).tobytes())
                outputs.append(output | {"parameters": {"binary_data_size": len(tensors[-1])}})
            else:
                outputs.append(output | {"data": column.tolist()})
        about = {"model_name": prices.model.name, "model_version": prices.model.version}
        request_id = {} if self.id is None else {"id": self.id}
        document = as_json({**about, **request_id, "outputs": outputs})
        return b"".join([document, *tensors]), len(document) if tensors else None


def _split(body: bytes, json_bytes: str | None) -> tuple[bytes, memoryview]:
    """Return the JSON document of a body, and what follows it."""
    if json_bytes is None:
        return body, memoryview(b"")
    size = int(json_bytes) if json_bytes.isascii() and json_bytes.isdigit() and len(json_bytes) < 19 else -1
    if not 0 <= size <= len(body):
        raise RequestError(
            400,
            f"the header Inference-Header-Content-Length is {shorten(repr(json_bytes))}; expected how many of the "
            f"{len(body):,} bytes of the body are JSON",
        )
    return body[:size], memoryview(body)[size:]


def _rows(content: Mapping[str, Any], binary: memoryview, model: Model, limits: Limits) -> Rows:
    """Return the rows of a request's inputs, one tensor for each column."""
    inputs, known = content.get("inputs"), model.columns
    if not isinstance(inputs, list) or not inputs:
        raise invalid("inputs", "is missing or not a list of tensors")
    tensors: dict[str, Mapping[str, Any]] = {}
    for number, tensor in enumerate(inputs):
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if type(name) is not str or name in tensors:
            raise invalid(f"inputs[{number}].name", "is missing, not a text, or the name of another input")
        tensors[name] = tensor
    check_size(1, len(tensors), known)
    check_names("inputs", tensors, known)
    cells: dict[str, list[str]] = {}
    for number, (name, tensor) in enumerate(tensors.items()):
        cells[name], binary = _texts(f"inputs[{number}]", tensor, binary, limits.max_rows)
        check_size(len(cells[name]), len(tensors), known)
    if len(binary):
        raise invalid("inputs", f"end before the last {len(binary):,} bytes of the body")
    sizes = {len(column) for column in cells.values()}
    if len(sizes) > 1:
        raise invalid("inputs", "have different numbers of rows")
    names = [*known.text, *sorted(cells.keys() - {*known.text, known.id})]
    return Rows(with_vectors({name: cells[name] for name in names}, known))


def _texts(
    field: str, tensor: Mapping[str, Any], binary: memoryview, most: int
) -> tuple[list[str], memoryview]:
    """Return the texts of a tensor, and the binary data of the following ones."""
    rows = _count(field, tensor, most)
    size = _parameters(field, tensor).get("binary_data_size")
    if size is None:
        texts = _listed(field, tensor.get("data"), rows)
    else:
        if not (isinstance(size, Number) and size.isdigit() and len(size) < 19 and int(size) <= len(binary)):
            raise invalid(
                f"{field}.parameters.binary_data_size",
                f"is {shorten(repr(size))}; {len(binary):,} bytes of the body are left for this tensor and the header "
                "Inference-Header-Content-Length says where they begin",
            )
        texts = unpacked_texts(field, binary[: int(size)], rows)
        binary = binary[int(size) :]
    return [check_cell(f"{field}.data[{place}]", text) for place, text in enumerate(texts)], binary


def _count(field: str, tensor: Mapping[str, Any], most: int) -> int:
    """Return how many rows a tensor has by its shape."""
    shape = tensor.get("shape")
    if tensor.get("datatype") != "BYTES":
        raise invalid(f"{field}.datatype", "is not BYTES")
    if not isinstance(shape, list) or not all(isinstance(n, Number) and n.isdigit() for n in shape):
        raise invalid(f"{field}.shape", "is not a list of numbers")
    sizes = [int(n) if len(n) < 10 else 10**9 for n in shape]
    if not 1 <= len(sizes) <= 2 or math.prod(sizes[1:]) != 1:
        raise invalid(f"{field}.shape", "is neither [rows] nor [rows, 1]")
    check_count(sizes[0], most)
    return sizes[0]


def _parameters(field: str, of: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = of.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise invalid(f"{field}.parameters".lstrip("."), "is not an object")
    return parameters or {}


def _listed(field: str, data: Any, rows: int) -> list[str]:
    """Return the texts of a tensor in JSON."""
    if not isinstance(data, list):
        raise invalid(
            f"{field}.data", "is missing or not a list; binary data have the parameter binary_data_size"
        )
    flat = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in data]
    if len(flat) != rows:
        raise invalid(f"{field}.data", f"has {len(flat):,} values; its shape says {rows:,}")
    for place, value in enumerate(flat):
        if type(value) is not str:
            raise invalid(f"{field}.data[{place}]", "is not a text")
    return flat


def unpacked_texts(field: str, data: memoryview, rows: int) -> list[str]:
    """Return the texts of a binary tensor, each behind its length; raises RequestError unless they fill it."""
    texts, start = [], 0
    for place in range(rows):
        begin = start + _LENGTH.size
        start = begin + _LENGTH.unpack_from(data, start)[0] if begin <= len(data) else len(data) + 1
        if start > len(data):
            raise invalid(f"{field}.data[{place}]", f"is not within the {len(data):,} bytes of the tensor")
        try:
            texts.append(str(data[begin:start], "utf-8"))
        except UnicodeDecodeError as error:
            raise invalid(f"{field}.data[{place}]", f"is not UTF-8 at byte {error.start:,}") from None
    if start != len(data):
        raise invalid(
            f"{field}.data", f"has {len(data) - start:,} bytes behind the {rows:,} texts of its shape"
        )
    return texts


def _outputs(content: Mapping[str, Any], model: Model) -> tuple[Wanted, list[tuple[str, bool]]]:
    """Return what a request asks for: by default all outputs, as JSON."""
    parameters = _parameters("", content)
    options = {
        name: (_numbers_of if option.is_numbers else _number_of)(parameters.get(name))
        for name, option in UNCERTAINTY.items()
    }
    wanted = Wanted.of(options, model)
    possible = ("price", *wanted.uncertainty.names)
    all_binary = parameters.get("binary_data_output") is True
    requested = content.get("outputs")
    if requested is None or requested == []:
        return wanted, [(name, all_binary) for name in possible]
    if not isinstance(requested, list):
        raise invalid("outputs", "is not a list")
    outputs: list[tuple[str, bool]] = []
    for number, output in enumerate(requested):
        name = output.get("name") if isinstance(output, dict) else None
        if type(name) is not str or name not in possible or name in dict(outputs):
            needed = "within" if name == RELEASE else "interval"
            hint = f'; it needs the parameter "{needed}"' * (type(name) is str and name in _SURE)
            expected = f"{', '.join(possible)}, each once{hint}"
            raise invalid(f"outputs[{number}].name", f"is {shorten(repr(name))}; expected {expected}")
        is_binary = _parameters(f"outputs[{number}]", output).get("binary_data", all_binary)
        outputs.append((name, is_binary is True))
    return wanted, outputs


def _numbers_of(value: Any) -> Any:
    """Return a parameter with numbers that are joined by commas as a list: parameters of the protocol are no lists."""
    return [_number_of(part.strip()) for part in value.split(",")] if type(value) is str else value


def _number_of(value: Any) -> Any:
    """Return a parameter; a number that is sent as a text, as Triton's clients do, becomes a number."""
    return Number(value) if type(value) is str and _NUMBER.fullmatch(value) else value
