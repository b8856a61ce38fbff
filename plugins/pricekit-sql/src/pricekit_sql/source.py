"""The sources `postgresql`, `sqlite` and `duckdb`: how a table is read, and how prices are written into one.

    Place      what an address says
    Session    a connection, with what differs between the databases
    Database   a source, for any of them
    Upsert     its sink

Rows are found by their ids: each batch is a transaction, which inserts new ids, updates those whose prices differ, and
leaves alone those that are there with the same prices. So a batch can be repeated when nobody knows what became of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import quote, unquote, urlencode

import pyarrow as pa

from pricekit.plugin import (
    ConfigError,
    DataError,
    Output,
    PricekitError,
    Source,
    did_you_mean,
    parameters_of_address,
    shorten,
)

ROWS = 4096
"""Rows of a batch that is read."""

STAGED = "pricekit_rows"
"""The temporary table of the rows of a batch."""

_PART = re.compile(r'"([^"]+)"|([^".]+)')


@dataclass(frozen=True)
class Place:
    """What an address says.

    Attributes:
        address: without its parameters.
        table: the parts of its name, such as a schema and the name; () for a query.
        query: "" for a table.
        options: the other parameters.
    """

    address: str
    table: tuple[str, ...]
    query: str
    options: dict[str, str]

    @classmethod
    def of(cls, address: str, *, writes: bool = False) -> Place:
        """Read an address, which names a table if it is to be written; raises ConfigError."""
        start, options = parameters_of_address(address)
        name, query = options.pop("table", ""), options.pop("query", "").strip().removesuffix(";")
        if writes and (query or not name):
            raise ConfigError(
                f"the address {start} names no table to write; add ?table=NAME, without a query",
                parameters=("out",),
            )
        if bool(name) == bool(query):
            problem = "both a table and a query" if name else "neither a table nor a query"
            raise ConfigError(
                f"the address {start} names {problem}; add ?table=NAME or ?query=SELECT..., or give a file with "
                "a query",
                parameters=("table", "sql"),
            )
        parts = tuple(quoted or plain for quoted, plain in _PART.findall(name))
        return cls(start, parts, query, options)

    @property
    def file(self) -> Path:
        """The file of the database: relative to the current folder after three slashes, absolute after four."""
        server, _, path = self.address.partition("://")[2].partition("/")
        if server or not path:
            raise ConfigError(
                f"the address {self.address} names no file; expected one such as sqlite:///shop.db, or "
                "sqlite:////data/shop.db for an absolute path",
                parameters=("table",),
            )
        if self.options:
            raise ConfigError(
                f"the address {self.address} has the unknown parameter {next(iter(self.options))!r}."
                f"{did_you_mean(next(iter(self.options)), ['table', 'query'])}",
                parameters=("table",),
            )
        return Path(unquote(path))

    @property
    def rows(self) -> str:
        """What stands behind FROM."""
        return quoted(*self.table) if self.table else f"(\n{self.query}\n) AS {STAGED}"

    @property
    def name(self) -> str:
        """The name of the table, for messages."""
        return ".".join(self.table)


def quoted(*names: str) -> str:
    """Return a name of SQL, each part in double quotes.

    Example:
        >>> quoted("shop", "own prices")
        '"shop"."own prices"'
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


