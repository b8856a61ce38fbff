"""`held_out.parquet`: rows that the weights were not trained on, with their predictions.

The file of a run contains its validation rows, with the predictions of the first pass if a refit then trained on them.
The file of a cross-validation contains every row once, predicted by the
fold that did not train on it. `evaluate`, `compare` and `errors` read only this file from these folders.

| column | meaning |
|---|---|
| row | the row's number in its file, from 0, int64 |
| id | its id as text |
| fold | the fold that held it out, int64; 0 in a run |
| text | the model's input |
| price, predicted | in the table's currency, float64 |
| spread | how far the log of the price was expected to be from that of the prediction, float64 |
| sample_weight | how much the row counts, float64; only if rows have weights |
| any other | a column of the table with 2 to 50 different texts, such as a category |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.io.files import read_json, write_parquet
from pricekit.io.log import logger
from pricekit.io.record import State, check_format, check_intact, state_of
from pricekit.table import Table

HELD_OUT = "held_out.parquet"
MOST_VALUES = 50
"""A column with more different texts is not used to group rows."""
TRAINED_ON = 0.1
"""If a table contains this share of a run's held-out rows, it is the training table; equal products are rarer."""

_COLUMNS = ("row", "id", "fold", "text", "price", "predicted", "spread")
_WEIGHT = "sample_weight"
_EXPECTED = "expected the folder of a run or a cross-validation"


