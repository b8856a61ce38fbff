"""Prices of Arrow batches, in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pricekit.plugin.runners import WINDOW, Job, table_of
from pricekit_spark.parcel import Parcel

HELD_BYTES = 256 * 2**20
"""Bytes of rows, with all their columns, that a worker collects at most before it prices them."""


@dataclass(frozen=True)
class PriceRows:
    """Adds prices to the batches of a partition.

    Attributes:
        parcel: the job.
    """

    parcel: Parcel

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their prices, in order, in batches that are no larger than those that arrive."""
        job: Job | None = None  # an empty partition needs none
        for window in windows(batches):
            job = job or self.parcel()
            model = job.model()
            rows = table_of(pa.Table.from_batches(window), model.columns)
            columns = model.price_columns(rows, job.uncertainty)
            yield from _with_columns(window, list(columns), [pa.array(values) for values in columns.values()])


def windows(
    batches: Iterable[pa.RecordBatch], rows: int = WINDOW, size: int = HELD_BYTES
) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches that have `rows` rows together, fewer at the end or from `size` bytes on.

    Larger batches are cut, because the last bits of a price depend on the rows that are priced with it. So they do not
    depend on the size of Spark's batches.
    """
    held: list[pa.RecordBatch] = []
    count = size_held = 0
    for batch in batches:
        while batch.num_rows:
            some = batch.slice(0, rows - count)
            batch = batch.slice(some.num_rows)
            held.append(some)
            count, size_held = count + some.num_rows, size_held + some.nbytes
            if count == rows or size_held >= size:
                yield held
                held, count, size_held = [], 0, 0
    if held:
        yield held


def _with_columns(
    window: Sequence[pa.RecordBatch], names: Sequence[str], columns: Sequence[pa.Array]
) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in window:
        for name, column in zip(names, columns, strict=True):
            batch = batch.append_column(name, column.slice(start, len(batch)))
        start += len(batch)
        yield batch
