"""The tables to train on: read, checked and split in two."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.duplicates import joined_groups, split_groups_of
from pricekit.runs.checks import check_leaks, check_shared
from pricekit.runs.seen import Seen
from pricekit.support.log import logger
from pricekit.support.progress import progress
from pricekit.support.text import counted
from pricekit.table import (
    DEFAULT_READ_OPTIONS,
    Columns,
    ReadOptions,
    Table,
    TableSource,
    count_reasons,
    read_usable,
    source_name,
)
from pricekit.table.currency import require_same_currency
from pricekit.table.row_info import with_row_info
from pricekit.table.table import texts_in_parts
from pricekit.table.usable import MIN_ROWS
from pricekit.training.batches import split_by_time, split_groups, split_whole_groups

MIN_NEW_ROWS = 20
"""Number of rows that a run which continues another one must add."""


@dataclass(frozen=True)
class Source:
    """The source of the rows: paths of files, or frames in memory.

    Attributes:
        table: rows with prices.
        valid: rows to validate on; None: a part of the table.
        read_options: how files are read.
        unpriced: tables whose rows without a price are also trained on, with the prices of the `teachers`.
        teachers: folders of runs, ensembles or bundles.
    """

    table: TableSource
    valid: TableSource | None = None
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    unpriced: tuple[TableSource, ...] = ()
    teachers: tuple[Path, ...] = ()

    @property
    def table_name(self) -> str:
        """The name of the table in `run.json`; "DataFrame" for one in memory."""
        return source_name(self.table)

    def facts(self, split: Split) -> dict[str, Any]:
        """Return the content of `source.json`: the names of the tables and a digest of the rows."""
        facts: dict[str, Any] = {
            "table": self.table_name,
            "valid": None if self.valid is None else source_name(self.valid),
        }
        if split.pseudo_labelled is not None:
            facts["unpriced"] = [source_name(table) for table in self.unpriced]
            facts["teachers"] = list(map(str, self.teachers))
        return facts | {"digest": split.digest()}


@dataclass(frozen=True)
class Split:
    """The usable rows, in two parts.

    Attributes:
        train: rows to train on; pseudo-labelled ones come last.
        valid: rows to validate on.
        rejected: unusable rows of each table.
        leaks: columns that no feature may read.
        pseudo_labelled: rows that teachers priced.
        own: whether pricekit made the parts, with near-duplicates in one; else the user did.
    """

    train: Table
    valid: Table
    rejected: list[pd.DataFrame]
    leaks: tuple[str, ...] = ()
    pseudo_labelled: Table | None = None
    own: bool = False

    def digest(self) -> str:
        """Return a hash of the texts and prices of both parts, in order."""
        return digest_of(self.train, self.valid)

    def count(self) -> dict[str, int]:
        """Return the number of rows of each part, for `run.json`."""
        counts = {
            "train": len(self.train),
            "valid": len(self.valid),
            "rejected": sum(map(len, self.rejected)),
        }
        if self.pseudo_labelled is not None:
            counts["pseudo_labelled"] = len(self.pseudo_labelled)
        return counts


def digest_of(*parts: Table) -> str:
    """Return a SHA-256 hash, in hexadecimal, of the texts, prices, weights, groups and times of some rows."""
    digest = hashlib.sha256()
    for part in parts:
        for texts in texts_in_parts(part.text):
            digest.update(pd.util.hash_pandas_object(texts, index=False).to_numpy().tobytes())
        digest.update(part.known_price.tobytes())
        for values in (part.weight, part.group, part.time):
            digest.update(b"" if values is None else values.tobytes())
    return digest.hexdigest()


def columns_of(config: RunConfig) -> Columns:
    """Return the columns of the table that training reads."""
    named = config.columns.id
    return Columns(tuple(config.columns.text), config.columns.price, named or Columns().id, named is not None)


def load_split(
    source: Source,
    config: RunConfig,
    *,
    allow_leak: bool = False,
    checked: bool = False,
    seen: Seen | None = None,
    folder: Path | None = None,
) -> Split:
    """Read the tables, reject unusable rows, check for leaks, and split the rest.

    Near-duplicates stay in one part, as in a cross-validation, unless the texts are labels, each for many products.

    Args:
        source: the tables.
        config: of the run.
        allow_leak: train even if columns or texts leak the price.
        checked: skip the check for leaks, as in a resumed run.
        seen: texts of earlier runs that this one continues; only other rows are validated on.
        folder: where the texts of a large table are stored; None: they are kept in memory.

    Raises:
        DataError: a table cannot be used, or the price leaks.
    """
    table, rejected = load_rows(source, config, folder)
    leaks = () if checked else check_leaks(table, config, allow_leak=allow_leak)
    if source.valid is None:
        table = with_duplicates(table, shown=config.speed.progress)
        parts = split_table(table, config, seen)
        split = Split(*parts, [rejected], leaks, own=True)
        check_weights(split.train, split.valid)
        _log_split(split)
        return split
    valid, more = _read(source.valid, source, config, folder)
    require_same_currency(table.currency, valid.currency)
    if not checked:
        check_shared(table, valid, allow_leak=allow_leak)
    if seen is not None:
        _check_unseen(valid, seen)
    check_weights(table, valid)
    return Split(table, valid, [rejected, more], leaks)


def check_weights(*parts: Table) -> None:
    """Raise DataError if all rows of a part have the weight 0, so that it can neither train nor score a model."""
    for part in parts:
        if part.weight is not None and not part.weight.any():
            raise DataError(
                f"all of {counted(len(part), 'row')} that belong together in a split have the weight 0; give more rows "
                "a weight, choose another seed, or leave the weights out",
                parameters=("weight", "seed"),
            )


def _log_split(split: Split) -> None:
    """Log how many rows are held out, and that duplicates stay together, if none is in both parts."""
    train, valid = split.train.together, split.valid.together
    if train is None or valid is None:
        return
    if split.valid.time is not None:
        logger.info(
            f"the {len(valid):,} latest of {len(train) + len(valid):,} rows are held out to validate on"
        )
        return
    if split.valid.group is not None and split.train.group is not None:
        held, groups = len(np.unique(split.valid.group)), len(np.unique(split.train.group))
        logger.info(
            f"{len(valid):,} of {len(train) + len(valid):,} rows are held out to validate on: {held:,} of "
            f"{held + groups:,} groups"
        )
        return
    sizes = [rows for rows in np.bincount(np.append(train, valid)) if rows > 1]
    kept = f"; near-duplicates stay together: {sum(sizes):,} rows in {counted(len(sizes), 'group')}"
    apart = not np.isin(valid, train).any()
    logger.info(
        f"{len(valid):,} of {len(train) + len(valid):,} rows are held out to validate on"
        + (kept if sizes and apart else "")
    )


def load_rows(source: Source, config: RunConfig, folder: Path | None = None) -> tuple[Table, pd.DataFrame]:
    """Read the table of a source; return its usable rows and the rejected ones.

    The texts of a large table are stored in a file in `folder`, unless it is None.

    Raises:
        DataError: the table cannot be read, or too few rows are usable.
        ConfigError: both groups and times are named.
    """
    columns = config.columns
    if columns.group is not None and columns.time is not None:
        raise ConfigError(
            "group and time both decide which rows are held out; name one of them",
            parameters=("group", "time"),
        )
    table, rejected = _read(source.table, source, config, folder)
    table = with_row_info(table, None, columns.group, columns.time)
    if len(table) < MIN_ROWS:
        raise DataError(
            f"{source.table_name} has {counted(len(table), 'usable row')}, training needs at least {MIN_ROWS}; "
            f"{count_reasons(rejected) or 'no row was rejected'}",
            parameters=("table",),
            rows=len(table),
        )
    return table, rejected


def with_duplicates(table: Table, *, shown: bool) -> Table:
    """Return the table with the rows that a split keeps together: duplicates, and the groups that the user named.

    Args:
        table: N rows.
        shown: show a progress bar.
    """
    together = split_groups_of(table.text, table.known_price, folder=table.folder, shown=shown)
    if table.group is not None:
        together = joined_groups(together, table.group)
    return replace(table, together=together)


def split_table(table: Table, config: RunConfig, seen: Seen | None = None) -> tuple[Table, Table]:
    """Split rows into training and validation: by time, by group, or stratified by price.

    Args:
        table: N rows, with those that stay `together`.
        config: provides the seed and the share of the validation rows.
        seen: texts of earlier runs that this one continues; a share of the other rows is validated on.

    Raises:
        DataError: groups connect all rows, so none can be held out, or there are too few new rows.
    """
    if seen is None:
        train, valid = _split(table, config)
    else:
        new = _new_rows(table, seen)
        valid = new[_split(table.take(new), config)[1]]
        train = np.setdiff1d(np.arange(len(table)), valid)
    return table.take(train), table.take(valid)


def _new_rows(table: Table, seen: Seen) -> np.ndarray:
    """Return the positions of the rows that no earlier run was trained on, nor on rows that stay together with them."""
    assert table.together is not None
    known = seen.earlier_rows(table.text)
    new = np.flatnonzero(~np.isin(table.together, table.together[known]))
    if len(new) < MIN_NEW_ROWS:
        raise DataError(
            f"{counted(len(new), 'row')} of {len(table):,} are new to the run to continue from, and a warm start needs "
            f"at least {MIN_NEW_ROWS}, to validate on a part of them. Add new rows, or train from the start",
            parameters=("table", "init"),
            rows=len(new),
        )
    return new


def _check_unseen(valid: Table, seen: Seen) -> None:
    """Raise DataError if an earlier run was trained on a validation row."""
    known = int(seen.earlier_rows(valid.text).sum())
    if known:
        raise DataError(
            f"the run to continue from was trained on {known:,} of the {len(valid):,} validation rows; validate on "
            "other rows",
            parameters=("valid", "init"),
            rows=known,
        )


def _split(table: Table, config: RunConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the training and of the validation rows."""
    price, share, together = table.known_price, config.validation_fraction, table.together
    assert together is not None
    if table.time is not None and np.ptp(table.time) > 0:
        return split_by_time(table.time, share)
    if table.group is not None:
        if not np.ptp(together):
            raise DataError(
                f"the groups of the column '{config.columns.group}' share duplicate texts, which connect all rows, so "
                "none can be held out. Choose another column, or leave the groups out",
                parameters=("group",),
            )
        return split_whole_groups(price, together, share, config.seed)
    return split_groups(price, together, share, config.seed)


def _read(
    table: TableSource, source: Source, config: RunConfig, folder: Path | None
) -> tuple[Table, pd.DataFrame]:
    with progress(f"reading {source_name(table)}", 1, shown=config.speed.progress):
        usable, rejected = read_usable(
            table,
            columns_of(config),
            limit=config.limit,
            read_options=source.read_options,
            notices=logger.warning,
            folder=folder,
        )
    return with_row_info(usable, config.columns.weight), rejected
