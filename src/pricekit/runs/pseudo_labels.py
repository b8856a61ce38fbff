"""Rows without a price, priced by a teacher, as further training rows.

Self-training and distillation are the same here: a teacher of another kind, or an ensemble, teaches what it knows
(Bucilă et al. 2006, Model compression; Hinton et al. 2015, arXiv:1503.02531), and the rows to be priced later are met
in training (Scudder 1965, self-training).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.held_out import FILE as HELD_OUT
from pricekit.evaluation.held_out import read_held_out
from pricekit.files import write_atomically
from pricekit.log import logger
from pricekit.prediction.predictor import Predictor
from pricekit.runs.folder import PSEUDO_LABELLED
from pricekit.runs.load import load_model
from pricekit.runs.source import Source, Split, columns_of
from pricekit.table import NO_PRICE, Columns, ReadOptions, Table, concat_tables, read_table, row_reasons
from pricekit.table.prices.currency import require_like
from pricekit.text import counted

MOST = 4
"""Unpriced rows at most, as a multiple of the priced ones; of more, a random part."""


def with_teachers(source: Source, split: Split, config: RunConfig, resumed: Path | None) -> Split:
    """Return a split with the rows that teachers price among its training rows.

    Args:
        source: names unpriced tables and teachers, or neither.
        split: the rows with prices.
        config: the run's.
        resumed: the run to go on with, which keeps the rows that it was started with; None for a new one.

    Raises:
        ConfigError: unpriced rows without a teacher, or a teacher without them.
        DataError: there is no row to teach, or a teacher prices in another currency.
        TrainingError, BundleError, PluginError: a teacher cannot be opened.
    """
    if resumed is not None:
        pseudo_labelled = read_pseudo_labelled(resumed)
    elif source.teachers or source.unpriced:
        _check_pair(source)
        columns = columns_of(config)
        teachers = [load_model(path) for path in source.teachers]
        for path, teacher in zip(source.teachers, teachers, strict=True):
            require_like(split.train.currency, teacher.currency, f"of the teacher {path}")
            _check_teacher(path, split.valid)
        unpriced = read_unpriced(source.unpriced, columns, source.read_options)
        pseudo_labelled = teach(split.train, unpriced, teachers, columns, config.seed)
    else:
        pseudo_labelled = None
    return (
        split
        if pseudo_labelled is None
        else replace(
            split, train=with_pseudo_labelled(split.train, pseudo_labelled), pseudo_labelled=pseudo_labelled
        )
    )


def read_unpriced(paths: Sequence[Path], columns: Columns, read_options: ReadOptions) -> Table:
    """Read the rows of some tables that have a text and no price; all rows of a table without a price column.

    Raises:
        DataError: a table cannot be read, or there is no such row.
    """
    parts = [_unpriced(path, columns, read_options) for path in paths]
    rows = concat_tables([_of_columns(part, columns) for part in parts])
    if not len(rows):
        names = ", ".join(map(str, paths))
        raise DataError(
            f"{names} has no row with a text and without a price; --unpriced is for rows that a teacher prices"
        )
    return rows


def teach(train: Table, unpriced: Table, teachers: Sequence[Predictor], columns: Columns, seed: int) -> Table:
    """Return unpriced rows with the geometric mean of what the teachers price them at.

    Args:
        train: the priced training rows; those with the same text are left out.
        unpriced: from `read_unpriced`.
        teachers: at least one.
        columns: the run's.
        seed: makes the choice where there are more than `MOST` times as many as training rows.
    """
    known = set(train.text)
    new = np.flatnonzero(~unpriced.text.isin(known) & ~unpriced.text.duplicated())
    if len(new) > MOST * len(train):
        new = np.sort(np.random.default_rng(seed).permutation(new)[: MOST * len(train)])
    rows = unpriced.take(new)
    if not len(rows):
        raise DataError("every unpriced row has the text of a training row; leave --unpriced out")
    logs = [np.log(teacher.predict(rows).astype(np.float64)) for teacher in teachers]
    logger.info(f"{counted(len(rows), 'row')} without a price priced by {counted(len(teachers), 'teacher')}")
    frame = rows.frame.copy()
    price = np.exp(np.mean(logs, axis=0))
    if columns.price is not None:
        frame[columns.price] = price
    return replace(rows, price=price, frame=frame)


def with_pseudo_labelled(train: Table, pseudo_labelled: Table) -> Table:
    """Return training rows followed by taught ones, with the columns that both have."""
    shared = [name for name in train.frame.columns if name in pseudo_labelled.frame.columns]
    parts = []
    for part in (train, pseudo_labelled):
        frame = part.frame[shared].astype(
            {name: train.frame[name].dtype for name in shared if _is_text(train.frame[name])}
        )
        parts.append(replace(part, frame=frame, ids=part.ids.astype("str").rename(str(train.ids.name))))
    return concat_tables(parts)


def _check_teacher(path: Path, valid: Table) -> None:
    """Say where a teacher may have been trained on rows that the student is judged by."""
    if not (path / HELD_OUT).is_file():
        logger.warning(
            f"nobody can tell whether the teacher {path} was trained on the rows that judge this run; if so, they "
            "flatter it."
        )
        return
    held_out = read_held_out(path)
    unseen = set(zip(held_out.text, held_out.price, strict=True))
    seen = sum((text, price) not in unseen for text, price in zip(valid.text, valid.known_price, strict=True))
    if seen:
        logger.warning(
            f"the teacher {path} was trained on {seen:,} of the {len(valid):,} rows that judge this run, which "
            "flatter it; train the teacher on the same table with the same --seed."
        )


def write_pseudo_labelled(folder: Path, pseudo_labelled: Table) -> None:
    """Keep the taught rows, so that a run is resumed with the same ones."""
    frame = pd.DataFrame(
        {
            "_id": pseudo_labelled.ids.astype("str"),
            "_text": pseudo_labelled.text,
            "_price": pseudo_labelled.known_price,
        }
    )
    frame = frame.join(pseudo_labelled.frame.rename(columns=str).add_prefix("column "))
    with write_atomically(folder / PSEUDO_LABELLED) as temporary:
        frame.to_parquet(temporary, index=False)


def read_pseudo_labelled(folder: Path) -> Table | None:
    """Read what `write_taught` wrote; None where there is nothing."""
    if not (folder / PSEUDO_LABELLED).is_file():
        return None
    frame = pd.read_parquet(folder / PSEUDO_LABELLED)
    kept = frame[[name for name in map(str, frame) if name.startswith("column ")]]
    return Table(
        ids=frame["_id"],
        text=frame["_text"].rename("text"),
        price=frame["_price"].to_numpy(np.float64),
        frame=kept.rename(columns=lambda name: name.removeprefix("column ")),
    )


def _check_pair(source: Source) -> None:
    if not (source.unpriced and source.teachers):
        raise ConfigError(
            "--unpriced names tables whose rows without a price are trained on, too, and --teacher the model that "
            "prices them; give both or neither"
        )


def _unpriced(path: Path, columns: Columns, read_options: ReadOptions) -> Table:
    quiet = replace(columns, id_required=False)
    try:
        table = read_table(path, quiet, read_options=read_options, notices=lambda _: None)
    except DataError:
        table = read_table(
            path, replace(quiet, price=None), read_options=read_options, notices=lambda _: None
        )
    reasons = row_reasons(table)
    wanted = reasons == (NO_PRICE if table.price is not None else "")
    return table.take(np.flatnonzero(wanted))


def _of_columns(table: Table, columns: Columns) -> Table:
    frame = table.frame.drop(columns=[columns.price or ""], errors="ignore")
    return replace(table, frame=frame, price=None, ids=table.ids.astype("str").rename("row"))


def _is_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.StringDtype)
