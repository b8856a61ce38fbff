"""The source `iceberg`: tables of Apache Iceberg in the catalogues that pyiceberg knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Table, Transaction
from pyiceberg.table.snapshots import ancestors_of

from pricekit.plugin import ConfigError, DataError, did_you_mean, parameters_of_address, shorten
from pricekit_lake.upsert import JOB, ROWS, Changes, Tables, errors, only, with_all_columns

MAIN = "main"

_CHUNK = 1 << 20
"""New rows that are in memory together, for a table with partitions."""


@dataclass(frozen=True)
class Place:
    """What an address says.

    Attributes:
        address: without its parameters.
        catalogue: its name for pyiceberg.
        table: namespace and name.
        options: at most one of branch, tag and snapshot.
    """

    address: str
    catalogue: str
    table: tuple[str, ...]
    options: dict[str, str]

    @classmethod
    def of(cls, address: str) -> Place:
        """Read an address; raises ConfigError."""
        start, options = parameters_of_address(address)
        only(options, ["branch", "tag", "snapshot"], start)
        catalogue, _, name = unquote(start.partition("://")[2]).partition("/")
        table = tuple(name.split("."))
        if not catalogue or len(table) < 2 or "" in table or "/" in name:
            raise ConfigError(
                f"the address {start} names no table; expected a catalogue, a namespace and a name, such as "
                "iceberg://shop/sales.prices",
                parameters=("table",),
            )
        return cls(start, catalogue, table, options)

    @property
    def branch(self) -> str:
        """The branch to write."""
        return self.options.get("branch", MAIN)


@dataclass(frozen=True)
class IcebergVersion:
    """A snapshot of a table of Iceberg; without files if the table has none yet."""

    table: Table
    place: Place
    snapshot: int | None
    _ends: list[int] = field(default_factory=list)
    """The number of rows up to the end of each file, once all were read."""

    @cached_property
    def _scan(self) -> DataScan:
        return self.table.scan(snapshot_id=self.snapshot)

    @cached_property
    def _fields(self) -> Schema:
        old = not self.place.options.keys().isdisjoint(["tag", "snapshot"])
        return self._scan.projection() if old else self.table.schema()

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns."""
        return schema_to_pyarrow(self._fields, include_field_ids=False)

    @cached_property
    def _files(self) -> list[FileScanTask]:
        return sorted(self._scan.plan_files(), key=lambda task: task.file.file_path)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, file by file."""
        rows = 0
        self._ends.clear()
        for file in self._files:
            for batch in self._rows(file, columns):
                yield batch
                rows += len(batch)
            self._ends.append(rows)

    def _rows(self, file: FileScanTask, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that are not deleted."""
        fields = self._fields.select(*columns)
        scan = ArrowScan(self.table.metadata, self.table.io, fields, AlwaysTrue())
        schema = pa.schema([self.schema.field(name).with_nullable(True) for name in columns])
        for batch in scan.to_record_batches([file]):
            yield batch.select(list(columns)).cast(schema)

    def committed(self, job: str) -> str:
        """Return the snapshot that a job committed, among those on which this one builds."""
        last = None if self.snapshot is None else self.table.snapshot_by_id(self.snapshot)
        for snapshot in ancestors_of(last, self.table.metadata):
            if snapshot.summary is not None and snapshot.summary[JOB] == job:
                return f"snapshot {snapshot.snapshot_id}"
        return ""

    def commit(self, changes: Changes, job: str) -> None:
        """Publish a snapshot in which files with other prices are replaced, and files with new rows are added."""
        # Otherwise pyiceberg would add these rows to those of a commit that it has not compared them with.
        self.table.metadata.properties["commit.retry.num-retries"] = "0"
        transaction = self.table.transaction()
        update = transaction.update_snapshot(snapshot_properties={JOB: job}, branch=self.place.branch)
        with update.overwrite() if changes.updated else update.fast_append() as snapshot:
            if changes.updated:
                for file, first, end in zip(self._files, [0, *self._ends], self._ends, strict=False):
                    numbers, values = changes.between(first, end)
                    if len(numbers):
                        replaced = self._with_values(file, numbers - first, values)
                        snapshot.delete_data_file(file.file)
                        for data_file in _files_of(transaction, replaced, self.schema, whole=True):
                            snapshot.append_data_file(data_file)
            rows = (with_all_columns(batch, self.schema) for batch in changes.rows("inserted"))
            for data_file in _files_of(transaction, rows, self.schema):
                snapshot.append_data_file(data_file)
        transaction.commit_transaction()

    def _with_values(
        self, file: FileScanTask, numbers: np.ndarray, values: pa.Table
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, of which those with some numbers, in order, get new values."""
        first = 0
        for batch in self._rows(file, self.schema.names):
            start, end = np.searchsorted(numbers, [first, first + len(batch)])
            mask = np.zeros(len(batch), bool)
            mask[numbers[start:end] - first] = True
            new = values.slice(start, end - start)
            columns = [
                pc.replace_with_mask(cells, pa.array(mask), new[name].combine_chunks())
                if name in new.column_names
                else cells
                for name, cells in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
            first += len(batch)


def _files_of(
    transaction: Transaction, batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, whole: bool = False
) -> Iterator[DataFile]:
    """Write rows to data files, and yield these; as a stream, unless the table has partitions.

    Args:
        transaction: of the table.
        batches: the rows.
        schema: their columns.
        whole: keep the rows of a table with partitions together.
    """
    metadata, io = transaction.table_metadata, transaction._table.io
    if metadata.spec().is_unpartitioned():
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        yield from _dataframe_to_data_files(metadata, reader, io)
        return
    while chunk := list(batches if whole else islice(batches, _CHUNK // ROWS)):
        yield from _dataframe_to_data_files(metadata, pa.Table.from_batches(chunk), io)


class Iceberg(Tables):
    """Tables of Apache Iceberg, in catalogues of which `~/.pyiceberg.yaml` or the environment tells."""

    def load(self, address: str, parameter: str) -> IcebergVersion | None:
        """Return the snapshot of a table that an address names."""
        place = Place.of(address)
        with errors(address, parameter), _catalogue(place) as catalogue:
            try:
                table = catalogue.load_table(place.table)
            except (NoSuchTableError, NoSuchNamespaceError):
                if place.branch == MAIN:
                    return None
                raise DataError(
                    f"there is no table {place.address}, and so no branch of it. Create it, or check the address.",
                    parameters=(parameter,),
                ) from None
        kind, name = next(iter(place.options.items()), ("branch", MAIN))
        if kind == "snapshot":
            known = {str(snapshot.snapshot_id): snapshot.snapshot_id for snapshot in table.snapshots()}
        else:
            known = {
                key: ref.snapshot_id for key, ref in table.refs().items() if ref.snapshot_ref_type == kind
            }
        if name not in known and (kind, name) != ("branch", MAIN):
            raise DataError(
                f"the table {place.address} has no {kind} {shorten(name)!r}; there are: "
                f"{shorten(', '.join(reversed(known)), 100) or 'none'}.{did_you_mean(name, known)}",
                parameters=(parameter,),
            )
        return IcebergVersion(table, place, known.get(name))

    def create(self, address: str, changes: Changes, job: str) -> None:
        """Create a table with a snapshot of the rows."""
        place = Place.of(address)
        with _catalogue(place) as catalogue:
            transaction = catalogue.create_table_transaction(place.table, changes.schema)
            transaction.append(changes.rows("all"), snapshot_properties={JOB: job})
            transaction.commit_transaction()

    def check_place(self, address: str) -> None:
        """Check that a branch is written, and that there is a namespace."""
        place = Place.of(address)
        for kind in ("tag", "snapshot"):
            if kind in place.options:
                raise ConfigError(
                    f"the address {address} names a {kind}, but prices go into a branch; leave it out",
                    parameters=("out",),
                )
        with errors(address, "out"), _catalogue(place) as catalogue:
            if not catalogue.namespace_exists(place.table[:-1]):
                raise DataError(
                    f"the catalogue {place.catalogue} has no namespace {'.'.join(place.table[:-1])!r}. Create it, or "
                    "check the address.",
                    parameters=("out",),
                )


@contextmanager
def _catalogue(place: Place) -> Iterator[Catalog]:
    known = list_catalogs()
    if place.catalogue.lower() not in [name.lower() for name in known]:
        raise ConfigError(
            f"there is no catalogue {place.catalogue!r}; pyiceberg knows: {', '.join(known) or 'none'}."
            f"{did_you_mean(place.catalogue, known)} Add it to ~/.pyiceberg.yaml, or set "
            f"PYICEBERG_CATALOG__{place.catalogue.upper()}__URI.",
            parameters=("table",),
        )
    catalogue = load_catalog(place.catalogue)
    try:
        yield catalogue
    finally:
        catalogue.close()
