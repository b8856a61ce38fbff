"""Rows of a request: from JSON values or Arrow columns to checked texts, one list for each column."""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pricekit.plugin import Columns, did_you_mean, nearest, shorten
from pricekit.plugin.runners import MAX_TEXT_CHARS, MOST_OTHER_COLUMNS, Predictor, as_model_text, text_array
from pricekit_serve.errors import RequestError, invalid

ARROW = "application/vnd.apache.arrow.stream"
_COMPRESSION = 3
"""The place of the field `compression` in the table RecordBatch of Arrow's Message.fbs."""
MOST_COLUMNS = 256
"""The most columns of a request, if the columns that the model reads are unknown."""
MOST_CELLS = 250_000
"""The most cells of a request: rows times columns."""
MOST_NUMBERS = 1_000_000
"""The most numbers in the vectors of a request."""

_SHOWN_COLUMNS = 20
"""Columns that an error names."""

CONSTANTS = {True: "true", False: "false", None: ""}


class Number(str):
    """A number of a JSON document, as it is written there."""

    __slots__ = ()


@dataclass(frozen=True)
class KnownColumns:
    """The columns that a row may have.

    Attributes:
        text: those that each row must have.
        id: that which identifies a row; it does not change prices.
        others: further ones that the model reads.
        vectors: the length of the vectors in each column of vectors.
        any: further ones are allowed, because the columns that the model reads are unknown.
    """

    text: tuple[str, ...]
    id: str | None = None
    others: tuple[str, ...] = ()
    vectors: Mapping[str, int] = field(default_factory=dict)
    any: bool = False

    @classmethod
    def of(cls, predictor: Predictor) -> KnownColumns:
        """Return the columns of a model."""
        columns, sketch, vectors = predictor.columns, predictor.sketch, predictor.vectors
        others = () if sketch is None else tuple(sketch.others)
        unknown = sketch is None or len(others) >= MOST_OTHER_COLUMNS
        others = tuple(name for name in others if name not in vectors)
        return cls((*columns.text, *vectors), columns.id, others, vectors, unknown)

    @property
    def names(self) -> list[str]:
        """All names that are known."""
        return list(dict.fromkeys([*self.text, *self.others, *([self.id] if self.id else [])]))

    @property
    def most(self) -> int:
        """The most columns of a request."""
        return max(MOST_COLUMNS, len(self.names))

    def most_values(self, rows: int) -> int:
        """Return the most JSON values of a request, with a margin.

        A cell is up to two values, in the protocol's list of lists, and a row is one more; vectors have many.
        """
        columns = self.most if self.any else len(self.names)
        return 2 * min(rows * (columns + 1), MOST_CELLS) + 1000 + MOST_NUMBERS * bool(self.vectors)


@dataclass(frozen=True)
class Rows:
    """Checked rows.

    Attributes:
        cells: the texts of each column that prices depend on, in the order of the model; of a column of vectors lists
            of numbers, None for a missing one.
        ids: the ids of the rows; None if the request has none.
        spread: whether the spreads of the prices are computed, too, for intervals and quantiles.
    """

    cells: Mapping[str, Sequence[Any]]
    ids: Sequence[str] | None = field(default=None, repr=False)
    spread: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.cells.values())))

    def part(self, start: int, stop: int) -> Rows:
        """Return consecutive rows."""
        cells = {name: column[start:stop] for name, column in self.cells.items()}
        return Rows(cells, None if self.ids is None else self.ids[start:stop], self.spread)

    def for_predictor(self, columns: Columns) -> Any:
        """Return the rows in the form that a predictor reads fastest: texts, if the model reads a single column."""
        if self.ids is None and len(self.cells) == 1:
            (texts,) = self.cells.values()
            return list(texts)
        ids = {} if self.ids is None or columns.id is None else {columns.id: self.ids}
        return pa.table({name: _as_arrow(list(column)) for name, column in {**self.cells, **ids}.items()})