class Session(Protocol):
    """A connection to a database, in a transaction.

    Attributes:
        differs: how the database compares two values, of which each may be null.
        types: its names of Arrow's int64, string, double and bool.
        prices: the types, without what is in brackets, of columns that hold a price; None: any.
    """

    differs: ClassVar[str]
    types: ClassVar[dict[pa.DataType, str]]
    prices: ClassVar[frozenset[str] | None]

    def names(self, place: Place) -> list[str]:
        """Return the names of the columns of a table or a query."""

    def describe(self, place: Place, names: Sequence[str]) -> list[tuple[pa.Field, str]]:
        """Return some columns of a table or a query, as they are read, and the expression that selects each."""

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query."""

    def columns(self, place: Place) -> dict[str, str]:
        """Return the type of each column of an existing table; {} if there is none."""

    def identifies(self, place: Place, column: str) -> bool:
        """Return whether a column alone is a primary key or unique."""

    def stage(self, rows: pa.Table) -> None:
        """Make rows the temporary table `STAGED`, instead of those that it had."""

    def execute(self, sql: str) -> list[Any]:
        """Return all rows of a statement."""

    def commit(self) -> None:
        """End the transaction; the next statement begins another one."""

    def close(self) -> None:
        """End the connection; what was not committed is undone."""


class Database(Source):
    """Tables of one kind of database."""

    connect: Callable[[Place, bool], Session]
    """Opens a session for a place: to write, or only to read."""

    def column_names(self, address: str) -> list[str]:
        """Return the names of the columns of a table or a query."""
        place = Place.of(address)
        with closing(type(self).connect(place, False)) as session:
            names = session.names(place)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(
                f"{place.address}: two columns have the name {twice!r}. Name each differently, with AS.",
                parameters=("table",),
                column=twice,
            )
        return names

    @contextmanager
    def read(
        self, address: str, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows of a table or a query, in one transaction that writes nothing."""
        place = Place.of(address)
        with closing(type(self).connect(place, False)) as session:
            described = session.describe(place, session.names(place) if columns is None else columns)
            schema = pa.schema([field for field, _ in described])
            most = "" if limit is None else f" LIMIT {limit}"
            selected = ", ".join(f"{expression} AS {quoted(field.name)}" for field, expression in described)
            batches = session.batches(f"SELECT {selected} FROM {place.rows}{most}", schema)
            yield pa.RecordBatchReader.from_batches(schema, batches)

    def check(self, output: Output) -> None:
        """Check an existing table, or that the database can be written."""
        Upsert(self, output).close()

    @contextmanager
    def write(self, output: Output) -> Iterator[Upsert]:
        """Yield what writes each batch in a transaction."""
        with closing(Upsert(self, output)) as sink:
            yield sink