@dataclass(frozen=True)
class HeldOut:
    """Rows that the weights were not trained on, with their predictions.

    Attributes:
        rows: each row's number in its file, int64 (N,).
        ids: their ids as text, (N,), "" for a missing id.
        fold: the fold that held each row out, int64 (N,).
        text: the model's input, (N,).
        price: true prices, positive, float64 (N,).
        predicted: predicted prices, float64 (N,).
        groups: columns of the table with few different texts, (N, G).
        spread: how far each log price was expected to be from the true one, float64 (N,); 1 if nothing is known.
        weight: how much each row counts, float64 (N,); None: all count equally.
    """

    rows: np.ndarray
    ids: pd.Series
    fold: np.ndarray
    text: pd.Series
    price: np.ndarray
    predicted: np.ndarray
    groups: pd.DataFrame
    spread: np.ndarray
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: np.ndarray) -> HeldOut:
        """Return the rows at these positions, int (M,), in the order given."""

        def part(values: Any) -> Any:
            if isinstance(values, np.ndarray | None):
                return None if values is None else values[positions]
            return values.take(positions).reset_index(drop=True)

        return HeldOut(*(part(getattr(self, each.name)) for each in fields(self)))

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as `held_out.parquet` stores them."""
        values = self.rows, self.ids, self.fold, self.text, self.price, self.predicted, self.spread
        columns: dict[str, Any] = dict(zip(_COLUMNS, values, strict=True))
        if self.weight is not None:
            columns[_WEIGHT] = self.weight
        return pd.concat([pd.DataFrame(columns), self.groups], axis="columns")


def rows_of_prices(price: np.ndarray, predicted: np.ndarray) -> HeldOut:
    """Return rows that have only prices and predictions, float64 (N,)."""
    numbers = np.arange(len(price), dtype=np.int64)
    blank = pd.Series("", index=numbers, dtype="str")
    fold = np.zeros_like(numbers)
    groups, spread = pd.DataFrame(index=numbers), np.ones(len(price))
    return HeldOut(numbers, blank, fold, blank, price, predicted, groups, spread)


def held_out_of(
    table: Table,
    predicted: np.ndarray,
    fold: int | np.ndarray = 0,
    *,
    spread: np.ndarray | float = 1.0,
) -> HeldOut:
    """Combine the rows of a table with their predictions.

    Args:
        table: usable rows with prices, as `read_usable` returns them, or some of them.
        predicted: one price for each row, (N,), by weights that were not trained on that row.
        fold: the fold that held the row out, for all rows or for each row, (N,).
        spread: as of `Predictor.spread`, for all rows or for each row, (N,).

    Raises:
        ValueError: the number of predictions differs from the number of rows.
    """
    if np.shape(predicted) != (len(table),):
        raise ValueError(
            f"{len(table)} rows, but predictions of shape {np.shape(predicted)}; expected one for each row"
        )
    return HeldOut(
        rows=table.row_numbers.astype(np.int64),
        ids=_as_text(table.ids),
        fold=np.full(len(table), fold, np.int64),
        text=table.text.reset_index(drop=True),
        price=table.known_price.astype(np.float64),
        predicted=np.asarray(predicted, np.float64),
        groups=_groups(table),
        spread=np.full(len(table), spread, np.float64),
        weight=table.weight,
    )


def count_shared_rows(held_out: HeldOut, table: HeldOut | Table) -> int:
    """Return the number of held-out rows whose text and price a table has; 0 if it is not that of the training."""
    mine, theirs = (
        pd.MultiIndex.from_arrays([rows.text, np.asarray(rows.price)]) for rows in (held_out, table)
    )
    shared = int(mine.isin(theirs).sum())
    return shared if shared >= TRAINED_ON * len(held_out) else 0


def write_held_out(folder: Path, held_out: HeldOut) -> None:
    """Write `held_out.parquet` into a folder, atomically."""
    write_parquet(folder / HELD_OUT, held_out.to_frame())


def was_refitted(folder: Path) -> bool:
    """Return whether a run, or a member of an ensemble, was trained on its held-out rows after it predicted them."""
    for file in (folder / "run.json", *folder.glob("members/*/run.json")):
        try:
            if "refit" in read_json(file):
                return True
        except (OSError, ValueError, TypeError):  # reported by whoever opens the run
            continue
    return False


def report_refit(folders: Iterable[Path]) -> None:
    """Log which models were trained on their held-out rows after they predicted them."""
    if names := [str(folder) for folder in folders if was_refitted(folder)]:
        more = f" and {len(names) - 3} more models" if len(names) > 4 else ""
        listed = ", ".join(names[:3] if more else names) + more
        logger.info(
            f"the predictions of the held-out rows are those of the first pass of {listed}; a second pass then trained "
            "on all rows"
        )


def read_held_out(folder: Path) -> HeldOut:
    """Read and check the held-out rows of a run, an ensemble or a cross-validation.

    Raises:
        DataError: the folder has no held-out rows, or the file is damaged.
    """
    state = state_of(folder)
    if state.name != "finished" or state.kind not in ("run", "ensemble", "cross-validation"):
        raise DataError(_absence(folder, state), path=str(folder))
    check_format(state, folder)
    check_intact(folder, [HELD_OUT], "train again", DataError)
    try:
        held_out = _of_frame(pd.read_parquet(folder / HELD_OUT))
        price, weight, spread = held_out.price, held_out.weight, held_out.spread
        if not (len(held_out) and np.isfinite(price).all() and (price > 0).all()):
            raise ValueError("expected rows with positive prices")
        if len(np.unique(held_out.rows)) < len(held_out):
            raise ValueError("a row occurs twice")
        if not np.isfinite(held_out.predicted).all():
            raise ValueError("a prediction is not finite")
        if not (np.isfinite(spread) & (spread > 0)).all():
            raise ValueError("expected spreads above 0")
        if weight is not None and not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError("expected weights of at least 0")
    except (OSError, ValueError, KeyError, TypeError) as error:  # includes the errors of pyarrow
        raise DataError(f"{folder / HELD_OUT} is damaged ({error}). Train again.", path=str(folder)) from None
    return held_out


def _of_frame(frame: pd.DataFrame) -> HeldOut:
    weighted = _WEIGHT in frame and pd.api.types.is_float_dtype(frame[_WEIGHT].dtype)  # groups are texts
    groups = frame.drop(columns=[*_COLUMNS, *([_WEIGHT] * weighted)])
    return HeldOut(
        rows=frame["row"].to_numpy(np.int64),
        ids=_as_text(frame["id"]),
        fold=frame["fold"].to_numpy(np.int64),
        text=_as_text(frame["text"]),
        price=frame["price"].to_numpy(np.float64),
        predicted=frame["predicted"].to_numpy(np.float64),
        groups=pd.DataFrame({str(name): _as_text(groups[name]) for name in groups}, index=frame.index),
        spread=frame["spread"].to_numpy(np.float64),
        weight=frame[_WEIGHT].to_numpy(np.float64) if weighted else None,
    )


def _absence(folder: Path, state: State) -> str:
    """Explain why a folder has no held-out rows, and what to do."""
    if not folder.is_dir():
        return f"{folder} {'is a file' if folder.exists() else 'does not exist'}; {_EXPECTED}."
    if state.name == "damaged":
        return (
            f"{folder} is damaged: its pricekit.json cannot be read. Restore it from a copy, or train again."
        )
    if state.kind == "bundle":
        return (
            f"{folder} is a bundle, which contains no held-out rows. Use the run that it was exported from, or add a "
            "table with prices."
        )
    if state.kind and state.name != "finished":
        return f"{folder} is not a finished {state.kind}, so it has no {HELD_OUT}; resume it to finish it."
    return f"{folder} has no {HELD_OUT}; {_EXPECTED}."


def _groups(table: Table) -> pd.DataFrame:
    """Return the columns that group the rows, renamed if they clash with the columns of the file."""
    frame, columns = table.frame.reset_index(drop=True), {}
    for name in frame:
        if isinstance(frame[name].dtype, pd.StringDtype) and _groups_rows(frame[name], table):
            free = str(name)
            while free in (*_COLUMNS, _WEIGHT) or free in columns:
                free += "_"
            columns[free] = _as_text(frame[name])
    return pd.DataFrame(columns, index=frame.index)


def _groups_rows(column: pd.Series, table: Table) -> bool:
    """Return whether a column has 2 to 50 different texts and is neither the model's text nor the price or an id.

    A table does not record its price column. In that column, each text has a single price.
    """
    if not 2 <= column.nunique() <= MOST_VALUES or (column.array == table.text.array).all():
        return False
    prices = pd.Series(table.known_price).groupby(column.to_numpy()).nunique()
    return bool((prices > 1).any())


def _as_text(column: pd.Series) -> pd.Series:
    return column.reset_index(drop=True).astype("str").fillna("")
