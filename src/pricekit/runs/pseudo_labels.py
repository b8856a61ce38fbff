"""Pseudo-labels: rows without a price become training rows with the prices of a teacher.

This covers distillation, where the teacher is another kind of model or an ensemble (Bucilă et al. 2006, Model
compression; Hinton et al. 2015, arXiv:1503.02531), and self-training, where the rows are those to be priced later
(Scudder 1965).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.held_out import HELD_OUT, read_held_out, was_refitted
from pricekit.io.digests import is_listed
from pricekit.io.files import write_parquet
from pricekit.io.log import logger
from pricekit.predict.predictor import Predictor
from pricekit.runs.folder import PSEUDO_LABELLED
from pricekit.runs.load import load_model
from pricekit.runs.split import Source, Split, columns_of
from pricekit.table import (
    NO_PRICE,
    Columns,
    ReadOptions,
    Table,
    TableSource,
    concat_tables,
    read_table,
    row_reasons,
    source_name,
)
from pricekit.table.currency import require_same_currency
from pricekit.wording import counted

MAX_RATIO = 4
"""Maximum number of pseudo-labelled rows per priced row; of more rows, a random part is used."""


def add_pseudo_labels(source: Source, split: Split, config: RunConfig, resumed: Path | None) -> Split:
    """Return a split whose training rows include the rows that teachers price.

    Args:
        source: names unpriced tables and teachers, or neither.
        split: the rows with prices.
        config: of the run.
        resumed: the run to resume, which keeps its pseudo-labelled rows; None for a new one.

    Raises:
        ConfigError: unpriced tables without a teacher, or a teacher without them.
        DataError: there is no row to price, or a teacher uses a different currency.
        TrainingError, BundleError, PluginError: a teacher cannot be opened.
    """
    pseudo_labelled = read_pseudo_labelled(resumed) if resumed else _from_teachers(source, split, config)
    if pseudo_labelled is None:
        return split
    train = with_pseudo_labelled(split.train, pseudo_labelled)
    return replace(split, train=train, pseudo_labelled=pseudo_labelled)


def _from_teachers(source: Source, split: Split, config: RunConfig) -> Table | None:
    """Return the unpriced rows with the prices of the teachers; None without teachers."""
    if not (source.teachers or source.unpriced):
        return None
    if not (source.teachers and source.unpriced):
        raise ConfigError(
            "pseudo-labels need unpriced tables and a teacher that prices their rows; set both or neither",
            parameters=("unpriced", "teacher"),
        )
    columns = columns_of(config, split.train.formats)
    teachers = [load_model(path) for path in source.teachers]
    for path, teacher in zip(source.teachers, teachers, strict=True):
        require_same_currency(split.train.price_style.currency, teacher.currency, f"of the teacher {path}")
        _check_teacher(path, split.valid)
    unpriced = read_unpriced(source.unpriced, columns, source.read_options)
    return pseudo_label(split.train, unpriced, teachers, columns, config.seed)


def read_unpriced(tables: Sequence[TableSource], columns: Columns, read_options: ReadOptions) -> Table:
    """Read the rows that have a text and no price; all rows with a text if the table has no price column.

    Raises:
        DataError: a table cannot be read, or there is no such row.
    """
    rows = concat_tables([_read_unpriced(table, columns, read_options) for table in tables])
    if not len(rows):
        names = ", ".join(map(source_name, tables))
        raise DataError(
            f"{names} has no row with a text and without a price, which a teacher could price",
            parameters=("unpriced",),
        )
    return rows


def pseudo_label(
    train: Table, unpriced: Table, teachers: Sequence[Predictor], columns: Columns, seed: int
) -> Table:
    """Return unpriced rows with the geometric mean of the teachers' prices.

    Args:
        train: the priced training rows; unpriced rows with one of their texts are left out.
        unpriced: from `read_unpriced`.
        teachers: at least one.
        columns: of the run.
        seed: the seed of the choice, if there are more than `MAX_RATIO` unpriced rows per training row.

    Raises:
        DataError: every unpriced row has the text of a training row.
    """
    known = set(train.text)
    new = np.flatnonzero(~unpriced.text.isin(known) & ~unpriced.text.duplicated())
    if len(new) > MAX_RATIO * len(train):
        new = np.sort(np.random.default_rng(seed).permutation(new)[: MAX_RATIO * len(train)])
    rows = unpriced.take(new)
    if not len(rows):
        raise DataError(
            "every unpriced row has the text of a training row; use other rows or none",
            parameters=("unpriced",),
        )
    logs = [np.log(teacher.predict(rows).astype(np.float64)) for teacher in teachers]
    logger.info(f"{counted(len(teachers), 'teacher')} priced {counted(len(rows), 'row')} without a price")
    frame = rows.frame.copy()
    price = np.exp(np.mean(logs, axis=0))
    if columns.price is not None:
        frame[columns.price] = price
    return replace(rows, price=price, frame=frame)


def with_pseudo_labelled(train: Table, pseudo_labelled: Table) -> Table:
    """Return training rows followed by pseudo-labelled ones, with the columns that both have."""
    shared = [name for name in train.frame.columns if name in pseudo_labelled.frame.columns]
    dtypes = train.frame[shared].dtypes.items()
    texts = {name: dtype for name, dtype in dtypes if isinstance(dtype, pd.StringDtype)}
    parts = []
    for part in (train, pseudo_labelled):
        frame = part.frame[shared].astype(texts)
        parts.append(replace(part, frame=frame, ids=part.ids.astype("str").rename(str(train.ids.name))))
    return concat_tables(parts)


def _check_teacher(path: Path, valid: Table) -> None:
    """Warn if a teacher may have been trained on the rows that validate the student."""
    if not (path / HELD_OUT).is_file():
        logger.warning(
            f"the teacher {path} does not record its training rows; if they include validation rows of this run, "
            "its validation metrics are optimistic"
        )
        return
    held_out = read_held_out(path)
    refit = was_refitted(path)
    unseen = set() if refit else set(zip(held_out.text, held_out.price, strict=True))
    seen = sum((text, price) not in unseen for text, price in zip(valid.text, valid.known_price, strict=True))
    if seen:
        logger.warning(
            f"the teacher {path} was trained on {seen:,} of the {len(valid):,} validation rows, so validation metrics "
            f"are optimistic; train the teacher on the same table with the same seed{' and without a refit' * refit}"
        )


def write_pseudo_labelled(folder: Path, pseudo_labelled: Table) -> None:
    """Write the pseudo-labelled rows, which a resumed run reads."""
    frame = pd.DataFrame(
        {
            "_id": pseudo_labelled.ids.astype("str"),
            "_text": pseudo_labelled.text,
            "_price": pseudo_labelled.known_price,
        }
    )
    frame = frame.join(pseudo_labelled.frame.rename(columns=str).add_prefix("column "))
    write_parquet(folder / PSEUDO_LABELLED, frame)


def read_pseudo_labelled(folder: Path) -> Table | None:
    """Read the rows that `write_pseudo_labelled` wrote; None if there are none."""
    if not is_listed(folder, PSEUDO_LABELLED):
        return None
    frame = pd.read_parquet(folder / PSEUDO_LABELLED)
    kept = frame[[name for name in map(str, frame) if name.startswith("column ")]]
    return Table(
        ids=frame["_id"],
        text=frame["_text"].rename("text"),
        price=frame["_price"].to_numpy(np.float64),
        frame=kept.rename(columns=lambda name: name.removeprefix("column ")),
    )


def _read_unpriced(source: TableSource, columns: Columns, read_options: ReadOptions) -> Table:
    quiet = partial(read_table, source, read_options=read_options.beside(source), notices=lambda _: None)
    try:
        table = quiet(replace(columns, id_required=False))
    except DataError:
        table = quiet(replace(columns, id_required=False, price=None))
    wanted = row_reasons(table) == (NO_PRICE if table.price is not None else "")
    table = table.take(np.flatnonzero(wanted))
    frame = table.frame.drop(columns=[columns.price or ""], errors="ignore")
    return replace(table, frame=frame, price=None, ids=table.ids.astype("str").rename("row"))