class Upsert:
    """Writes rows into a table, which it creates with the first rows if it is missing.

    Raises:
        DataError: the table lacks a column, has other types, or does not tell rows apart by the id.
        ConfigError: the address names no table.
    """

    def __init__(self, database: Database, output: Output) -> None:
        self._place, self._output = Place.of(output.address, writes=True), output
        self._database = database
        self._session: Session | None = self._connected()

    def write(self, rows: pa.Table) -> None:
        """Write rows in a transaction."""
        if self._session is None:
            self._session = self._connected()
        try:
            self._write(self._session, rows)
            self._session.commit()
        except BaseException:
            self.close()  # the next attempt has a connection of its own
            raise

    def close(self) -> None:
        """End the connection."""
        if self._session is not None:
            session, self._session = self._session, None
            with suppress(PricekitError, ConnectionError):
                session.close()

    def _connected(self) -> Session:
        session = type(self._database).connect(self._place, True)
        try:
            self._types = self._check(session)
        except BaseException:
            session.close()
            raise
        return session

    def _check(self, session: Session) -> dict[str, str]:
        """Return the types of the table's columns; {} if there is none; raises DataError."""
        types = session.columns(self._place)
        if not types:
            return {}
        name, (row_id, *prices) = self._place.name, self._output.schema.names
        for column in (row_id, *prices):
            if column not in types:
                raise DataError(
                    f"the table {name} has no column {column!r}; its columns are: {', '.join(types)}."
                    f"{did_you_mean(column, list(types))} Add the column, or name another table.",
                    parameters=("out",),
                    column=column,
                )
        for field in list(self._output.schema)[1:]:
            kind = types[field.name].partition("(")[0].lower()
            expected = {"boolean", "bool"} if field.type == pa.bool_() else session.prices
            if session.prices is not None and expected is not None and kind not in expected:
                raise DataError(
                    f"the column {field.name!r} of the table {name} is of the type {types[field.name]}; expected "
                    f"{' or '.join(sorted(expected))}. Change its type, or name another table.",
                    parameters=("out",),
                    column=field.name,
                )
        if not session.identifies(self._place, row_id):
            raise DataError(
                f"the column {row_id!r} of the table {name} is neither its primary key nor unique, so a row could be "
                f"written twice. Run CREATE UNIQUE INDEX ON {quoted(*self._place.table)} ({quoted(row_id)}), or name "
                "another table.",
                parameters=("out",),
                column=row_id,
            )
        return types

    def _write(self, session: Session, rows: pa.Table) -> None:
        table, (row_id, *prices) = quoted(*self._place.table), self._output.schema.names
        if not self._types:
            columns = [f"{quoted(field.name)} {session.types[field.type]}" for field in self._output.schema]
            columns[0] += " PRIMARY KEY"
            session.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})")
            self._types = self._check(session)
        types = self._types
        session.stage(rows)
        cast = {name: f"CAST(s.{quoted(name)} AS {types[name]})" for name in (row_id, *prices)}
        self._check_ids(session, row_id, cast[row_id])
        differs = [f"t.{quoted(name)} {session.differs} {{{name}}}" for name in prices]
        action = "NOTHING"
        if self._output.on_conflict == "update":
            new = {name: f"excluded.{quoted(name)}" for name in prices}
            changes = ", ".join(f"{quoted(name)} = {value}" for name, value in new.items())
            action = f"UPDATE SET {changes} WHERE {_or(differs, new)}"
        session.execute(
            f"INSERT INTO {table} AS t ({', '.join(map(quoted, cast))}) SELECT {', '.join(cast.values())} "
            f"FROM {STAGED} s WHERE true ORDER BY 1 ON CONFLICT ({quoted(row_id)}) DO {action}"
        )
        if self._output.on_conflict == "error":  # afterwards, because others may write, too
            conflicts = session.execute(
                f"SELECT t.{quoted(row_id)} FROM {STAGED} s JOIN {table} t ON t.{quoted(row_id)} = {cast[row_id]} "
                f"WHERE {_or(differs, cast)} LIMIT 1"
            )
            if conflicts:
                raise DataError(
                    f"the table {self._place.name} has another price for the id {str(conflicts[0][0])!r} already. "
                    "Delete it, name another table, or let prices be updated.",
                    parameters=("on_conflict", "out"),
                    id=conflicts[0][0],
                )

    def _check_ids(self, session: Session, row_id: str, cast: str) -> None:
        """Raise DataError unless each id is the same in the type of the table's column."""
        text = session.types[pa.string()]
        changed = session.execute(
            f"SELECT s.{quoted(row_id)} FROM {STAGED} s "
            f"WHERE CAST({cast} AS {text}) {session.differs} CAST(s.{quoted(row_id)} AS {text}) LIMIT 1"
        )
        if changed:
            raise DataError(
                f"the id {str(changed[0][0])!r} would be another one in the column {row_id!r} of the table "
                f"{self._place.name}. Give the column the type of the ids.",
                parameters=("out",),
                column=row_id,
            )


def _or(conditions: Sequence[str], values: dict[str, str]) -> str:
    return " OR ".join(condition.format_map(values) for condition in conditions)


