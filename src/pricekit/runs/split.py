"""The tables to train on: read, checked for leaks, and split in two."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.duplicates import Variants, find_duplicates, find_variants, split_groups_of
from pricekit.evaluation.leaks import find_leaks
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.runs.seen import Seen, earlier_formats, earlier_texts
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
from pricekit.table.source import OpenedTable, open_table
from pricekit.table.table import Formats, texts_in_parts
from pricekit.table.usable import MIN_ROWS
from pricekit.text.likeness import equal_texts
from pricekit.wording import counted, listed, shorten

MIN_NEW_ROWS = 20
"""Number of rows that a run which continues another one must add."""

PRICE_BINS = 20
LARGE_GROUP, LARGE_SHARE = 10, 0.1
"""A group is only trained on if it has more rows than LARGE_GROUP and than this share of the validation rows."""

MIN_GROUPS = 5
"""With fewer groups, rows are split one by one, because no representative part of the groups could be held out."""


@dataclass(frozen=True)
class Source:
    """The source of the rows: paths of files, or frames in memory.

    Attributes:
        table: rows with prices.
        valid: rows to validate on; None: a part of the table.
        read_options: how files are read.
        unpriced: tables whose rows without a price are also trained on, with the prices of the `teachers`.
        teachers: folders of runs, ensembles or bundles.
        allow_leak: train even if columns or texts leak the price.
        split: the rows, if they have already been read, checked and split; None: they are read from the tables.
    """

    table: TableSource
    valid: TableSource | None = None
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    unpriced: tuple[TableSource, ...] = ()
    teachers: tuple[Path, ...] = ()
    allow_leak: bool = False
    split: Split | None = field(default=None, repr=False)

    @property
    def table_name(self) -> str:
        """The name of the table in `run.json`; "DataFrame" for one in memory."""
        return source_name(self.table)

    @cached_property
    def opened(self) -> OpenedTable:
        """The table, opened once until `load_rows` has read it: a remote one is fetched then."""
        return open_table(self.table, self.read_options, logger.warning)

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
        variants: the products that repeat with variants, each in one part.
    """

    train: Table
    valid: Table
    rejected: list[pd.DataFrame]
    leaks: tuple[str, ...] = ()
    pseudo_labelled: Table | None = None
    own: bool = False
    variants: Variants | None = None

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


def columns_of(config: RunConfig, formats: Formats | None = None) -> Columns:
    """Return the columns of the table that training reads, with known formats or those that the table decides."""
    text, price, named = tuple(config.columns.text), config.columns.price, config.columns.id
    return Columns(text, price, named or Columns().id, named is not None, formats)


def load_split(
    source: Source,
    config: RunConfig,
    resumed: Sequence[Path] = (),
    folder: Path | None = None,
) -> Split:
    """Return the rows of a source: read the tables, reject unusable rows, check for leaks, and split the rest.

    Near-duplicates, and variants of a product, stay in one part, as in a cross-validation, unless the texts are
    labels, each for many products, or a column names the groups.

    Args:
        source: the tables.
        config: of the run.
        resumed: folders of the run to resume, or of its passes or members; its rows have been checked for leaks. If it
            continues another run, only rows that are new to that one are validated on.
        folder: where the texts of a large table are stored; None: they are kept in memory.

    Raises:
        DataError: a table cannot be used, or the price leaks.
    """
    if source.split is not None:
        return source.split
    table, rejected = load_rows(source, config, folder, earlier_formats(config.init, resumed))
    leaks = () if resumed else check_leaks(table, config, allow_leak=source.allow_leak)
    seen = earlier_texts(config.init, resumed)
    if source.valid is None:
        groups, variants = duplicates_in(table)
        if not resumed:
            log_duplicates(table)
        parts = split_table(replace(table, cluster=groups), config, seen)
        split = Split(*parts, [rejected], leaks, own=True, variants=variants)
        check_weights(split.train, split.valid)
        _log_split(split)
        return split
    columns = replace(columns_of(config, table.formats), id_required=False)  # it may have been guessed
    name, read_options = source_name(source.valid), source.read_options.beside(source.valid)
    valid, more = _read(source.valid, name, columns, read_options, config, folder)
    require_same_currency(table.price_style.currency, valid.price_style.currency)
    if not resumed:
        log_duplicates(table)
        check_shared(table, valid, allow_leak=source.allow_leak)
    if seen is not None and (known := int(seen.earlier_rows(valid.text).sum())):
        raise DataError(
            f"the run to continue from was trained on {known:,} of the {len(valid):,} validation rows; validate on "
            "other rows",
            parameters=("valid", "init"),
            rows=known,
        )
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
    train, valid = split.train.cluster, split.valid.cluster
    assert train is not None
    assert valid is not None
    part, more = f"{len(valid):,}", ""
    if split.valid.time is not None:
        part = f"the {part} latest"
    elif split.valid.group is not None and split.train.group is not None:
        held, groups = len(np.unique(split.valid.group)), len(np.unique(split.train.group))
        more = f": {held:,} of {held + groups:,} groups"
    elif not np.isin(valid, train).any():
        sizes = [rows for rows in np.bincount(np.append(train, valid)) if rows > 1]
        stay = f"; near-duplicates stay together: {sum(sizes):,} rows in {counted(len(sizes), 'group')}"
        more = stay if sizes else ""
    logger.info(f"{part} of {len(train) + len(valid):,} rows are held out to validate on{more}")


