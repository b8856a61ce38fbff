"""The tables to train on: read, unusable rows set aside, split in two."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import DataError
from pricekit.screen import notice
from pricekit.table import Columns, Table, count_reasons, read_usable
from pricekit.training.batches import split_rows

MIN_ROWS = 10


@dataclass(frozen=True)
class Source:
    """Where the rows come from."""

    table: Path
    valid: Path | None = None
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Split:
    """The usable rows, in two parts, and those that were set aside."""

    train: Table
    valid: Table
    rejected: list[pd.DataFrame]

    def digest(self) -> str:
        """Return a hash of the texts and prices of both parts, in order."""
        digest = hashlib.sha256()
        for part in (self.train, self.valid):
            digest.update(pd.util.hash_pandas_object(part.text, index=False).to_numpy().tobytes())
            digest.update(part.known_price.tobytes())
        return digest.hexdigest()

    def count(self) -> dict[str, int]:
        """Return the number of rows of each part."""
        return {
            "train": len(self.train),
            "valid": len(self.valid),
            "rejected": sum(map(len, self.rejected)),
        }


def columns_of(config: RunConfig) -> Columns:
    """Return the columns that training reads."""
    named = config.columns.id
    return Columns(tuple(config.columns.text), config.columns.price, named or Columns().id, named is not None)


def load_split(source: Source, config: RunConfig) -> Split:
    """Read the tables, set unusable rows aside, split the rest; raises DataError."""
    table, rejected = _read(source.table, source, config)
    if source.valid:
        valid, more = _read(source.valid, source, config)
        return Split(table, valid, [rejected, more])
    if len(table) < MIN_ROWS:
        raise DataError(
            f"{source.table} has {len(table)} usable rows, training needs at least {MIN_ROWS}; "
            f"{count_reasons(rejected) or 'no row was set aside'}"
        )
    train, valid_rows = split_rows(table.known_price, config.validation_fraction, config.seed)
    return Split(table.take(train), table.take(valid_rows), [rejected])


def _read(path: Path, source: Source, config: RunConfig) -> tuple[Table, pd.DataFrame]:
    columns = columns_of(config)
    return read_usable(path, columns, limit=config.limit, encoding=source.encoding, notices=notice)
