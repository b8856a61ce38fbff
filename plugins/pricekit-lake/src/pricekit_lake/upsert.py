"""Prices go into a table of files: rows are compared with one version of it, and what differs becomes one commit.

    Tables      a source whose tables have versions
    Version     one version of a table, as it was loaded
    Upsert      the sink: it collects rows on disk, and commits when all are there
    Changes     the rows that differ from a version, on disk

A job is committed once: the table remembers its name. If another commit comes first, nothing is merged: the rows are
compared again with the newest version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from pricekit.plugin import (
    ConfigError,
    DataError,
    Output,
    PricekitError,
    Source,
    counted,
    did_you_mean,
    logger,
    retried,
    shorten,
    temporary_folder,
)

JOB = "pricekit.job"
"""What a commit calls the job of its rows."""

ROWS = 65_536
"""Rows of a batch that is committed."""

MEMORY = "1GB"
"""What the comparison of rows keeps in memory; the rest is on disk."""

_NUMBER = "number"
"""The column of the number of a row in a version, from 0. Those of the output are `_columns`, whatever their names."""

_TYPES = {
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
}

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


class Version(Protocol):
    """One version of a table."""

    @property
    def schema(self) -> pa.Schema:
        """All columns; one that is not nullable must have a value."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, always in the same order."""

    def committed(self, job: str) -> str:
        """Return the name of the version that a job committed, unless it was undone; "" if there is none."""

    def commit(self, changes: Changes, job: str) -> None:
        """Publish rows in one commit; raises ConnectionError if this version is not the last one any more."""


