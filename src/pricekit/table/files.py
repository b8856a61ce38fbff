"""A path that stands for several files: a folder of Parquet, or a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from pricekit.errors import DataError, NoRowsError
from pricekit.log import logger
from pricekit.table.model import Columns, Notices, Table, format_of
from pricekit.table.options import DEFAULT_READ_OPTIONS, ReadOptions
from pricekit.table.read import columns_found, iter_table

_WILD = frozenset("*?[")


def table_files(path: Path) -> list[Path]:
    """Return the files that a path stands for, in the order of their names.

    A file is itself; a folder is its .parquet and .pq files, those of folders inside it included; a path
    with `*`, `?` or `[` that is no file itself is a pattern, `**` any number of folders. Names that begin with "." or
    "_", of files and of folders below it, are left out unless the pattern has such a name itself.

    Raises:
        DataError: there is no such file.
    """
    if path.is_dir():
        fixed, hidden = path, False
        found = [file for file in path.rglob("*") if file.suffix.lower() in (".parquet", ".pq")]
        expected = 'a folder is read as the .parquet files in it, and there is none; of others give a pattern, "*.csv"'
    elif _WILD & set(str(path)) and not path.exists():
        fixed = Path(*takewhile(lambda part: not _WILD & set(part), path.parts))
        hidden = _is_hidden(path.relative_to(fixed))  # then they are asked for
        found = list(fixed.glob(str(path.relative_to(fixed))))
        expected = "no file matches the pattern"
    else:
        return [path]
    files = sorted(
        file
        for file in found
        if (file.is_file() or not file.exists())  # a link to nowhere is a file that is missing
        and (hidden or not _is_hidden(file.relative_to(fixed)))
    )
    if not files:
        raise DataError(f"{path}: {expected}. Check the path.")
    return files


def iter_files(
    files: Sequence[Path],
    columns: Columns,
    *,
    rows: int = 8192,
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    notices: Notices = logger.warning,
) -> Iterator[Table]:
    """Yield the tables of files, such as those of `table_files`, one after the other, as `iter_table` does.

    Where there is no id column, row numbers go on from file to file. Of several files those without a row are left
    out; as many a writer makes empty Parquet files, only others are named.

    Raises:
        DataError: as of `iter_table`, or some files have the id column and others have not.
    """
    done = position = 0
    ids = None
    for number, file in enumerate(files, start=1):
        left, first = None if limit is None else limit - done, done
        if left == 0:
            return
        told: dict[str, Any] = {"read_options": read_options, "notices": notices}
        try:
            for table in iter_table(file, columns, rows=rows, limit=left, first_row=first, **told):
                ids = ids or table.ids.name
                if table.ids.name != ids:
                    _refuse_other_ids(files[0], file, columns)
                done += len(table)
                yield replace(table, position=table.position + position)
        except NoRowsError:
            if number == len(files) and not done:
                raise
            if format_of(file) != "parquet":
                notices(f"{file} has no rows; it is left out.")
        position += file.stat().st_size


def _refuse_other_ids(first: Path, other: Path, columns: Columns) -> None:
    raise DataError(
        f"of {first} and {other} only one has the id column {columns.id!r}, so that row numbers would stand among ids. "
        "Give all files that column, name one that all have with --id, or price them one by one."
    )


def check_columns(path: Path, columns: Columns, read_options: ReadOptions = DEFAULT_READ_OPTIONS) -> None:
    """Read what tells the columns of what `path` stands for; raises DataError where that or a column is missing.

    Some rows of each file do, and of Parquet what the file says of itself.
    """
    kinds: dict[bool, Path] = {}
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


def files_size(files: Sequence[Path]) -> int:
    """What `Table.position` counts up to, in bytes, for the tables of `iter_files`; a missing file has none."""
    return sum(file.stat().st_size for file in files if file.exists())


def _is_hidden(path: Path) -> bool:
    """Say whether a file or a folder that it is in is none of the data, such as `_SUCCESS` or unfinished parts."""
    return any(part.startswith((".", "_")) and part != ".." for part in path.parts)