def load_rows(
    source: Source, config: RunConfig, folder: Path | None = None, formats: Formats | None = None
) -> tuple[Table, pd.DataFrame]:
    """Read the table of a source; return its usable rows and the rejected ones.

    The texts of a large table are stored in a file in `folder`, unless it is None. The table decides how its columns
    are written, unless an earlier run has decided the `formats`.

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
    known = columns_of(config, formats)
    table, rejected = _read(source.opened, source.table_name, known, source.read_options, config, folder)
    vars(source).pop("opened")  # the copy of a remote file, or of a frame
    table = with_row_info(table, None, columns.group, columns.time)
    if len(table) < MIN_ROWS:
        raise DataError(
            f"{source.table_name} has {counted(len(table), 'usable row')}, training needs at least {MIN_ROWS}; "
            f"{count_reasons(rejected) or 'no row was rejected'}",
            parameters=("table",),
            rows=len(table),
        )
    return table, rejected


def duplicates_in(table: Table) -> tuple[np.ndarray, Variants | None]:
    """Return equal numbers for the rows that a split keeps together, int64 (N,), and what was found of variants.

    The user's groups decide alone. Without them, near-duplicates stay together, and so do the variants of a product if
    products repeat with variants, which the log then says; rows with times are split by these.
    """
    if table.group is not None:
        return table.group, None
    groups = split_groups_of(table.text, table.known_price, folder=table.folder)
    if table.time is not None:
        return groups, None
    variants = find_variants(table.text, table.known_price, groups)
    if variants is None:
        return groups, None
    logger.info(variants.sentence())
    return variants.groups, variants


def split_table(table: Table, config: RunConfig, seen: Seen | None = None) -> tuple[Table, Table]:
    """Split rows into training and validation: by time, by group, or stratified by price.

    Args:
        table: N rows, with the `cluster` of each.
        config: provides the seed and the share of the validation rows.
        seen: texts of earlier runs that this one continues; a share of the other rows is validated on.

    Raises:
        DataError: all rows are of one group, so none can be held out, or there are too few new rows.
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
    assert table.cluster is not None
    known = seen.earlier_rows(table.text)
    new = np.flatnonzero(~np.isin(table.cluster, table.cluster[known]))
    if len(new) < MIN_NEW_ROWS:
        raise DataError(
            f"{counted(len(new), 'row')} of {len(table):,} are new to the run to continue from, and a warm start needs "
            f"at least {MIN_NEW_ROWS}, to validate on a part of them. Add new rows, or train from the start",
            parameters=("table", "init"),
            rows=len(new),
        )
    return new


