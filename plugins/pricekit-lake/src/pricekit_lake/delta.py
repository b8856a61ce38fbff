"""The source `delta`: tables of Delta Lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake

from pricekit.plugin import ConfigError, DataError, parameters_of_address
from pricekit_lake.upsert import JOB, Changes, Tables, errors, only, with_all_columns

STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""What may follow `delta+`."""


@dataclass(frozen=True)
class Place:
    """What an address says.

    Attributes:
        uri: of the table, as Delta Lake expects it.
        folder: that of a local table; None for a store.
        version: the number of a version; None: the last one.
    """

    uri: str
    folder: Path | None
    version: int | None

    @classmethod
    def of(cls, address: str) -> Place:
        """Read an address; raises ConfigError."""
        start, options = parameters_of_address(address)
        only(options, ["version"], start)
        number = options.get("version")
        if number is not None and not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise ConfigError(
                f"the address {start} names the version {number!r}; expected a whole number, such as 3",
                parameters=("table",),
            )
        version = None if number is None else int(number)
        scheme, _, rest = start.partition("://")
        store = scheme.partition("+")[2]
        if store:
            if store not in STORES:
                raise ConfigError(
                    f"the address {start} names the store {store!r}; expected one of {', '.join(STORES)}",
                    parameters=("table",),
                )
            return cls(f"{store}://{rest}", None, version)
        server, _, path = rest.partition("/")
        if server or not path:
            raise ConfigError(
                f"the address {start} names no folder; expected one such as delta:///prices, or delta:////data/prices "
                "for an absolute path, or delta+s3://bucket/prices",
                parameters=("table",),
            )
        folder = Path(unquote(path))
        return cls(str(folder.absolute()), folder, version)


@dataclass(frozen=True)
class DeltaVersion:
    """A version of a table of Delta Lake."""

    table: DeltaTable

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns."""
        return pa.schema(self.table.schema().to_arrow())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows."""
        names = ", ".join(map(_quoted, columns))
        schema = pa.schema([self.schema.field(name).with_nullable(True) for name in columns])
        engine = QueryBuilder().register("rows", self.table)
        # Otherwise the order of the files depends on chance.
        engine.execute("SET datafusion.execution.target_partitions = 1")
        for batch in pa.RecordBatchReader.from_stream(engine.execute(f"SELECT {names} FROM rows")):
            yield batch.cast(schema)

    def committed(self, job: str) -> str:
        """Return the version that a job committed, unless a later one restored an earlier state."""
        number = self.table.transaction_version(_application(job))
        if number is None:
            return ""
        later = self.table.history(self.table.version() - number)
        return "" if any(commit.get("operation") == "RESTORE" for commit in later) else f"version {number}"

    def commit(self, changes: Changes, job: str) -> None:
        """Publish rows: by adding files if all are new, otherwise by a merge."""
        properties = _properties(job, self.table.version() + 1)
        if not changes.updated:
            added = changes.rows("inserted")
            rows = (with_all_columns(batch, self.schema) for batch in added)
            reader = pa.RecordBatchReader.from_batches(self.schema, rows)
            write_deltalake(self.table, reader, mode="append", commit_properties=properties)
            return
        row_id, *prices = map(_quoted, changes.schema.names)
        merger = self.table.merge(
            changes.rows("all"),
            f"t.{row_id} = s.{row_id}",
            source_alias="s",
            target_alias="t",
            commit_properties=properties,
        )
        new = {name: f"s.{name}" for name in (row_id, *prices)}
        merger = merger.when_matched_update({name: new[name] for name in prices})
        merger.when_not_matched_insert(new).execute()


class Delta(Tables):
    """Tables of Delta Lake, in a local folder, or in a store, whose credentials the environment holds."""

    def load(self, address: str, parameter: str) -> DeltaVersion | None:
        """Return a version of a table."""
        place = Place.of(address)
        with errors(address, parameter):
            if not DeltaTable.is_deltatable(place.uri):
                return None
            table = DeltaTable(place.uri)
            if place.version is not None:
                if place.version > table.version():
                    raise DataError(
                        f"{address}: there is no version {place.version}; the last one is {table.version()}.",
                        parameters=(parameter,),
                    )
                table.load_as_version(place.version)
            return DeltaVersion(table)

    def create(self, address: str, changes: Changes, job: str) -> None:
        """Create a table whose version 0 has the rows."""
        properties = _properties(job, 0)
        write_deltalake(
            Place.of(address).uri, changes.rows("all"), mode="error", commit_properties=properties
        )

    def check_place(self, address: str) -> None:
        """Check that no version is named, and that a new local table would have a folder of its own."""
        place = Place.of(address)
        if place.version is not None:
            raise ConfigError(
                f"the address {address} names a version, but prices become a new one; leave it out",
                parameters=("out",),
            )
        folder = place.folder
        if folder is None:
            return
        if not folder.absolute().parent.is_dir():
            problem = f"there is no folder {folder.absolute().parent}. Create it, or check the address."
        elif folder.exists() and not folder.is_dir():
            problem = f"{folder} is a file. Name the folder of a table, or a new one."
        else:
            return
        raise DataError(problem, parameters=("out",), path=str(folder))

    def scratch(self, folder: Path) -> str:
        """Return the address of a table in a new folder."""
        return f"delta:///{quote(str(folder.absolute()))}/scratch"


def _quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _application(job: str) -> str:
    return f"{JOB}:{job}"


def _properties(job: str, version: int) -> CommitProperties:
    """Return what a commit remembers: the job, and the version that it becomes, or none if another one was faster."""
    transaction = Transaction(_application(job), version)
    return CommitProperties(custom_metadata={JOB: job}, max_commit_retries=0, app_transactions=[transaction])
