"""Tables in several files: a folder of Parquet files, or a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from urllib.parse import quote

import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError, NoRowsError
from pricekit.io.log import logger
from pricekit.io.storage import (
    Location,
    exists,
    files_below,
    for_all,
    is_folder,
    is_pattern,
    matching,
    size_of,
    split_pattern,
)
from pricekit.table.arrow import COLUMNAR, describe_columnar, no_cells
from pricekit.table.columns import as_ids, flat
from pricekit.table.formats import format_of, named_format
from pricekit.table.read import columns_found, iter_table
from pricekit.table.source import DEFAULT_READ_OPTIONS, ReadOptions, open_table
from pricekit.table.table import Columns, Notices, Table
from pricekit.wording import counted

_OTHERS = ("csv", "tsv", "jsonl", "feather", "orc")
"""Formats of tables besides Parquet; many .txt files are not tables."""


def table_files(path: Location) -> list[Location]:
    """Return the files of a local path or an address, sorted by name.

    It is a file, a folder of .parquet and .pq files (including subfolders), or a pattern. A path with `*`, `?`
    or `[` that is not an existing file is a pattern, in which `**` matches any number of folders. Files and subfolders
    whose names begin with "." or "_" are omitted unless the pattern contains such a name.

    Raises:
        DataError: there is no such file; a folder contains a table of Delta Lake or Iceberg; or a pattern names files
            of one.
    """
    if is_folder(path):
        files = _files_in(path, "parquet")
        problem = 'the folder contains no .parquet file. For other formats, use a pattern such as "*.csv"'
    elif is_pattern(path) and not exists(path):
        fixed, varying = split_pattern(path)
        hidden = _is_hidden(varying)  # the user wants hidden files
        files = [file for file in matching(path) if hidden or not _is_hidden(file.relative_to(fixed))]  # type: ignore[arg-type]
        for log in (fixed / "_delta_log", fixed / "metadata"):
            if not hidden and is_folder(log):
                _refuse_versions(fixed, files_below(log))
        problem = "no file matches the pattern"
    else:
        return [path]
    if not files:
        raise DataError(f"{path}: {problem}. Check the path.", parameters=("table",))
    return files


def _refuse_versions(folder: Location, files: Sequence[Location]) -> None:
    """Raise DataError if a folder contains a table of Delta Lake or Iceberg, which keeps files of older versions."""
    for file in files:
        if not file.name.endswith(".json"):
            continue
        place = file.relative_to(folder).parent  # type: ignore[arg-type]
        is_delta = place.name == "_delta_log"
        is_iceberg = place.name == "metadata" and file.name.endswith(".metadata.json")
        if not (is_delta or is_iceberg) or _is_hidden(place.parent):
            continue
        table = folder
        for part in place.parent.parts:
            table = table / part
        address = "iceberg://CATALOGUE/NAMESPACE.TABLE"
        if is_delta:
            address = f"delta:///{quote(str(table))}" if isinstance(table, Path) else f"delta+{table}"
        raise DataError(
            f"{table} is a table of {'Delta Lake' if is_delta else 'Iceberg'}. It has files of older versions, too, so "
            f"name it as {address}.",
            parameters=("table",),
            path=str(table),
        )


def warn_of_other_formats(path: Location) -> None:
    """Log the number of tables in a folder that `table_files` omits, and one of their names."""
    if not is_folder(path):
        return
    if others := _files_in(path, *_OTHERS):
        logger.warning(
            f"{path}: {counted(len(others), 'file')} of other formats, such as {min(map(str, others))}, "
            f"{'is' if len(others) == 1 else 'are'} left out: a folder stands for its .parquet files. For others, "
            'use a pattern such as "**/*.csv".'
        )


def _files_in(folder: Location, *formats: str) -> list[Location]:
    """Return the files of some formats in a folder and its subfolders, except for hidden ones; raises DataError."""
    files = files_below(folder)
    _refuse_versions(folder, files)
    return [
        file
        for file in files
        if named_format(file) in formats and not _is_hidden(file.relative_to(folder))  # type: ignore[arg-type]
    ]


def fixed_part(path: Location) -> Location:
    """Return the folder below which a pattern varies; a path that is no pattern stays as it is."""
    return split_pattern(path)[0] if is_pattern(path) and not exists(path) else path


def iter_files(
    files: Sequence[Location],
    columns: Columns,
    *,
    rows: int = 8192,
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    notices: Notices = logger.warning,
) -> Iterator[Table]:
    """Yield the tables of several files, such as those of `table_files`, like `iter_table` for a single file.

    Without an id column, row numbers continue from file to file. Files without rows are skipped with a notice, which is
    omitted for Parquet because many writers produce empty Parquet files.

    Raises:
        DataError: as for `iter_table`, or only some of the files have the id column.
    """
    done = position = 0
    ids = None
    for number, file in enumerate(files, start=1):
        left = None if limit is None else limit - done
        if left == 0:
            return
        first = done
        tables = iter_table(file, columns, rows=rows, limit=left, read_options=read_options, notices=notices)
        try:
            for table in tables:
                ids = ids or table.ids.name
                if table.ids.name != ids:
                    _refuse_other_ids(files[0], file, columns)
                done += len(table)
                yield replace(
                    table,
                    ids=table.ids if columns.id in table.frame else table.ids + first,
                    rows=table.row_numbers + first,
                    position=table.position + position,
                )
        except NoRowsError:
            if number == len(files) and not done:
                raise
            if format_of(file) != "parquet":
                notices(f"{file} has no rows; it is skipped.")
        position += size_of(file)


def _refuse_other_ids(first: Location, other: Location, columns: Columns) -> None:
    raise DataError(
        f"only one of {first} and {other} has the id column {columns.id!r}, so row numbers would mix with ids. Add the "
        "column to all files, name an id column that all have, or process the files one by one.",
        parameters=("id",),
        column=columns.id,
    )


def check_columns(path: Location, columns: Columns, read_options: ReadOptions = DEFAULT_READ_OPTIONS) -> None:
    """Check quickly that all files of a path have the columns.

    Reads the metadata of Parquet files and the first rows of others, also of remote ones.

    Raises:
        DataError: there is no such file, a file lacks a column, or only some of the files have the id column.
    """
    kinds: dict[bool, Location] = {}
    empty: NoRowsError | None = None
    for file in table_files(path):
        try:
            kinds.setdefault(columns_found(file, columns, read_options).id is None, file)
        except NoRowsError as error:
            empty = error
    if empty and not kinds:
        raise empty
    if len(kinds) == 2:
        _refuse_other_ids(kinds[False], kinds[True], columns)


def ids_without_rows(path: Location, columns: Columns, read_options: ReadOptions) -> pd.Series:
    """Return the ids of a file without rows, none, with the name and the type that ids of its rows would have.

    A file without any column gets the name of the expected id column.
    """
    file = open_table(path, read_options, logger.debug)
    empty = no_cells(describe_columnar(file.origin, file.kind)[0] if file.kind in COLUMNAR else pa.schema([]))
    names = empty.column_names
    if columns.id is None or (names and columns.id not in names):
        return pd.Series([], dtype="int64", name="row")
    return as_ids(columns.id, flat(empty[columns.id]) if names else pa.array([], pa.string()))


def files_size(files: Sequence[Location]) -> int:
    """Return the final `Table.position` of `iter_files`: the bytes of all files; a missing file has none."""
    return sum(for_all(size_of, files))


def _is_hidden(path: PurePath) -> bool:
    """Return whether a file or one of its folders is not data, such as `_SUCCESS` or a temporary part."""
    return any(part.startswith((".", "_")) and part != ".." for part in path.parts)
