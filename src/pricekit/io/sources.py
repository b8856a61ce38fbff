"""Tables that are no files, such as those of a database: plugins of the kind `source`, named like a scheme.

A table is read into a local file in one pass, so that all its rows are of one moment, and nothing waits for the work
that follows. Rows are written in batches. What may pass, such as a lost connection, is tried again here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, unquote

from pricekit.errors import ConfigError, DataError
from pricekit.io.causes import named_in_errors
from pricekit.io.files import write_atomically
from pricekit.io.log import logger
from pricekit.wording import counted, scheme_of, shorten

if TYPE_CHECKING:
    import pyarrow as pa

OnConflict = Literal["update", "error"]
"""What happens to a row whose id has another price already: it gets the new one, or nothing is written."""

ATTEMPTS, PAUSE_SECONDS = 8, 0.25
"""How often a failed connection is tried again, and the pause before the second attempt, which doubles each time: half
a minute in all, in which a server can restart."""

_ROW_GROUP_BYTES = 8 << 20
_SECRETS = ("password", "passwd", "secret", "token", "access_key")
"""Parts of the names of parameters that hold credentials."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Output:
    """A table to write.

    Attributes:
        address: of the table.
        schema: the id, a whole number or a text, then prices, float64, and answers, bool.
        on_conflict: what happens if an id has another price already.
        job: a name that only a repetition of the same work has, too: 64 hexadecimal digits.
    """

    address: str
    schema: pa.Schema
    on_conflict: OnConflict = "update"
    job: str = ""


class Sink(Protocol):
    """What writes rows."""

    def write(self, rows: pa.Table) -> None:
        """Write rows of the output's schema, all or none of them.

        Raises:
            ConnectionError: it may succeed later. It is then called again with the same rows, of which each must be
                written once, also if the first call did write them.
            DataError: the rows cannot be written.
        """


class Source:
    """Reads and writes the tables at the addresses that begin with its name, such as `sqlite://`; imports no torch.

    It is created as `Plugin()`: an address says all, except for credentials, which come from the environment or from
    files of the user. Neither an error nor a log contains them. An address with a password never reaches a plugin.

    Example:
        >>> import pyarrow as pa
        >>> from contextlib import contextmanager
        >>> from pricekit import plugin
        >>> class Two(plugin.Source):
        ...     @contextmanager
        ...     def read(self, address, columns=None, limit=None):
        ...         rows = pa.table({"title": ["Green tea", "Plum jam"]})
        ...         yield rows.slice(0, limit).to_reader()
        >>> with Two().read("two://shop") as stream:
        ...     stream.read_all().num_rows
        2
    """

    def read(
        self, address: str, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> AbstractContextManager[pa.RecordBatchReader]:
        """Open a table, and yield a stream of its rows in batches of bounded size; all are of one moment.

        Numbers, texts, times and lists keep their types. Types that Arrow lacks become text; decimals stay decimals.

        Args:
            address: of the table.
            columns: those to read, in this order; None: all.
            limit: at most so many rows; 0 for the columns alone; None: all.

        Raises:
            ConnectionError: it may succeed later.
            DataError: there is no such table, or it cannot be read.
            ConfigError: the address lacks something.
        """
        raise NotImplementedError

    def column_names(self, address: str) -> list[str]:
        """Return the names of the columns of a table; raises the errors of `read`."""
        with self.read(address, limit=0) as stream:
            return list(stream.schema.names)

    def check(self, output: Output) -> None:
        """Check that rows of a schema can be written, without writing; raises the errors of `write`."""
        with self.write(output):
            pass

    def write(self, output: Output) -> AbstractContextManager[Sink]:
        """Yield what writes rows; whatever must be published as a whole is published when the block ends well.

        A table that is missing is created by the first rows. In an existing one, columns that are not written keep
        their values. A row whose values are there already is not written again.

        Raises:
            ConnectionError: it may succeed later.
            DataError: the table lacks a column, or has other types.
            ConfigError: the address lacks something, or this source only reads.
        """
        raise ConfigError(f"{output.address} can only be read", parameters=("out",))

    def scratch(self, folder: Path) -> str | None:
        """Return the address of a new table in a folder, for checks; None if a server is needed."""
        return None


_lookup: Callable[[str, str], Source] | None = None


def offer(lookup: Callable[[str, str], Source]) -> None:
    """Say what returns the source of a scheme, which a parameter names; it raises ConfigError for an unknown one."""
    global _lookup
    _lookup = lookup


def source_of(address: str, parameter: str = "table") -> Source:
    """Return the source that reads and writes an address, which a parameter names; raises ConfigError."""
    assert _lookup is not None
    return _lookup(scheme_of(address).partition("+")[0], parameter)


def parameters_of_address(address: str) -> tuple[str, dict[str, str]]:
    """Return an address without its parameters, and these.

    Raises:
        ConfigError: a parameter occurs twice.

    Example:
        >>> parameters_of_address("sqlite:///shop.db?table=products")
        ('sqlite:///shop.db', {'table': 'products'})
    """
    place, _, query = address.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"{place} has the parameter {shorten(twice)!r} twice; name it once", parameters=("table",)
        )
    return place, values


