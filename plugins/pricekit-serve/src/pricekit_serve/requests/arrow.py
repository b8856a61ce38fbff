"""Rows in Arrow IPC: streams of plain columns, without anything that a few bytes could blow up."""

from __future__ import annotations

import struct

import pyarrow as pa

from pricekit.plugin.runners import as_model_text
from pricekit_serve.errors import RequestError, invalid
from pricekit_serve.requests.rows import KnownColumns, Rows, check_cell, check_count, check_names

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
_COMPRESSION = 3
"""The place of the field `compression` in the table RecordBatch of Arrow's Message.fbs."""


def rows_of_arrow(body: bytes, known: KnownColumns, most: int) -> Rows:
    """Return the rows of a stream.

    Args:
        body: an Arrow IPC stream of columns of texts, numbers and booleans, without compression.
        known: the columns that it may have.
        most: the largest number of rows.

    Raises:
        RequestError: it is damaged or compressed, or has other types, other columns or too many rows.
    """
    try:
        table = _read(body, most)
    except (pa.ArrowException, OSError, ValueError, IndexError, struct.error, OverflowError) as error:
        raise RequestError(400, f"the body is no Arrow IPC stream: {error}") from None
    check_names("rows", table.column_names, known)
    cells = {name: _texts(name, table.column(name)) for name in table.column_names}
    ids = cells.pop(known.id, None) if known.id not in (None, *known.text) else None
    return Rows({name: cells[name] for name in [*known.text, *sorted(cells.keys() - set(known.text))]}, ids)


def _read(body: bytes, most: int) -> pa.Table:
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    if (first := _next(messages)) is None:
        raise ValueError("it is empty")
    schema = pa.ipc.read_schema(first)
    _check_schema(schema)
    batches, rows = [], 0
    while (message := _next(messages)) is not None:
        if message.type != "record batch":
            raise ValueError(f"it contains a {message.type}")
        if is_compressed(message.metadata.to_pybytes()):
            raise RequestError(415, "the Arrow buffers are compressed; write the stream without compression")
        batch = pa.ipc.read_record_batch(message, schema)
        check_count(rows := rows + batch.num_rows, most)
        batch.validate(full=True)
        batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _next(messages: pa.ipc.MessageReader) -> pa.ipc.Message | None:
    try:
        return messages.read_next_message()
    except StopIteration:
        return None


def _check_schema(schema: pa.Schema) -> None:
    types = pa.types
    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    for column in schema:
        if not any(check(column.type) for check in plain):
            raise invalid(column.name, f"has the type {column.type}; expected texts, numbers or booleans")
    if len(set(schema.names)) < len(schema.names):
        raise ValueError("several columns have the same name")


def _texts(name: str, column: pa.ChunkedArray) -> list[str]:
    combined = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    texts: list[str] = as_model_text(combined).to_pylist()
    return [check_cell(f"rows[{number}].{name}", text or "") for number, text in enumerate(texts)]


def is_compressed(metadata: bytes) -> bool:
    """Return whether the buffers of a record batch are compressed, from the metadata of its message.

    The metadata are FlatBuffers. A table begins with the distance to its vtable, which has the offset of each field, or
    0 if the table lacks it.
    """
    message = struct.unpack_from("<I", metadata)[0]
    header = _field(metadata, message, 2)
    if not header:
        raise ValueError("a message has no header")
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, _COMPRESSION) != 0


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return the position of a field of a table, 0 if it has none."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    size = struct.unpack_from("<H", metadata, vtable)[0]
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, vtable + place)[0] if place + 2 <= size else 0
    return table + offset if offset else 0
