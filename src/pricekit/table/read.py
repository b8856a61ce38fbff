"""Read files, frames and texts into tables: check the columns, read prices, clean text.

Training and prediction both read tables only by this module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.io.storage import Location, is_remote
from pricekit.table.arrow import COLUMNAR, describe_columnar, is_frame, no_cells
from pricekit.table.columns import (
    NOT_FOR_PANDAS,
    RawChunk,
    ReadWarnings,
    as_frame,
    as_ids,
    as_pandas,
    clean,
    flat,
    is_text,
    keeps_type,
    readable,
    text_array,
    unreadable,
    unreadable_values,
)
from pricekit.table.decisions import FormatEvidence, check_formats, join_text
from pricekit.table.delimited import TITLE_HINT, looks_like_data
from pricekit.table.guess import describe_guess, guess_columns, with_generated_names
from pricekit.table.price_columns import PriceFormat, describe_prices, parse_price, price_format
from pricekit.table.source import (
    DEFAULT_READ_OPTIONS,
    OpenedTable,
    ReadOptions,
    TableSource,
    check_count,
    no_rows,
    open_table,
)
from pricekit.table.table import RAGGED, Columns, Formats, Notices, Table, concat_tables
from pricekit.wording import did_you_mean, listed, nearest, shorten

_SHOWN_COLUMNS = 30

_CHUNK = 8192
_SOME_ROWS = 64


@dataclass(frozen=True)
class Facts:
    """The results of detection for a table.

    Attributes:
        file: its format, encoding and layout.
        columns: the roles of its columns, all of which exist.
        prices: the format of its prices; None if no price column was read.
    """

    file: OpenedTable
    columns: Columns
    prices: PriceFormat | None


def read_table(
    source: TableSource | OpenedTable,
    columns: Columns | None = None,
    *,
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    notices: Notices = logger.warning,
) -> Table:
    """Read a whole table into memory.

    Args:
        source: the path of a .csv, .tsv, .txt, .jsonl or .ndjson file, which may be compressed (.csv.gz, .bz2, .xz,
            .zst or .zip), of a .parquet, .pq, .feather, .arrow or .orc file, or of a workbook (.xlsx, .xlsm, .xlsb,
            .xls, .ods); its address such as "s3://bucket/new.csv", or "-" for standard input; or a pandas, Arrow or
            polars frame, or any other with the Arrow PyCapsule interface. The index of a pandas frame is ignored.
        columns: the roles of the columns; None guesses them with `guess_columns`.
        limit: read only the first `limit` rows.
        read_options: how to read the table; options that are not set are detected.
        notices: receives one sentence for each problem that the user should know about.

    Raises:
        NoRowsError: the table has no rows.
        DataError: the file is missing, damaged, or of an unknown format or a different encoding; the frame has several
            columns with the same name or values that cannot be read; the source is not a table; or a column is missing.

    Example:
        >>> import pandas as pd
        >>> table = read_table(pd.DataFrame({"title": ["Green tea 50 g", "Jam 250 g"], "price": ["€3.50", "€2.80"]}))
        >>> table.price, table.text.tolist()
        (array([3.5, 2.8]), ['Green tea 50 g', 'Jam 250 g'])
    """
    tables, _ = iter_with_facts(
        source, columns, rows=None, limit=limit, read_options=read_options, notices=notices
    )
    return concat_tables(list(tables))


def iter_table(
    source: TableSource,
    columns: Columns | None = None,
    *,
    rows: int = _CHUNK,
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    notices: Notices = logger.warning,
) -> Iterator[Table]:
    """Yield a table in consecutive chunks, in bounded memory; no row is omitted.

    A price column is read completely before the first chunk, because the whole column determines the format of its
    prices. Arguments and errors are those of `read_table`; an error is raised with the chunk that causes it.

    Args:
        source: a file or a frame.
        columns: the roles of the columns; None guesses them.
        rows: maximum number of rows per chunk; a chunk of a file also ends at about 64 MB of text.
        limit: read only the first `limit` rows.
        read_options: how to read the table; options that are not set are detected.
        notices: receives sentences for the user: first about the detected options, at the end about repairs.
    """
    yield from iter_with_facts(
        source, columns, rows=rows, limit=limit, read_options=read_options, notices=notices
    )[0]


def iter_with_facts(
    source: TableSource | OpenedTable,
    columns: Columns | None,
    *,
    rows: int | None,
    limit: int | None,
    read_options: ReadOptions,
    notices: Notices,
) -> tuple[Iterator[Table], Facts]:
    """Return the chunks of a table, and the results of detection.

    Arguments and errors are those of `iter_table`, except that None as `rows` reads a file once, and keeps all of it in
    memory.
    """
    file, columns = _open(source, columns, read_options, notices)
    read_warnings = ReadWarnings()
    most = rows or _CHUNK
    if limit is not None:
        most = min(most, limit)
    raws = _limited(file, most, limit, read_warnings)
    first = next(raws, None)
    if first is None:
        raise no_rows(file)
    if columns.others is not None and not columns.expected.issubset(first.columns.column_names):
        return iter_with_facts(  # the error about a missing column lists all columns
            source if file.kind == "frame" else file,
            replace(columns, others=None),
            rows=rows,
            limit=limit,
            read_options=read_options,
            notices=notices,
        )
    if rows is not None:
        check_width(file, first, read_warnings)
    columns = resolve(file, first.columns.column_names, columns, notices)
    check_count(file, first)
    chunks: Iterable[RawChunk] = chain([first], raws)
    priced: Iterable[RawChunk] = _limited(file, most, limit, ReadWarnings())
    if rows is None:
        chunks = priced = list(chunks)
    columns, prices = _decided(file, priced, columns, read_options, notices)
    facts = Facts(file, columns, prices)
    return _tables(facts, chunks, read_warnings, notices), facts


def read_frame(frame: TableSource, columns: Columns) -> Table:
    """Read a frame for prediction, which may have no rows; arguments and errors are those of `read_table`."""
    file = open_table(frame, DEFAULT_READ_OPTIONS, logger.debug, wanted=columns.wanted)
    if not columns.expected.issubset(file.origin.column_names):  # the error lists all columns
        file, columns = open_table(frame, DEFAULT_READ_OPTIONS, logger.debug), replace(columns, others=None)
    columns = resolve(file, file.origin.column_names, columns, logger.debug)
    if file.origin.num_rows:
        return read_table(file, columns)
    chunk = RawChunk(no_cells(file.origin.schema), None, 0)
    columns = replace(columns, formats=columns.formats or Formats())
    return next(_tables(Facts(file, columns, PriceFormat()), [chunk], ReadWarnings(), logger.debug))


def column_names(
    source: TableSource | OpenedTable,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    expected: Columns | None = None,
) -> list[str]:
    """Return the names of a table's columns, from its beginning; raises DataError.

    Args:
        source: a file or a frame.
        read_options: how to read it.
        expected: columns that may have the names which `guess_columns` gives to those of a file without a header.
    """
    file = open_table(source, read_options, logger.debug)
    return _names(file if expected is None else with_generated_names(file, expected))


def columns_found(
    path: Location, columns: Columns, read_options: ReadOptions = DEFAULT_READ_OPTIONS
) -> Columns:
    """Return the columns that `iter_table` would read, from the beginning of a file.

    Raises:
        NoRowsError: the file has no rows.
        DataError: the file is damaged or lacks a column.
    """
    names = None
    if is_remote(path):
        with suppress(DataError):  # such as a part that ends within the first row
            file = with_generated_names(open_table(path, read_options, logger.debug, whole=False), columns)
            names = _names_with(file, columns)
    if names is None:
        file = with_generated_names(open_table(path, read_options, logger.debug), columns)
        names = _names_with(file, columns)
    return resolve(file, names, columns, logger.debug)


def _names_with(file: OpenedTable, columns: Columns) -> list[str]:
    """Return the names of the columns that are read, or of all if one is missing, for the error."""
    names = _names(replace(file, wanted=columns.wanted))
    return names if columns.expected.issubset(names) else _names(file)


def _names(file: OpenedTable) -> list[str]:
    if file.kind in COLUMNAR:
        with file.named():
            schema, has_rows = describe_columnar(file.origin, file.kind)
            names = schema.names if has_rows else []
    else:  # the first object of JSON lines may lack a key
        rows, read_warnings = _CHUNK if file.kind == "jsonl" else _SOME_ROWS, ReadWarnings()
        first = next(_limited(file, rows, rows, read_warnings), None)
        if first is None:
            raise no_rows(file)
        check_width(file, first, read_warnings)
        names = first.columns.column_names
    if not names:
        raise no_rows(file)
    return names


def _open(
    source: TableSource | OpenedTable, columns: Columns | None, read_options: ReadOptions, notices: Notices
) -> tuple[OpenedTable, Columns]:
    """Open a table, and guess its columns if they are None."""
    file = open_table(source, read_options, notices, wanted=None if columns is None else columns.wanted)
    if columns is not None:
        return with_generated_names(file, columns), columns
    guess = guess_columns(file)
    for sentence in describe_guess(guess):
        logger.info(f"{file.name}: {sentence}")
    return guess.file, guess.columns


def _limited(
    file: OpenedTable, rows: int, limit: int | None, read_warnings: ReadWarnings
) -> Iterator[RawChunk]:
    """Yield the chunks that have rows, `limit` rows in all."""
    left = limit
    for raw in file.chunks(rows, read_warnings):
        if left is not None and len(raw.columns) > left:
            ragged = None if raw.ragged is None else raw.ragged[:left]
            raw = replace(raw, columns=raw.columns.slice(0, left), ragged=ragged)
        if len(raw.columns):
            yield raw
        if left is not None:
            left -= len(raw.columns)
            if left <= 0:
                return


def _decided(
    file: OpenedTable,
    raws: Iterable[RawChunk],
    columns: Columns,
    read_options: ReadOptions,
    notices: Notices,
) -> tuple[Columns, PriceFormat | None]:
    """Determine the formats of a table's columns, unless they are known, and of its prices, and report the latter.

    All cells of a column decide. A table that is not in memory is read once for both.
    """
    evidence = FormatEvidence(file.name, columns.text if columns.formats is None else ())
    prices, name = None, columns.price
    if name is not None:
        with readable(file.name, name):
            style = columns.formats.price if columns.formats else None
            cells = (raw.cells(name) for raw in evidence.add(raws))
            prices = price_format(cells, read_options, style, file.name)
        if description := describe_prices(prices):
            notices(f"{file.name}: {description}")
    elif columns.formats is None:
        deque(evidence.add(raws), 0)
    style = None if prices is None else prices.style
    formats = columns.formats or evidence.formats(style)
    return replace(columns, formats=formats.model_copy(update={"price": style or formats.price})), prices


def resolve(file: OpenedTable, names: list[str], columns: Columns, notices: Notices) -> Columns:
    """Check that the columns are in a table; an id column that the user did not name may be missing.

    Args:
        file: the table.
        names: its columns.
        columns: the expected columns.
        notices: receives a sentence if the id column is missing.

    Raises:
        DataError: a column is missing.
    """
    for name in columns.text:
        _require(file, names, name, "text")
    if columns.price is not None:
        _require(file, names, columns.price, "price")
    if columns.id is None or columns.id in names:
        return columns
    if columns.id_required:
        _require(file, names, columns.id, "id")
    if file.kind != "frame":  # its rows are identified by position
        notices(
            f"{file.name} has no id column {columns.id!r}: row numbers are used instead (set id to another column)."
        )
    return replace(columns, id=None)


def _require(file: OpenedTable, names: list[str], name: str, parameter: str) -> None:
    if name in names:
        return
    shown = listed(list(map(shorten, names)), _SHOWN_COLUMNS) or "none"
    hint, parameters = "", [parameter]
    if len(several := [part.strip() for part in name.split(",")]) > 1 and set(several) <= set(names):
        hint = f" Name several columns as a list: {several}."
    elif file.layout is not None and len(names) == 1:
        hint = TITLE_HINT
    elif file.layout is not None and not file.layout.names and (value := looks_like_data(names)) is not None:
        hint = (
            f" The first line looks like data ({shorten(value)!r}); if the file has no header, name its {len(names)} "
            "columns, in their order."
        )
        parameters.append("columns")
    raise DataError(
        f"{file.name} has no column {name!r}. Its columns are: {shown}.{did_you_mean(name, names)}{hint}",
        parameters=tuple(parameters),
        column=name,
        candidates=names,
        suggestion=nearest(name, names),
    )


def check_width(file: OpenedTable, first: RawChunk, read_warnings: ReadWarnings) -> None:
    """Raise DataError if all rows are wider than the header: cells would be read into the wrong columns."""
    rows = first.columns.num_rows
    if rows > 1 and read_warnings.wider >= rows:
        width = len(file.layout.names if file.layout and file.layout.names else file.first_row())
        raise DataError(
            f"{file.name}: all rows have more fields than the header, which has {width}. Perhaps it lacks a name for "
            "the first column, or is not on the first line, or fields that contain the delimiter are not quoted. Fix "
            "the file, or delete the header and name all columns.",
            parameters=("columns",),
            width=width,
        )


def _tables(
    facts: Facts, raws: Iterable[RawChunk], read_warnings: ReadWarnings, notices: Notices
) -> Iterator[Table]:
    """Yield a table for each chunk; at the end, report the repairs.

    Raises:
        DataError: values that pandas cannot hold.
    """
    file, id_name = facts.file, facts.columns.id
    start = 0
    for raw in raws:
        try:
            table = _table(facts, raw, start, read_warnings)
        except NOT_FOR_PANDAS as error:
            odd = unreadable({name: flat(raw.columns.column(name)) for name in raw.columns.column_names})
            if not odd:
                raise
            raise unreadable_values(file.name, odd[0], error) from None
        if id_name is not None and len(table) and isinstance(table.ids.dtype, pd.StringDtype):
            kind = raw.columns.schema.field(id_name).type
            if keeps_type(kind) and not is_text(kind):  # ids in other chunks would not become text
                reason = ValueError("times before the year 1 or after 9999")
                raise unreadable_values(file.name, id_name, reason)
        check_formats(file.name, facts.columns, read_warnings)
        yield table
        start += len(table)
    for sentence in read_warnings.sentences(file.name):
        notices(sentence)


def _table(facts: Facts, raw: RawChunk, start: int, read_warnings: ReadWarnings) -> Table:
    columns, prices = facts.columns, facts.prices
    arrays = {name: flat(raw.columns.column(name)) for name in raw.columns.column_names}
    # Read prices before NUL bytes are removed: "1\0999" is not a number and must not become one.
    price, flaws = None, None
    if columns.price is not None and prices is not None:
        price, flaws = parse_price(raw.cells(columns.price), prices)
    if raw.ragged is not None and raw.ragged.any():
        flaws = np.full(len(raw.columns), "", dtype=object) if flaws is None else flaws
        flaws[raw.ragged] = RAGGED
    arrays = {
        name: clean(cells, read_warnings) if is_text(cells.type) else cells for name, cells in arrays.items()
    }
    assert columns.formats is not None
    cells = [raw.cells(name) if name in raw.numbers else arrays[name] for name in columns.text]
    text = join_text(columns.text, cells, columns.formats.columns, read_warnings, start)
    rows = np.arange(start, start + len(raw.columns), dtype=np.int64)
    return Table(
        ids=pd.Series(rows, name="row") if columns.id is None else as_ids(columns.id, arrays[columns.id]),
        text=pa.table({"text": text}).to_pandas()["text"],
        price=price,
        frame=as_frame(arrays),
        flaws=flaws,
        rows=rows,
        position=raw.position,
        formats=columns.formats,
    )


def table_of_texts(texts: Sequence[str] | np.ndarray | pd.Series, name: str = "text") -> Table:
    """Return a table with one text column called `name`, without prices, with row numbers as ids.

    NUL bytes are removed and texts are cut to `MAX_TEXT_CHARS` characters, as `read_table` does; a warning counts both.
    The text is in the form of `normal_text`; the frame has it as it is written.

    Args:
        texts: strings, (N,): a list, a numpy array, or a pandas, Arrow or polars column.
        name: the name of the column.

    Raises:
        DataError: a single text or a whole table instead of a list of texts, or a value that is not a string.

    Example:
        >>> table_of_texts(["Green tea 50 g", "Plum jam"]).text.tolist()
        ['Green tea 50 g', 'Plum jam']
    """
    cells = _cells(texts)
    wrong = next((i for i, cell in enumerate(cells) if not isinstance(cell, str)), None)
    if wrong is not None:
        raise DataError(
            f"value {wrong:,} of the texts is of type {type(cells[wrong]).__name__}; a string is expected. "
            'Use "" for a missing text.',
            parameters=("table",),
            position=wrong,
            type=type(cells[wrong]).__name__,
        )
    read_warnings = ReadWarnings()
    column = clean(text_array(cells), read_warnings)
    for sentence in read_warnings.sentences("the texts"):
        logger.warning(sentence)
    text = pd.Series(as_pandas(join_text([name], [column], {}, read_warnings)), name="text")
    rows = np.arange(len(text), dtype=np.int64)
    return Table(pd.Series(rows, name="row"), text, None, pd.DataFrame({name: as_pandas(column)}), rows=rows)


def _cells(texts: Any) -> list[Any]:
    """Return the values of a list of texts; raises DataError if it is something else."""
    kind = type(texts).__name__
    if is_frame(texts):
        raise DataError(
            f"a list of texts is expected, not a whole {kind}. Pass its text column.",
            parameters=("table",),
            type=kind,
        )
    if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
        described = "None" if texts is None else f"one {kind}"
        remedy = (
            "Put a text into a list: [text]."
            if isinstance(texts, str | bytes)
            else "Put the texts into a list."
        )
        if hasattr(texts, "collect"):
            remedy = "Call its collect() first."
        raise DataError(
            f"a table or a list of texts is expected, not {described}. {remedy}",
            parameters=("table",),
            type=kind,
        )
    if isinstance(texts, np.ndarray) and texts.ndim != 1:
        raise DataError(
            f"texts of one dimension are expected, not an array of shape {texts.shape}. Pass one of its columns.",
            parameters=("table",),
            shape=texts.shape,
        )
    return texts.to_pylist() if isinstance(texts, pa.Array | pa.ChunkedArray) else list(texts)


def check_labelled(texts: Iterable[str], columns: Columns) -> None:
    """Raise DataError if a model reads several columns and no text has a line of `join_text` for any of them."""
    labels = tuple(f"{name}: " for name in columns.text)
    if len(labels) == 1 or not any(texts):
        return
    if not any(line.startswith(labels) for text in texts for line in text.split("\n")):
        raise DataError(
            f"no text has a line such as '{labels[0]}…': this model reads the columns {', '.join(columns.text)}. Pass "
            "a DataFrame with these columns, or texts with a line 'column: cell' for each.",
            parameters=("table",),
            columns=list(columns.text),
        )