def _split(table: Table, config: RunConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the training and of the validation rows."""
    price, fraction, groups = table.known_price, config.validation_fraction, table.cluster
    assert groups is not None
    if table.time is not None and np.ptp(table.time) > 0:
        return split_by_time(table.time, fraction)
    if table.group is not None:
        if not np.ptp(groups):
            raise DataError(
                f"all {len(table):,} rows to split have the same group in the column '{config.columns.group}', so "
                "none can be held out. Choose another column, or leave the groups out",
                parameters=("group",),
            )
        return split_whole_groups(price, groups, fraction, config.seed)
    return split_groups(price, groups, fraction, config.seed)


def _read(
    table: TableSource | OpenedTable,
    name: str,
    columns: Columns,
    read_options: ReadOptions,
    config: RunConfig,
    folder: Path | None,
) -> tuple[Table, pd.DataFrame]:
    with progress(f"reading {name}", 1):
        usable, rejected = read_usable(
            table, columns, limit=config.limit, read_options=read_options, folder=folder
        )
    return with_row_info(usable, config.columns.weight), rejected


def split_groups(
    price: np.ndarray, groups: np.ndarray, fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows like `split_rows`, with all rows of a group in one part.

    Groups that would fill much of the validation part become training rows.

    Args:
        price: float64 (N,).
        groups: a number for each row, equal for rows that belong together, int64 (N,).
        fraction: share of the validation rows, above 0 and below 1.
        seed: of the random split.

    Returns:
        Row numbers of the training and of the validation part, int64, each ascending.
    """
    _, first, group, rows = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    small = np.flatnonzero(rows <= max(LARGE_GROUP, LARGE_SHARE * fraction * len(price)))
    if len(small) < MIN_GROUPS:
        return split_rows(price, fraction, seed)
    _, chosen = split_rows(price[first[small]], fraction, seed)
    held_out = np.isin(group, small[chosen])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def stratified_folds(price: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row, int64 (N,), from 0: each group in one fold, each price bin spread over all.

    The groups, those with the most uneven bins first, go to the fold that leaves the shares of the bins most even; if
    several do, to the one with the fewest rows.

    Args:
        price: (N,); the bins are those of its rank.
        groups: int64 (N,).
        folds: their number, at most N.
        seed: of the order of groups that are equally uneven.
    """
    rank = np.argsort(np.argsort(price, kind="stable"), kind="stable")
    bins = rank * min(PRICE_BINS, len(price) // folds) // len(price)
    _, of_bin, size = np.unique(bins, return_inverse=True, return_counts=True)
    names, of_group = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), len(size)))
    np.add.at(counts, (of_group, of_bin), 1)
    order = np.random.RandomState(seed).permutation(len(names))
    order = order[np.argsort(-counts[order].std(axis=1), kind="stable")]
    filled, one = np.zeros((folds, len(size))), np.eye(folds)[:, :, None]
    fold_of = np.zeros(len(names), np.int64)
    for group in order:
        shares = (filled + one * counts[group]) / size  # of each fold, with the group in each of them
        uneven, rows, best = shares.std(axis=1).mean(axis=1).tolist(), filled.sum(axis=1).tolist(), 0
        for fold in range(1, folds):
            equal = abs(uneven[fold] - uneven[best]) <= 1e-8 + 1e-5 * uneven[best]
            if uneven[fold] < uneven[best] or (equal and rows[fold] < rows[best]):
                best = fold
        filled[best] += counts[group]
        fold_of[group] = best
    return fold_of[of_group]


def split_whole_groups(
    price: np.ndarray, groups: np.ndarray, fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows so that each group is in one part, whatever its size; arguments and result as of `split_groups`.

    Holds out one of the `stratified_folds`.

    Args:
        price: float64 (N,).
        groups: at least two different numbers, int64 (N,).
        fraction: share of the validation rows, above 0 and below 1.
        seed: of the random split.
    """
    folds = int(np.clip(round(1 / fraction), 2, len(np.unique(groups))))
    fold = stratified_folds(price, groups, folds, seed)
    rows = np.bincount(fold, minlength=folds)
    chosen = np.argmin(np.where(rows, np.abs(rows - fraction * len(price)), np.inf))
    return np.flatnonzero(fold != chosen), np.flatnonzero(fold == chosen)


def split_by_time(time: np.ndarray, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Split rows into earlier and later ones; rows of equal time are in one part.

    Args:
        time: float64 (N,), at least two different values.
        fraction: share of the validation rows, above 0 and below 1; each part gets at least one time.

    Returns:
        Row numbers of the training and of the validation part, int64, each ascending.

    Example:
        >>> train, valid = split_by_time(np.array([3.0, 1.0, 2.0, 2.0]), fraction=0.25)
        >>> train.tolist(), valid.tolist()
        ([1, 2, 3], [0])
    """
    times, rows = np.unique(time, return_counts=True)
    later = len(time) - np.cumsum(rows)[:-1]  # rows after each time but the last
    last = times[int(np.argmin(np.abs(later - fraction * len(time))))]
    return np.flatnonzero(time <= last), np.flatnonzero(time > last)


def split_rows(price: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split rows into training and validation, stratified by price bin.

    Args:
        price: float64 (N,), N at least 2.
        fraction: share of the validation rows; each part gets at least one row.
        seed: of the random split.

    Returns:
        Row numbers of the training and of the validation part, int64, each ascending.

    Example:
        >>> train, valid = split_rows(np.arange(1.0, 21.0), fraction=0.25, seed=0)
        >>> len(train), len(valid)
        (15, 5)
    """
    rng = np.random.default_rng(seed)
    by_price = np.lexsort((rng.random(len(price)), price))
    bins = np.array_split(by_price, min(PRICE_BINS, max(1, int(len(price) * fraction) // 2)))
    shuffled = np.concatenate([rng.permutation(rows) for rows in bins])
    # In each bin, row k is a validation row if k·fraction passes a whole number.
    due = np.floor((np.arange(len(price)) + 1) * fraction).astype(int)
    chosen = np.diff(due, prepend=0) > 0
    if not chosen.any():
        chosen[0] = True
    return np.sort(shuffled[~chosen]), np.sort(shuffled[chosen])


ALLOW_LEAK = "or allow the leak if its value is known whenever prices are predicted"


def check_leaks(table: Table, config: RunConfig, *, allow_leak: bool) -> tuple[str, ...]:
    """Find columns and texts that leak the price.

    Args:
        table: all usable rows.
        config: names the text columns.
        allow_leak: train on leaks with a warning.

    Returns:
        The columns that no feature may read.

    Raises:
        DataError: a text column or the text leaks the price.
    """
    if table.known_price.min() == table.known_price.max():
        logger.warning(
            f"all prices are {table.known_price[0]:g}: the model can learn nothing but this one price"
        )
    columns = config.columns
    named = Columns(tuple(columns.text), columns.price, columns.id)
    findings = find_leaks(table, named)
    read = {name: how for name, how in findings.columns.items() if name in columns.text}
    if read and not allow_leak:
        raise DataError(
            f"the model would read columns that leak the price: {_listed(read)}. Remove them from the text columns, "
            f"{ALLOW_LEAK}",
            parameters=("text", "allow_leak"),
            columns=list(read),
        )
    if read:
        logger.warning(
            f"columns leak the price: {_listed(read)}; the model reads them, because leaks are allowed"
        )
    if unread := {name: how for name, how in findings.columns.items() if name not in read}:
        logger.warning(f"columns leak the price: {_listed(unread)}; the model does not read them")
    if share := findings.in_text:
        leak = (
            f"{100 * share:.0f}% of the texts contain their own price as a number, more than chance explains"
        )
        if not allow_leak:
            raise DataError(
                f"{leak}. Remove it from the text, {ALLOW_LEAK}", parameters=("allow_leak",), share=share
            )
        logger.warning(f"{leak}; the model reads it, because leaks are allowed")
    return () if allow_leak else tuple(findings.columns)


def log_duplicates(table: Table) -> None:
    """Log how much prices of equal texts differ; after `duplicates_in`, which has found them, it costs little."""
    duplicates = find_duplicates(equal_texts(table.text), table.known_price)
    if duplicates.conflicting_rows:
        logger.info(duplicates.sentence())


def _listed(leaks: Mapping[str, str]) -> str:
    return listed([f"'{shorten(name)}' ({how})" for name, how in leaks.items()])


def check_shared(train: Table, valid: Table, *, allow_leak: bool) -> None:
    """Warn about validation rows whose text is also in the training rows.

    Raises:
        DataError: all of them are, at the same price, and `allow_leak` is False.
    """
    same = equal_texts(pd.concat([train.text, valid.text]))
    shared = np.isin(same[len(train) :], same[: len(train)])
    rows = set(zip(same[: len(train)].tolist(), train.known_price.tolist(), strict=True))
    equal = sum(
        row in rows for row in zip(same[len(train) :].tolist(), valid.known_price.tolist(), strict=True)
    )
    if not shared.any():
        return
    what = (
        f"{int(shared.sum()):,} of {len(valid):,} validation rows have the text of a training row, {equal:,} of "
        "them at the same price"
    )
    if equal == len(valid) and not allow_leak:
        raise DataError(
            f"{what}, so nothing is held out. Validate on other rows, or allow the leak",
            parameters=("valid", "allow_leak"),
            rows=equal,
        )
    logger.warning(f"{what}, so validation metrics are optimistic; remove them from one of the tables")