class Tables(Source):
    """Tables of one format."""

    def load(self, address: str, parameter: str) -> Version | None:
        """Return the version that an address names, None if there is no table; raises the errors of `read`."""
        raise NotImplementedError

    def create(self, address: str, changes: Changes, job: str) -> None:
        """Create a table with rows in one commit; raises ConnectionError if it exists now."""
        raise NotImplementedError

    def check_place(self, address: str) -> None:
        """Check that an address can be written; raises ConfigError and DataError."""

    @contextmanager
    def read(
        self, address: str, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows of one version."""
        version = self.load(address, "table")
        if version is None:
            local = " Its path is relative after three slashes, and absolute after four." * (
                ":///" in address
            )
            raise DataError(f"there is no table {address}. Check the address.{local}", parameters=("table",))
        names = version.schema.names if columns is None else list(columns)
        schema = pa.schema([version.schema.field(name).with_nullable(True) for name in names])
        batches = _explained(_first_rows(version.batches(names), schema, limit), address)
        yield pa.RecordBatchReader.from_batches(schema, batches)

    def check(self, output: Output) -> None:
        """Check an existing table, or that it can be created."""
        self.check_place(output.address)
        version = self.load(output.address, "out")
        if version is not None:
            types_of(version.schema, output)

    @contextmanager
    def write(self, output: Output) -> Iterator[Upsert]:
        """Yield what collects rows; they are committed at the end."""
        self.check(output)
        with temporary_folder() as folder:
            sink = Upsert(self, output, folder)
            try:
                yield sink
                sink.commit()
            finally:
                sink.close()


def _explained(batches: Iterator[pa.RecordBatch], address: str) -> Iterator[pa.RecordBatch]:
    while True:
        with errors(address, "table"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _first_rows(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, limit: int | None
) -> Iterator[pa.RecordBatch]:
    left = limit
    if left == 0:
        return
    for batch in batches:
        rows = batch if left is None else batch.slice(0, left)
        yield rows.cast(schema)
        if left is not None:
            left -= len(rows)
            if not left:
                return


def types_of(schema: pa.Schema, output: Output) -> dict[str, pa.DataType]:
    """Return the types of the columns that are written; raises DataError if rows of an output do not fit a table."""
    row_id, *prices = output.schema
    for field in output.schema:
        if field.name not in schema.names:
            raise DataError(
                f"the table {output.address} has no column {field.name!r}; its columns are: {', '.join(schema.names)}."
                f"{did_you_mean(field.name, schema.names)} Add the column, or name another table.",
                parameters=("out",),
                column=field.name,
            )
    types = {field.name: schema.field(field.name).type for field in output.schema}
    texts = {pa.string(), pa.large_string()}
    whole = {pa.int8(), pa.int16(), pa.int32(), pa.int64()}
    for field in (row_id, *prices):
        kind = types[field.name]
        if field is row_id:
            fits = kind in texts or (field.type == pa.int64() and kind in whole)
            expected = "a text" if field.type == pa.string() else "a whole number or a text"
        elif field.type == pa.bool_():
            fits, expected = kind == pa.bool_(), "boolean"
        else:
            fits = pa.types.is_decimal128(kind) or kind in (pa.float32(), pa.float64())
            expected = "double, float or decimal"
        if not fits:
            raise DataError(
                f"the column {field.name!r} of the table {output.address} is of the type {kind}; expected {expected}. "
                "Change its type, or name another table.",
                parameters=("out",),
                column=field.name,
            )
    for field in schema:
        if not field.nullable and field.name not in types:
            raise DataError(
                f"the column {field.name!r} of the table {output.address} must have a value, but only "
                f"{', '.join(types)} are written. Allow it to be empty, or name another table.",
                parameters=("out",),
                column=field.name,
            )
    return types


class Upsert:
    """Collects rows in a file of DuckDB, and commits those that differ from the table."""

    def __init__(self, tables: Tables, output: Output, folder: Path) -> None:
        self._tables, self._output = tables, output
        self._database = duckdb.connect(
            str(folder / "rows.duckdb"),
            config={"memory_limit": MEMORY, "temp_directory": str(folder / "spilled")},
        )
        self._columns = _columns(output.schema)
        typed = zip(self._columns, output.schema.types, strict=True)
        columns = ", ".join(f"{column} {_TYPES[kind]}" for column, kind in typed)
        self._database.execute(f"CREATE TABLE written ({columns})")

    def write(self, rows: pa.Table) -> None:
        """Collect rows. Of several with the same id, the last one counts."""
        with errors(self._output.address, "out"):
            self._database.register("batch", rows.rename_columns(self._columns))
            self._database.execute("INSERT INTO written SELECT * FROM batch")
            self._database.unregister("batch")

    def commit(self) -> None:
        """Publish all rows that differ in one commit; raises DataError."""
        (rows,) = self._database.execute("SELECT count(*) FROM written").fetchall()[0]
        if rows:
            retried(self._commit, f"{self._output.address} cannot be written")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _commit(self) -> None:
        with errors(self._output.address, "out"):
            version = self._tables.load(self._output.address, "out")
            changes = self._compare(version)
            if not changes.inserted and not changes.updated:
                return
            if version is None:
                self._tables.create(self._output.address, changes, self._output.job)
                return
            if earlier := version.committed(self._output.job):
                logger.warning(
                    f"{self._output.address}: these prices were committed as {earlier}; since then, "
                    f"{counted(changes.inserted + changes.updated, 'row')} have changed, and stay as they are."
                )
                return
            if changes.updated and self._output.on_conflict == "error":
                row = changes.rows("updated").read_next_batch()[0][0].as_py()
                raise DataError(
                    f"the table {self._output.address} has another price for the id {str(row)!r} already. Delete it, "
                    "name another table, or let prices be updated.",
                    parameters=("on_conflict", "out"),
                    id=row,
                )
            version.commit(changes, self._output.job)

    def _compare(self, version: Version | None) -> Changes:
        """Find the rows that a version lacks, or has with other values."""
        database, columns, schema = self._database, self._columns, self._output.schema
        if version is not None:
            types = types_of(version.schema, self._output)
            schema = pa.schema([(name, types[name]) for name in schema.names])
        row_id, *prices = columns
        cast = ", ".join(
            f"CAST({column} AS {_type(kind)}) AS {column}"
            for column, kind in zip(columns, schema.types, strict=True)
        )
        last = (
            f"SELECT rowid AS position, {cast} FROM written "
            f"QUALIFY row_number() OVER (PARTITION BY {row_id} ORDER BY rowid DESC) = 1"
        )
        if version is None:
            number, joined, differs = "NULL::BIGINT", "", "true"
        else:
            database.register("there", _numbered(version, schema))
            number, joined = f"t.{_NUMBER}", f"LEFT JOIN there t ON t.{row_id} = w.{row_id}"
            differs = " OR ".join(
                [f"{number} IS NULL", *(f"w.{price} IS DISTINCT FROM t.{price}" for price in prices)]
            )
        database.execute(
            f"CREATE OR REPLACE TABLE changes AS SELECT {', '.join(f'w.{column}' for column in columns)}, "
            f"w.position, {number} AS {_NUMBER} FROM ({last}) w {joined} WHERE {differs}"
        )
        if version is not None:
            database.unregister("there")
        twice = database.execute(
            f"SELECT {row_id} FROM changes WHERE {_NUMBER} IS NOT NULL GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 "
            "LIMIT 1"
        ).fetchone()
        if twice:
            raise DataError(
                f"the table {self._output.address} has several rows with the id {str(twice[0])!r}, but one price is "
                "written for each id. Remove the repeated rows, or name another table.",
                parameters=("out",),
                id=twice[0],
            )
        return Changes(database, schema)


def _columns(schema: pa.Schema) -> list[str]:
    """Return names of columns for DuckDB, in which upper case counts for nothing and `rowid` is its own column."""
    return [f"c{number}" for number in range(len(schema))]


def _type(kind: pa.DataType) -> str:
    return f"DECIMAL({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else _TYPES[kind]


def _numbered(version: Version, columns: pa.Schema) -> pa.RecordBatchReader:
    """Stream columns of all rows, named for DuckDB, and their numbers."""
    names = [*_columns(columns), _NUMBER]
    schema = pa.schema(list(zip(names, [*columns.types, pa.int64()], strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in version.batches(columns.names):
            numbers = pa.array(range(first, first + len(batch)), pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers], names=names).cast(schema)
            first += len(batch)

    return pa.RecordBatchReader.from_batches(schema, batches())


class Changes:
    """The rows that differ from a version, in a file.

    Attributes:
        schema: the id and the columns that are written, with the types of the table.
        inserted, updated: the numbers of rows.
    """

    def __init__(self, database: duckdb.DuckDBPyConnection, schema: pa.Schema) -> None:
        self._database, self.schema = database, schema
        query = f"SELECT count(*) - count({_NUMBER}), count({_NUMBER}) FROM changes"
        self.inserted, self.updated = database.execute(query).fetchall()[0]

    def rows(self, which: str) -> pa.RecordBatchReader:
        """Stream the rows: "inserted", "updated" or "all", in the order in which they were written."""
        where = {"inserted": f"{_NUMBER} IS NULL", "updated": f"{_NUMBER} IS NOT NULL", "all": "true"}[which]
        reader = self._query(
            f"{', '.join(_columns(self.schema))} FROM changes WHERE {where} ORDER BY position"
        )
        return pa.RecordBatchReader.from_batches(self.schema, map(self._typed, reader))

    def between(self, first: int, end: int) -> tuple[np.ndarray, pa.Table]:
        """Return the updated ones of the rows that a version numbers from `first` to before `end`: numbers and rows."""
        where = f"{_NUMBER} >= {first} AND {_NUMBER} < {end}"
        rows = self._query(f"* EXCLUDE position FROM changes WHERE {where} ORDER BY {_NUMBER}").read_all()
        return rows[_NUMBER].to_numpy(), self._typed(rows.drop_columns(_NUMBER))

    def _query(self, selected: str) -> pa.RecordBatchReader:
        cursor = self._database.cursor()  # a connection has one stream at a time
        return cursor.sql(f"SELECT {selected}").to_arrow_reader(ROWS)

    def _typed(self, rows: Rows) -> Rows:
        return rows.rename_columns(self.schema.names).cast(self.schema)


def with_all_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with all columns of a table; those that they lack are empty."""
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


_PASSING = re.compile(
    r"timed? ?out|connection (?:refused|reset|closed|aborted|lost|error)|connect error|temporarily|slow ?down|"
    r"too many requests|service unavailable|table already exists|database is locked|status\D{0,9}50[0234]",
    re.I,
)
_PASSING_KINDS = frozenset(
    {"CommitFailedError", "CommitFailedException", "CommitStateUnknownException", "TableAlreadyExistsError",
     "WaitingForLockException", "ServiceUnavailableError", "ServerError", "TooManyRequestsError"}
)  # fmt: skip
_SECRET = re.compile(r"secret|password|token|credential|account_?key|sas", re.I)


@contextmanager
def errors(address: str, parameter: str) -> Iterator[None]:
    """Turn errors of a library into those of pricekit, without credentials.

    Raises:
        ConnectionError: it may succeed later.
        DataError: it will not.
    """
    try:
        yield
    except (PricekitError, ConnectionError, MemoryError):
        raise
    except ImportError as error:
        raise ConfigError(f"{address}: {_sentence(error)}", parameters=(parameter,)) from None
    except Exception as error:
        message = _sentence(error)
        if type(error).__name__ in _PASSING_KINDS or _PASSING.search(str(error)):
            raise ConnectionError(message) from None
        raise DataError(f"{address}: {message}", parameters=(parameter,)) from None


def _sentence(error: Exception) -> str:
    """Return the message of a library on one line, without credentials."""
    message = (
        " ".join(
            re.sub(
                r"\x1b\[\d*m|↳|(?: when casting from source column \w+)?\nLINE \d+: .*",
                "",
                str(error),
                flags=re.S,
            ).split()
        )
        or type(error).__name__
    )
    message = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:…@", message)
    for name, value in os.environ.items():
        if len(value) >= 4 and _SECRET.search(name):
            message = message.replace(value, "…")
    return shorten(message, 300).rstrip(".? ") + "."


def only(options: dict[str, Any], known: Sequence[str], start: str) -> None:
    """Raise ConfigError if an address has another parameter than those known, or more than one."""
    for name in options:
        if name not in known:
            raise ConfigError(
                f"the address {start} has the unknown parameter {name!r}; expected {' or '.join(known)}."
                f"{did_you_mean(name, list(known))}",
                parameters=("table",),
            )
    if len(options) > 1:
        raise ConfigError(
            f"the address {start} has the parameters {' and '.join(options)}; leave all but one of them out",
            parameters=("table",),
        )
