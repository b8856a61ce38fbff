"""JSON lines: one object per line, every value as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

import pyarrow as pa

from pricekit.errors import DataError, NoRowsError
from pricekit.io.compression import TooMuchError
from pricekit.io.packing import object_of
from pricekit.table.columns import (
    MAX_CHUNK_CELLS,
    MAX_ROW_BYTES,
    MOST_COLUMNS,
    RAW_TEXT_CHARS,
    RawChunk,
    ReadWarnings,
    check_names,
    column_names_of,
    places_of,
    text_array,
    too_many_columns,
)
from pricekit.table.encoding import Charset, bytes_of, open_text

MAX_CHUNK_CHARS = 16 << 20
MAX_VALUES = 1 << 20
"""No line may have more keys and values: a value takes a hundred bytes in memory."""
_AHEAD = 1 << 17
"""Bytes that are read ahead of a line, at most."""
_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_CONSTANTS = {True: "true", False: "false", None: ""}


def read_json_lines(
    path: Path,
    rows: int,
    charset: Charset,
    read_warnings: ReadWarnings,
    wanted: frozenset[str] | None = None,
) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows, `MAX_CHUNK_CELLS` cells or about `MAX_CHUNK_CHARS` characters.

    Every column is text: numbers keep their notation, null and missing keys become "", and a list or object becomes
    its JSON. The columns are the keys of the first chunk. Keys that only occur later are ignored and counted in
    `read_warnings`, so memory stays bounded even if every object has different keys. The `numbers` of a chunk are the
    columns of JSON numbers with decimals, whose point is a decimal mark. Of the columns, only those that are `wanted`
    are kept, or all.

    Raises:
        DataError: too many different keys; a line that is not a JSON object, has a key twice, or has more than
            `MAX_ROW_BYTES` or `MAX_VALUES`; an empty file, a different encoding.
    """
    names: dict[str, None] = {}
    chunk: list[dict[str, str]] = []
    chars = 0
    first = True
    # Only "\n" ends a line, because the other line ends may occur between two JSON tokens.
    with open_text(path, charset, newline="\n") as stream:
        for number, line in _lines(path, stream):
            if line.isspace():
                continue
            row = _row(path, number, line)
            if first:
                names.update(dict.fromkeys(row))
                if len(names) > MOST_COLUMNS:
                    raise too_many_columns(str(path), MOST_COLUMNS)
            elif wanted is None and not row.keys() <= names.keys():
                new = next(key for key in row if key not in names)
                read_warnings.new_key_rows += 1
                read_warnings.first_new_key = read_warnings.first_new_key or new
            if len(line) > RAW_TEXT_CHARS:
                row = {key: cell[:RAW_TEXT_CHARS] for key, cell in row.items()}
            chunk.append(row)
            chars += len(line)
            full = len(chunk) >= rows or len(chunk) * len(names) >= MAX_CHUNK_CELLS
            if full or chars >= MAX_CHUNK_CHARS:
                yield _chunk(str(path), names, wanted, chunk, bytes_of(stream).position)
                chunk, chars, first = [], 0, False
        if chunk:
            yield _chunk(str(path), names, wanted, chunk, bytes_of(stream).position)
    if not names:
        raise NoRowsError(
            f"{path} has no rows: at least one JSON object with a key is expected.", parameters=("table",)
        )


def _lines(path: Path, stream: TextIOWrapper) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, from 1; raises DataError for a line that is too large."""
    source, number = bytes_of(stream), 1
    source.expect(MAX_ROW_BYTES + _AHEAD)
    try:
        for number, line in enumerate(stream, start=1):
            if (
                len(line) > MAX_VALUES
                and _counts(line) > MAX_VALUES
                and _counts(_TEXT.sub("", line)) > MAX_VALUES
            ):
                raise _too_large(path, number)
            yield number, line
            source.expect(MAX_ROW_BYTES + _AHEAD)
    except TooMuchError:
        raise _too_large(path, number + 1) from None


def _counts(text: str) -> int:
    """Return about the number of keys and values; those inside quotes count, too."""
    return text.count(",") + text.count(":")


def _too_large(path: Path, number: int) -> DataError:
    return DataError(
        f"{path}: line {number:,} is too large: at most {MAX_ROW_BYTES >> 20} MB and {MAX_VALUES:,} values are "
        "expected in a line. Fix or delete it.",
        parameters=("table",),
        line=number,
    )


class _Number(str):
    """A JSON number in its notation."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    parse_float=_Number, parse_int=_Number, parse_constant=str, object_pairs_hook=object_of
)


def _row(path: Path, number: int, line: str) -> dict[str, str]:
    line = line.removeprefix("\ufeff")
    try:
        row = _DECODER.decode(line)
        plain = json.loads(line) if isinstance(row, dict) and any(map(_is_nested, row.values())) else {}
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: line {number:,} is not JSON: {error}. One object per line is expected.",
            parameters=("table",),
            line=number,
        ) from None
    if not isinstance(row, dict):
        raise DataError(
            f"{path}: line {number:,} is a JSON {type(row).__name__}, not an object. One object per line is "
            'expected, such as {"sample_id": 1, "catalog_content": "...", "price": 9.5}.',
            parameters=("table",),
            line=number,
        )
    row |= {key: json.dumps(value, ensure_ascii=False) for key, value in plain.items() if _is_nested(value)}
    return {key: value if isinstance(value, str) else _CONSTANTS[value] for key, value in row.items()}


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list)


def _chunk(
    name: str,
    names: dict[str, None],
    wanted: frozenset[str] | None,
    rows: list[dict[str, str]],
    position: int,
) -> RawChunk:
    keys = list(names)
    written = column_names_of(text_array(keys).to_pylist())
    check_names(name, written)
    places = places_of(name, written, wanted)
    written = [written[place] for place in places]
    cells = [[row.get(keys[place], "") for row in rows] for place in places]
    columns = pa.table(dict(zip(written, map(text_array, cells), strict=True)))
    numbers = frozenset(key for key, each in zip(written, cells, strict=True) if _has_decimals(each))
    return RawChunk(columns, None, position, numbers)


def _has_decimals(cells: list[str]) -> bool:
    """Return whether all filled cells are JSON numbers, some of them with decimals."""
    numbers = [cell for cell in cells if isinstance(cell, _Number)]
    return len(numbers) + cells.count("") == len(cells) and not all(
        number.lstrip("-").isdigit() for number in numbers
    )