def shown_address(address: str) -> str:
    """Return an address as messages show it: readable, and not too long.

    Example:
        >>> shown_address("sqlite:///shop.db?query=SELECT%20title%20FROM%20products")
        'sqlite:///shop.db?query=SELECT title FROM products'
    """
    return shorten(unquote(address), 100)


def with_query(address: str, sql: str) -> str:
    """Return the address of a database with a query; raises ConfigError if it names a table or a query."""
    place, values = parameters_of_address(address)
    if named := [name for name in ("table", "query") if name in values]:
        raise ConfigError(
            f"{place} names a {named[0]}, and a file with a query is given, too; leave one of them out",
            parameters=("sql",),
        )
    return f"{address}{'&' if values else '?'}query={quote(sql, safe='')}"


def refuse_credentials(address: str, parameter: str) -> None:
    """Raise ConfigError, which does not show them, if an address contains credentials; local paths pass."""
    if not scheme_of(address):
        return
    place, values = parameters_of_address(address)
    scheme, _, rest = place.partition("://")
    user, at, server = rest.partition("/")[0].rpartition("@")
    secret = ":" in unquote(user) if at else False
    if not secret and not any(part in name.lower() for name in values for part in _SECRETS):
        return
    shown = f"{scheme}://{user.partition(':')[0]}@{server}" if at else f"{scheme}://{server}"
    raise ConfigError(
        f"the address {shown}… contains a password, which others could read in lists of processes; leave it out, and "
        "put it into the environment or a file of yours, such as PGPASSWORD or ~/.pgpass",
        parameters=(parameter,),
    )


def retried(attempt: Callable[[], Result], what: str, attempts: int = ATTEMPTS) -> Result:
    """Return what `attempt` returns; call it again after a ConnectionError.

    Raises:
        DataError: it failed so often.
    """
    for number in range(1, attempts + 1):
        try:
            return attempt()
        except ConnectionError as error:
            if number == attempts:
                raise DataError(f"{what}: {_sentence(error)} Try again later.") from error
            pause = PAUSE_SECONDS * 2 ** (number - 1)
            logger.debug(f"{what}: {_sentence(error)} Attempt {number + 1} in {pause:.2f} s")
            time.sleep(pause)
    raise AssertionError


def _sentence(error: Exception) -> str:
    return shorten(str(error) or type(error).__name__, 300).rstrip(".?") + "."


def copy_table(
    address: str, path: Path, wanted: frozenset[str] | None = None, limit: int | None = None
) -> None:
    """Write the rows of a table to a Parquet file, in bounded memory; the file appears when it is complete.

    Args:
        address: of the table.
        path: the file.
        wanted: the columns to copy, unless one of them is missing, so that an error can list all; None: all.
        limit: at most so many rows.

    Raises:
        DataError: the table cannot be read.
        ConfigError: the address lacks something.
        OSError: the disk is full.
    """
    source, what = source_of(address), f"{shown_address(address)} cannot be read"
    # A server that did not answer before is not waited for.
    present = retried(lambda: source.column_names(address), what, attempts=1)
    all_there = wanted is not None and wanted <= set(present) and len(present) == len(set(present))
    columns = [name for name in present if wanted and name in wanted] if all_there else None

    def copy() -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = 0
        with (
            write_atomically(path) as temporary,
            named_in_errors(path, temporary),
            source.read(address, columns, limit) as stream,
            # The sizes of plain cells are known before they are read.
            pq.ParquetWriter(temporary, stream.schema, use_dictionary=False, compression="lz4") as file,
        ):
            for batch in stream:
                step = max(1, _ROW_GROUP_BYTES * len(batch) // max(1, batch.nbytes))
                for start in range(0, len(batch), step):
                    file.write_table(pa.Table.from_batches([batch.slice(start, step)]))
                rows += len(batch)
        logger.debug(f"{shown_address(address)}: {counted(rows, 'row')} copied to {path}")

    retried(copy, what)


@contextmanager
def opened_sink(output: Output) -> Iterator[Sink]:
    """Yield what writes rows into a table, and tries again what may pass; raises DataError and ConfigError."""
    what = f"{shown_address(output.address)} cannot be written"
    with _about_output():
        source = source_of(output.address)
        try:
            with ExitStack() as stack:
                sink = retried(lambda: stack.enter_context(source.write(output)), what)
                yield _Retrying(sink, what)
        except ConnectionError as error:
            raise DataError(f"{what}: {_sentence(error)} Try again later.") from error


def check_sink(output: Output) -> None:
    """Check that rows can be written into a table, before they are computed; raises DataError and ConfigError."""
    what = f"{shown_address(output.address)} cannot be written"
    with _about_output():
        retried(lambda: source_of(output.address).check(output), what, attempts=1)


@contextmanager
def _about_output() -> Iterator[None]:
    """Let errors name the output, whatever address a source thinks that it reads."""
    try:
        yield
    except (ConfigError, DataError) as error:
        if set(error.parameters) <= {"table", "sql"}:
            error.parameters = ("out",)
        raise


@dataclass
class _Retrying:
    sink: Sink
    what: str

    def write(self, rows: pa.Table) -> None:
        retried(lambda: self.sink.write(rows), self.what)
