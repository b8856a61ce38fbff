"""The tables to train on: read, unusable rows set aside, split in two."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import DataError
from pricekit.evaluation.duplicates import split_groups_of
from pricekit.log import logger
from pricekit.runs.leak_checks import check_leaks, check_shared
from pricekit.table import AS_FOUND, Columns, ReadOptions, Table, count_reasons, read_usable
from pricekit.table.prices.currency import require_like
from pricekit.table.usable import MIN_ROWS
from pricekit.text import counted
from pricekit.training.batches import split_groups


@dataclass(frozen=True)
class Source:
    """Where the rows come from.

    Attributes:
        table: rows with prices.
        valid: rows to validate on; None: a part of the table.
        read_options: how the files are read.
        unpriced: tables whose rows without a price are trained on, too, at the prices of the `teachers`.
        teachers: runs, ensembles or bundles.
    """

    table: Path
    valid: Path | None = None
    read_options: ReadOptions = AS_FOUND
    unpriced: tuple[Path, ...] = ()
    teachers: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Split:
    """The usable rows, in two parts.

    Attributes:
        train: rows to train on, the taught ones at their end.
        valid: rows to validate on.
        rejected: what was set aside of each table.
        leaks: columns that no feature may read.
        taught: rows that teachers priced.
    """

    train: Table
    valid: Table
    rejected: list[pd.DataFrame]
    leaks: tuple[str, ...] = ()
    pseudo_labelled: Table | None = None

    def digest(self) -> str:
        """Return a hash of the texts and prices of both parts, in order."""
        return digest_of(self.train, self.valid)

    def count(self) -> dict[str, int]:
        """Return the number of rows of each part."""
        counts = {
            "train": len(self.train),
            "valid": len(self.valid),
            "rejected": sum(map(len, self.rejected)),
        }
        return counts if self.pseudo_labelled is None else counts | {"taught": len(self.pseudo_labelled)}


def digest_of(*parts: Table) -> str:
    """Return a hash of the texts and prices of some rows, in order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(pd.util.hash_pandas_object(part.text, index=False).to_numpy().tobytes())
        digest.update(part.known_price.tobytes())
    return digest.hexdigest()


def columns_of(config: RunConfig) -> Columns:
    """Return the columns that training reads."""
    named = config.columns.id
    return Columns(tuple(config.columns.text), config.columns.price, named or Columns().id, named is not None)


def load_split(source: Source, config: RunConfig, *, allow_leak: bool = False, looked: bool = False) -> Split:
    """Read the tables, set unusable rows aside, look for leaks, split the rest.

    Rows whose texts say the same stay in one part, but where the texts are labels that name many products each.

    Args:
        source: the tables.
        config: the run's.
        allow_leak: train on what gives the price away, too.
        looked: leaks were looked for before: the run is resumed.

    Raises:
        DataError: the tables cannot be used, or the price leaks.
    """
    table, rejected = load_rows(source, config)
    leaks = () if looked else check_leaks(table, config, allow_leak=allow_leak)
    if source.valid is None:
        together = split_groups_of(table.text, table.known_price, near=False)
        return Split(*split_table(table, together, config), [rejected], leaks)
    valid, more = _read(source.valid, source, config)
    require_like(table.currency, valid.currency)
    if not looked:
        check_shared(table, valid, allow_leak=allow_leak)
    return Split(table, valid, [rejected, more], leaks)


def load_rows(source: Source, config: RunConfig) -> tuple[Table, pd.DataFrame]:
    """Read one table, unusable rows set aside; raises DataError where too few rows are left."""
    table, rejected = _read(source.table, source, config)
    if len(table) < MIN_ROWS:
        raise DataError(
            f"{source.table} has {counted(len(table), 'usable row')}, training needs at least {MIN_ROWS}; "
            f"{count_reasons(rejected) or 'no row was set aside'}"
        )
    return table, rejected


def split_table(table: Table, together: np.ndarray, config: RunConfig) -> tuple[Table, Table]:
    """Split rows in two, stratified by price; those that belong `together`, int64 (N,), in one part."""
    parts = split_groups(table.known_price, together, config.validation_fraction, config.seed)
    return table.take(parts[0]), table.take(parts[1])


def _read(path: Path, source: Source, config: RunConfig) -> tuple[Table, pd.DataFrame]:
    columns = columns_of(config)
    return read_usable(
        path, columns, limit=config.limit, read_options=source.read_options, notices=logger.warning
    )