def _as_arrow(column: list[Any]) -> pa.Array:
    is_text = not column or isinstance(column[0], str)
    return text_array(column) if is_text else pa.array(column, pa.large_list(pa.float64()))


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several parts, which have the same columns, without ids."""
    first = parts[0]
    if len(parts) == 1:
        return Rows(first.cells, spread=first.spread)
    cells = {name: [cell for part in parts for cell in part.cells[name]] for name in first.cells}
    return Rows(cells, spread=first.spread)


def rows_of_json(values: Any, known: KnownColumns, most: int) -> Rows:
    """Return the rows of a JSON document.

    Args:
        values: its value "rows", in which numbers are `Number`.
        known: the columns.
        most: the largest number of rows.

    Raises:
        RequestError: there are too many rows, or one of them is not an object with these columns and short cells.
    """
    if not isinstance(values, list):
        raise invalid("rows", f"is {_kind(values)}; expected a list of objects")
    check_count(len(values), most)
    others: set[str] = set()
    allowed, needed = set(known.names), set(known.text)
    for number, row in enumerate(values):
        if not isinstance(row, dict):
            raise invalid(f"rows[{number}]", f"is {_kind(row)}; expected an object such as {_example(known)}")
        if not row.keys() <= allowed or not row.keys() >= needed:
            check_names(f"rows[{number}]", row, known)
        others |= row.keys() - needed
        check_size(len(values), len(needed) + len(others), known)
    names = [*known.text, *sorted(others - {known.id})]
    vectors = {name: [row[name] for row in values] for name in known.vectors}
    cells = {name: vectors[name] if name in vectors else _column(values, name) for name in names}
    has_ids = known.id is not None and any(known.id in row for row in values)
    return Rows(
        with_vectors(cells, known), _column(values, known.id) if has_ids and known.id is not None else None
    )


def check_count(rows: int, most: int) -> None:
    """Raise RequestError if a request has too many rows."""
    if rows > most:
        raise RequestError(413, f"the request has {rows:,} rows; at most {most:,} are allowed", "rows")


def check_size(rows: int, columns: int, known: KnownColumns) -> None:
    """Raise RequestError if the rows of a request have too many columns, or too many cells."""
    if columns > known.most:
        raise RequestError(
            413,
            f"the rows of the request have over {known.most} different columns; send those that the model reads",
            "rows",
        )
    if rows * columns > MOST_CELLS:
        raise RequestError(
            413,
            f"the request has {rows:,} rows of {columns:,} columns; at most {MOST_CELLS:,} cells are allowed",
            "rows",
        )


def check_cell(field: str, text: str) -> str:
    """Return a text without NUL, as pricekit reads it from a file; raises RequestError if it is too long."""
    if len(text) > MAX_TEXT_CHARS:
        raise invalid(field, f"has {len(text):,} characters; at most {MAX_TEXT_CHARS:,} are allowed")
    return text.replace("\0", "") if "\0" in text else text


def with_vectors(cells: Mapping[str, Sequence[Any]], known: KnownColumns) -> dict[str, Sequence[Any]]:
    """Return cells with lists of floats in the columns of vectors, None for a missing vector; raises RequestError."""
    vectors = {
        name: [_vector(f"rows[{row}].{name}", cell, width) for row, cell in enumerate(cells[name])]
        for name, width in known.vectors.items()
    }
    return {**cells, **vectors}


def _vector(field: str, cell: Any, width: int) -> list[float] | None:
    """Return the vector in a cell, which is a list of numbers, or one that is written as JSON, or blank."""
    if isinstance(cell, str):
        with suppress(ValueError, RecursionError):  # it stays a text
            cell = json.loads(cell, parse_int=float) if cell.strip() else None
    numbers = [] if cell is None else cell
    if not isinstance(numbers, list):
        problem = "is no list of numbers"
    elif not all(isinstance(number, float | Number) for number in numbers):
        problem = "is a list with other values than numbers"
    elif len(numbers) not in (0, width):
        problem = f"has {len(numbers):,} numbers"
    else:
        return [float(number) for number in numbers] or None
    raise invalid(field, f"{problem}; expected {width:,} numbers, or null")


def check_names(where: str, names: Collection[str], known: KnownColumns) -> None:
    """Raise RequestError if a row lacks a column of the model, or has one that the model does not know."""
    present, allowed = set(names), dict.fromkeys(known.names)
    missing = [name for name in known.text if name not in present]
    unknown = [name for name in names if name not in allowed]
    if missing:
        near = nearest(missing[0], unknown[:MOST_COLUMNS])
        hint = f" Is it {shorten(near)!r}?" if near else ""
        raise invalid(f"{where}.{missing[0]}", f"is missing; the model reads it.{hint}")
    if unknown and not known.any:
        columns = ", ".join(shorten(name) for name in known.names[:_SHOWN_COLUMNS])
        more = ", …" * (len(known.names) > _SHOWN_COLUMNS)
        hint = did_you_mean(unknown[0], known.names)
        raise invalid(
            f"{where}.{unknown[0]}", f"is not a column of the model, which has {columns}{more}.{hint}"
        )


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Return the cells of a column as `pricekit predict` reads them from JSON lines."""
    found = []
    for number, row in enumerate(rows):
        value = row.get(name, "")
        if type(value) is not str:
            value = _text(f"rows[{number}].{name}", value)
        if len(value) > MAX_TEXT_CHARS or "\0" in value:
            value = check_cell(f"rows[{number}].{name}", value)
        found.append(value)
    return found


def _text(field: str, value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict | list):
        raise invalid(field, f"is {_kind(value)}; expected a text, a number, true, false or null")
    return CONSTANTS[value]


def _example(known: KnownColumns) -> str:
    return "{" + f'"{shorten(known.text[0])}": "..."' + "}"


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", Number: "a number"}
    return "null" if value is None else kinds[type(value)]


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
    ordered = {name: texts[name] for name in [*known.text, *sorted(texts.keys() - set(known.text))]}
    return Rows(with_vectors(ordered, known), ids)


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
