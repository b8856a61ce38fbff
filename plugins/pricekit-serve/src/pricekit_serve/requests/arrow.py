"""Rows in Arrow IPC: plain columns, without encodings in which a few bytes become many cells."""

from __future__ import annotations

import struct

import pyarrow as pa

from pricekit.plugin import shorten
from pricekit.plugin.runners import as_model_text
from pricekit_serve.errors import RequestError, invalid
from pricekit_serve.requests.rows import (
    KnownColumns,
    Rows,
    check_cell,
    check_count,
    check_names,
    check_size,
)

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
        table = _read(body, known, most)
        cells = {name: as_model_text(_joined(table.column(name))) for name in table.column_names}
    except (pa.ArrowException, OSError, ValueError, IndexError, struct.error, OverflowError) as error:
        raise RequestError(400, f"the body is not an Arrow IPC stream: {error}") from None
    texts = {name: _texts(name, column) for name, column in cells.items()}
    ids = texts.pop(known.id, None) if known.id not in (None, *known.text) else None
    return Rows({name: texts[name] for name in [*known.text, *sorted(texts.keys() - set(known.text))]}, ids)


def _read(body: bytes, known: KnownColumns, most: int) -> pa.Table:
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    if (first := _next(messages)) is None:
        raise ValueError("it is empty")
    schema = pa.ipc.read_schema(first)
    check_size(0, len(schema), known)  # before anything is done for each of them
    _check_schema(schema)
    check_names("rows", schema.names, known)
    batches: list[pa.RecordBatch] = []
    rows = 0
    while (message := _next(messages)) is not None:
        if message.type != "record batch":
            raise ValueError(f"it contains a {message.type}")
        if is_compressed(message.metadata.to_pybytes()):
            raise RequestError(415, "the Arrow buffers are compressed; write the stream without compression")
        batch = pa.ipc.read_record_batch(message, schema)
        check_count(rows := rows + batch.num_rows, most)
        check_size(rows, len(schema), known)
        batch.validate(full=True)
        if batch.nbytes > message.body.size:
            raise ValueError("its columns share their bytes")
        if len(batches) > most:
            raise RequestError(
                413, f"the stream has over {most:,} batches; send at most one for each row", "rows"
            )
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
            raise invalid(
                column.name, f"has the type {shorten(str(column.type))}; expected texts, numbers or booleans"
            )
    if len(set(schema.names)) < len(schema.names):
        raise ValueError("several columns have the same name")


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _texts(name: str, cells: pa.Array) -> list[str]:
    texts: list[str] = cells.to_pylist()
    return [check_cell(f"rows[{number}].{name}", text or "") for number, text in enumerate(texts)]


def is_compressed(metadata: bytes) -> bool:
    """Return whether the buffers of a record batch are compressed, from the metadata of its message.

    The metadata are FlatBuffers. A table begins with the distance to its vtable, which has the offset of each field, or
    0 for a field without a value.
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