class _PostgresSession:
    """A connection to PostgreSQL with ADBC."""

    differs: ClassVar[str] = "IS DISTINCT FROM"
    types: ClassVar[dict[pa.DataType, str]] = {
        pa.int64(): "bigint",
        pa.string(): "text",
        pa.float64(): "double precision",
        pa.bool_(): "boolean",
    }
    prices: ClassVar[frozenset[str] | None] = frozenset({"double precision", "real", "numeric"})
    _typed = frozenset(
        {
            "bool",
            "int2",
            "int4",
            "int8",
            "float4",
            "float8",
            "text",
            "varchar",
            "name",
            "date",
            "timestamp",
            "timestamptz",
            "_int2",
            "_int4",
            "_int8",
            "_float4",
            "_float8",
        }
    )
    _defaults: ClassVar = {
        "connect_timeout": ("PGCONNECT_TIMEOUT", "10"),
        "application_name": ("PGAPPNAME", "pricekit"),
        "keepalives_idle": ("", "30"),
        "tcp_user_timeout": ("", "60000"),
    }
    """What libpq waits for, which by default is for ever; its variables and the address take precedence."""

    def __init__(self, place: Place, writes: bool) -> None:
        from adbc_driver_postgresql import dbapi

        self._errors = _Errors(place.address, _passes_in_postgresql)
        options = {
            name: value for name, (variable, value) in self._defaults.items() if variable not in os.environ
        } | place.options
        with self._errors.explained(connecting=True):
            self._connection = dbapi.connect(f"{place.address}?{urlencode(options, quote_via=quote)}")
            self._cursor = self._connection.cursor()
        self._staged = False
        if not writes:
            self.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self.execute("SET LOCAL synchronize_seqscans = off")  # the same order of rows each time

    def names(self, place: Place) -> list[str]:
        return list(self._schema(place).names)

    def describe(self, place: Place, names: Sequence[str]) -> list[tuple[pa.Field, str]]:
        schema = self._schema(place)
        return [self._selected(schema.field(name)) for name in names]

    def _schema(self, place: Place) -> pa.Schema:
        with self._errors.explained():
            self._cursor.execute(f"SELECT * FROM {place.rows} LIMIT 0")
            return self._cursor.fetch_record_batch().schema

    def _selected(self, field: pa.Field) -> tuple[pa.Field, str]:
        facts, name = field.metadata or {}, quoted(field.name)
        kind = facts.get(b"POSTGRESQL:type", b"").decode()
        if kind == "numeric":
            decimal = _decimal(int(facts.get(b"POSTGRESQL:typmod", b"-1")))
            return pa.field(field.name, decimal), f"round(nullif({name}, 'NaN'), {decimal.scale})::text"
        if kind == "money":  # ADBC tells neither its unit nor its currency
            decimal = _decimal(-1)
            return pa.field(field.name, decimal), f"round({name}::numeric, {decimal.scale})::text"
        if kind in self._typed:
            return pa.field(field.name, field.type), name
        if kind in ("vector", "halfvec"):  # of pgvector
            return pa.field(field.name, pa.list_(pa.float32())), f"{name}::real[]"
        return pa.field(field.name, pa.string()), f"{name}::text"

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._errors.explained():
            self._cursor.execute(sql)
            reader = self._cursor.fetch_record_batch()
        while True:
            with self._errors.explained():
                batch = next(reader, None)
            if batch is None:
                return
            yield pa.RecordBatch.from_arrays(
                [_typed(cells, field) for cells, field in zip(batch.columns, schema, strict=True)],
                schema=schema,
            )

    def columns(self, place: Place) -> dict[str, str]:
        return dict(
            self.execute(
                "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
                f"WHERE attrelid = {self._relation(place)} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            )
        )

    def identifies(self, place: Place, column: str) -> bool:
        (found,) = self.execute(
            "SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            f"WHERE i.indrelid = {self._relation(place)} AND i.indisunique AND i.indimmediate AND i.indisvalid "
            f"AND i.indnkeyatts = 1 AND i.indpred IS NULL AND a.attname = {_literal(column)}"
        )
        return bool(found[0])

    def _relation(self, place: Place) -> str:
        return f"to_regclass({_literal(quoted(*place.table))})"

    def stage(self, rows: pa.Table) -> None:
        if not self._staged:
            columns = [f"{quoted(field.name)} {self.types[field.type]}" for field in rows.schema]
            self.execute(f"CREATE TEMP TABLE {STAGED} ({', '.join(columns)}) ON COMMIT DELETE ROWS")
            self._staged = True
        with self._errors.explained():
            self._cursor.adbc_ingest(STAGED, rows, mode="append", temporary=True)
        self.execute(f"ANALYZE {STAGED}")  # otherwise joins with it are planned for a few rows

    def execute(self, sql: str) -> list[Any]:
        with self._errors.explained():
            self._cursor.execute(sql)
            return self._cursor.fetchall() if self._cursor.description else []

    def commit(self) -> None:
        with self._errors.explained():
            self._connection.commit()

    def close(self) -> None:
        with self._errors.explained():
            self._cursor.close()
            self._connection.close()


def _passes_in_postgresql(error: Exception, message: str, connecting: bool) -> bool:
    state = getattr(error, "sqlstate", None) or ""
    if connecting and any(words in message for words in _FINAL):
        return False
    # An error in the middle of the rows has no SQLSTATE, either.
    lost = (
        not state
        and "ERROR:" not in str(error)
        and ("libpq" in str(error) or "connection" in message.lower())
    )
    created = "pg_type_typname_nsp_index" in message  # another connection has just created the table
    return lost or created or state in _PASSES or (state[:2] in ("08", "57") and state != "57014")


_PASSES = frozenset({"40001", "40P01", "53300", "55P03", "55006"})
"""SQLSTATE of a conflict of transactions, a deadlock, too many connections, and of what others use."""

_FINAL = (
    "authentication",
    "does not exist",
    "no password",
    "pg_hba",
    "could not translate host name",
    "invalid",
    "permission denied",
)
"""What the messages of libpq about a connection contain if it will fail again; they have no SQLSTATE."""


def _typed(cells: pa.Array, field: pa.Field) -> pa.Array:
    """Return cells with the type of a column: decimals arrive as texts; raises DataError."""
    try:
        return cells.cast(field.type)
    except pa.ArrowException as error:
        raise DataError(
            f"the column {field.name!r} cannot be read as {field.type}: {shorten(str(error), 200)}. Select it as text: "
            f"{quoted(field.name)}::text.",
            parameters=("table",),
            column=field.name,
        ) from None


def _decimal(modifier: int) -> pa.DataType:
    """Return the type of a column `numeric` as it was declared; with nine decimals if it has no limits."""
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    return (
        pa.decimal128(precision, scale)
        if modifier >= 4 and scale <= precision <= 38
        else pa.decimal128(38, 9)
    )


class _SqliteSession:
    """A connection to SQLite with Python's own module: ADBC's would take a column's type from its first values."""

    differs: ClassVar[str] = "IS NOT"
    types: ClassVar[dict[pa.DataType, str]] = {
        pa.int64(): "INTEGER",
        pa.string(): "TEXT",
        pa.float64(): "REAL",
        pa.bool_(): "BOOLEAN",
    }
    prices: ClassVar[frozenset[str] | None] = None  # the type of a column is only advice
    _kinds = ("integer", "real", "text", "blob")

    def __init__(self, place: Place, writes: bool) -> None:
        import sqlite3

        self._errors = _Errors(place.address, _passes_in_sqlite)
        file = _existing(place, writes)
        mode = "rwc" if writes else "ro"
        with self._errors.explained():
            self._connection = sqlite3.connect(
                f"{file.absolute().as_uri()}?mode={mode}", uri=True, timeout=30, isolation_level=None
            )
            self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    def names(self, place: Place) -> list[str]:
        with self._errors.explained():
            cursor = self._connection.execute(f"SELECT * FROM {place.rows} LIMIT 0")
        return [column[0] for column in cursor.description]

    def describe(self, place: Place, names: Sequence[str]) -> list[tuple[pa.Field, str]]:
        # Each value has a type of its own, so all values of a column decide.
        counts = ", ".join(
            f"max(typeof({quoted(name)}) = '{kind}')" for name in names for kind in self._kinds
        )
        (values,) = self.execute(f"SELECT {counts} FROM {place.rows}")
        size = len(self._kinds)
        return [
            _sqlite_column(name, *map(bool, values[start : start + size]))
            for name, start in zip(names, range(0, len(values), size), strict=True)
        ]

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._errors.explained():
            cursor = self._connection.execute(sql)
        while True:
            with self._errors.explained():
                rows = cursor.fetchmany(ROWS)
            if not rows:
                return
            columns = zip(*rows, strict=True)
            arrays = [pa.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def columns(self, place: Place) -> dict[str, str]:
        rows = self.execute(f"PRAGMA {self._pragma(place)}table_info({quoted(place.table[-1])})")
        return {name: kind for _, name, kind, *_ in rows}

    def identifies(self, place: Place, column: str) -> bool:
        start, table = self._pragma(place), quoted(place.table[-1])
        keys = [row[1] for row in self.execute(f"PRAGMA {start}table_info({table})") if row[5]]
        if keys == [column]:
            return True
        for _, name, unique, _, partial in self.execute(f"PRAGMA {start}index_list({table})"):
            indexed = [row[2] for row in self.execute(f"PRAGMA {start}index_info({quoted(name)})")]
            if unique and not partial and indexed == [column]:
                return True
        return False

    def _pragma(self, place: Place) -> str:
        return "".join(f"{quoted(part)}." for part in place.table[:-1])

    def stage(self, rows: pa.Table) -> None:
        names = ", ".join(map(quoted, rows.column_names))
        marks = ", ".join("?" * rows.num_columns)
        with self._errors.explained():
            self._connection.execute(f"DROP TABLE IF EXISTS temp.{STAGED}")
            self._connection.execute(f"CREATE TEMP TABLE {STAGED} ({names})")
            cells = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            self._connection.executemany(f"INSERT INTO {STAGED} VALUES ({marks})", cells)

    def execute(self, sql: str) -> list[Any]:
        with self._errors.explained():
            return self._connection.execute(sql).fetchall()

    def commit(self) -> None:
        self.execute("COMMIT")
        self.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        with self._errors.explained():
            self._connection.close()


def _passes_in_sqlite(error: Exception, message: str, connecting: bool) -> bool:
    return "locked" in message or "busy" in message


def _sqlite_column(name: str, whole: bool, real: bool, text: bool, blob: bool) -> tuple[pa.Field, str]:
    """Return the type that holds all values of a column, which are of these kinds, and what selects it."""
    if blob and not (whole or real or text):
        return pa.field(name, pa.binary()), quoted(name)
    if text or blob or not (whole or real):
        return pa.field(name, pa.string()), f"CAST({quoted(name)} AS TEXT)"
    return (
        (pa.field(name, pa.float64()), f"CAST({quoted(name)} AS REAL)")
        if real
        else (pa.field(name, pa.int64()), quoted(name))
    )


class _DuckdbSession:
    """A connection to DuckDB."""

    differs: ClassVar[str] = "IS DISTINCT FROM"
    types: ClassVar[dict[pa.DataType, str]] = {
        pa.int64(): "BIGINT",
        pa.string(): "VARCHAR",
        pa.float64(): "DOUBLE",
        pa.bool_(): "BOOLEAN",
    }
    prices: ClassVar[frozenset[str] | None] = frozenset({"double", "float", "decimal"})

    def __init__(self, place: Place, writes: bool) -> None:
        import duckdb

        self._errors = _Errors(place.address, _passes_in_duckdb)
        file = _existing(place, writes)
        with self._errors.explained(connecting=True):
            self._connection = duckdb.connect(str(file), read_only=not writes)
            self._connection.begin()

    def names(self, place: Place) -> list[str]:
        return list(self._schema(place).names)

    def describe(self, place: Place, names: Sequence[str]) -> list[tuple[pa.Field, str]]:
        schema = self._schema(place)
        return [(schema.field(name), quoted(name)) for name in names]

    def _schema(self, place: Place) -> pa.Schema:
        with self._errors.explained():
            relation = self._connection.sql(f"SELECT * FROM {place.rows} LIMIT 0")
            return relation.to_arrow_reader(ROWS).schema

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._errors.explained():
            reader = self._connection.sql(sql).to_arrow_reader(ROWS)
        while True:
            with self._errors.explained():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch.cast(schema)

    def columns(self, place: Place) -> dict[str, str]:
        return dict(
            self.execute(f"SELECT column_name, data_type FROM duckdb_columns() WHERE {self._is(place)}")
        )

    def identifies(self, place: Place, column: str) -> bool:
        rows = self.execute(
            f"SELECT constraint_column_names FROM duckdb_constraints() WHERE {self._is(place)} "
            "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"
        )
        return [column] in [list(names) for (names,) in rows]

    @staticmethod
    def _is(place: Place) -> str:
        *schema, table = place.table
        where = f"schema_name = {_literal(schema[-1])}" if schema else "schema_name = current_schema()"
        return f"{where} AND database_name = current_database() AND table_name = {_literal(table)}"

    def stage(self, rows: pa.Table) -> None:
        with self._errors.explained():
            self._connection.register(STAGED, rows)

    def execute(self, sql: str) -> list[Any]:
        with self._errors.explained():
            return list(self._connection.execute(sql).fetchall())

    def commit(self) -> None:
        with self._errors.explained():
            self._connection.commit()
            self._connection.begin()

    def close(self) -> None:
        with self._errors.explained():
            self._connection.close()


def _passes_in_duckdb(error: Exception, message: str, connecting: bool) -> bool:
    return type(error).__name__ == "TransactionException"


def _existing(place: Place, writes: bool) -> Path:
    """Return the file of a database, which exists unless it is to be written; raises DataError."""
    file = place.file
    if writes and file.parent.is_dir() and not file.is_dir():
        return file
    if not file.is_file():
        raise DataError(
            f"there is no file {file}. Check the address: its path is relative after three slashes, and absolute after "
            "four.",
            parameters=("table",),
            path=str(file),
        )
    return file


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class _Errors:
    """Turns errors of a database into those of pricekit.

    Attributes:
        address: of the database.
        passes: returns whether an error, with its message, may pass; the last argument: while connecting.
    """

    address: str
    passes: Callable[[Exception, str, bool], bool]

    @contextmanager
    def explained(self, connecting: bool = False) -> Iterator[None]:
        """Explain the errors of the block; raises ConnectionError for one that may pass, and DataError."""
        try:
            yield
        except (PricekitError, ConnectionError, MemoryError):
            raise
        except Exception as error:
            message = _sentence(error)
            if self.passes(error, message, connecting):
                raise ConnectionError(message) from error
            raise DataError(f"{self.address}: {message}", parameters=("table",)) from error


def _sentence(error: Exception) -> str:
    """Return the message of a database on one line, without its kind and without the query."""
    message = re.split(r"\n+(?:LINE \d|CONTEXT:)|Query was:|SQLSTATE:", str(error))[0].strip()
    message = " ".join(re.sub(r"\s*\n\s*(?=[A-Z])", ". ", message).split())
    message = re.sub(r"^.*?\b(?:ERROR|FATAL): |^(?:[\w ]+ Error: |[A-Z_]+: )?(?:\[\w+\] )?", "", message)
    message = shorten(message, 300).rstrip(". ")
    return message if message.endswith("?") else f"{message}."


class Postgresql(Database):
    """PostgreSQL, as of libpq: its variables, `~/.pgpass` and the parameters of the address say how to connect."""

    connect = _PostgresSession


class _InFile(Database):
    """A database in a file, which is created with the first rows."""

    def check(self, output: Output) -> None:
        """Check an existing table, or that a file can be created."""
        if _existing(Place.of(output.address, writes=True), True).exists():
            super().check(output)


class Sqlite(_InFile):
    """A file of SQLite."""

    connect = _SqliteSession

    def scratch(self, folder: Path) -> str:
        """Return the address of a table in a new file."""
        return f"sqlite:///{folder.absolute()}/scratch.db?table=scratch"


class Duckdb(_InFile):
    """A file of DuckDB."""

    connect = _DuckdbSession

    def scratch(self, folder: Path) -> str:
        """Return the address of a table in a new file."""
        return f"duckdb:///{folder.absolute()}/scratch.duckdb?table=scratch"
