"""The rows over which importance is measured, with the models that price them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.held_out import FILE, HeldOut, held_out_of, read_held_out, was_refitted
from pricekit.options import columns_over
from pricekit.prediction.predictor import Predictor
from pricekit.runs.load import load_model
from pricekit.support.log import logger
from pricekit.support.text import counted
from pricekit.table import Columns, Table, source_name
from pricekit.workflows.evaluate import refuse_options, usable_rows, warn_of_training_rows

MOST_ROWS = 2000
"""Of more rows, so many are drawn by chance, with a fixed seed."""
SEED = 0
DIFFERENT = 0.01
"""Held-out rows whose log prices differ so much, in the median, from those of their run lack columns that it read."""


@dataclass(frozen=True)
class Share:
    """Rows with the model that prices them; a cross-validation has one for each fold.

    Attributes:
        predictor: the model.
        table: the rows, with prices.
        columns: the columns of the table that the model reads.
    """

    predictor: Predictor
    table: Table
    columns: Columns

    def price(self, rows: Table) -> np.ndarray:
        """Return the price of each row of a table, float32 (N,)."""
        return self.predictor.price(self.predictor.prepare(rows))


def shares_of(model: Path, table: Any, options: Mapping[str, Any]) -> list[Share]:
    """Return the rows of a table, or the held-out rows of a model, with the models that price them.

    Args:
        model: a bundle, a run or an ensemble; without a table also a cross-validation.
        table: a file or a frame with prices; None: the held-out rows.
        options: options for reading the table.

    Raises:
        ConfigError: options without a table.
        DataError: there are no held-out rows, fewer than two rows, or the table cannot be used.
        BundleError, PluginError: the model cannot be opened.
    """
    if table is None:
        refuse_options(options)
        return _held_out(model)
    predictor = load_model(model)
    rows = usable_rows(predictor, table, options)
    warn_of_training_rows(model, source_name(table), held_out_of(rows, rows.known_price))
    columns = columns_over(predictor.columns, options)
    return [Share(predictor, rows.take(_chosen(len(rows))), columns)]


def _held_out(model: Path) -> list[Share]:
    held_out = read_held_out(model)
    held_out = held_out.take(_chosen(len(held_out)))
    if was_refitted(model):
        logger.warning(
            f"after {model} predicted its held-out rows, it was trained on all rows, so the score is too optimistic; "
            "add a table with other rows for the importance on new rows"
        )
    shares, different = [], []
    for fold in np.unique(held_out.fold):
        folder = model / f"fold-{fold}"
        rows = held_out.take(np.flatnonzero(held_out.fold == fold)) if folder.is_dir() else held_out
        predictor = load_model(folder if folder.is_dir() else model)
        share = Share(predictor, table_of(rows, predictor.columns), predictor.columns)
        different.append(np.abs(np.log(share.price(share.table) / rows.predicted)))
        shares.append(share)
        if rows is held_out:
            break
    if not was_refitted(model) and np.median(np.concatenate(different)) > DIFFERENT:
        logger.warning(
            f"the features of {model} read columns that {FILE} does not contain, so they are measured as if these were "
            "empty; add the table of the training"
        )
    return shares


def _chosen(count: int) -> np.ndarray:
    """Return the numbers of the rows that are judged, ascending; raises DataError."""
    if count < 2:
        raise DataError(
            f"there {'is' if count == 1 else 'are'} only {counted(count, 'row')} with a price; importance needs at "
            "least 2, because it exchanges values between rows",
            parameters=("table",),
            rows=count,
        )
    if count <= MOST_ROWS:
        return np.arange(count)
    logger.info(f"importance is measured on {MOST_ROWS:,} of the {counted(count, 'row')}, drawn by chance")
    return np.sort(np.random.default_rng(SEED).choice(count, MOST_ROWS, replace=False))


def table_of(rows: HeldOut, columns: Columns) -> Table:
    """Return held-out rows as a table with the text columns of a model and the columns that group the rows."""
    names = columns.text
    texts = {names[0]: rows.text.tolist()} if len(names) == 1 else cells_of(rows.text.tolist(), names)
    cells = {name: pd.Series(pd.array(found, dtype="str")) for name, found in texts.items()}
    others = {
        str(name): rows.groups[name].reset_index(drop=True) for name in rows.groups if name not in cells
    }
    return Table(
        ids=rows.ids,
        text=rows.text,
        price=rows.price,
        frame=pd.DataFrame(cells | others),
        rows=rows.rows,
        weight=rows.weight,
    )


def cells_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Divide texts that consist of lines "column: cell" into the cells of their columns; "" for a blank cell.

    Args:
        texts: as the table reader joins several text columns, (N,).
        names: the columns, in their order.

    Example:
        >>> cells_of(["name: Tea\\nnotes: Mild\\nFresh"], ["name", "category", "notes"])
        {'name': ['Tea'], 'category': [''], 'notes': ['Mild\\nFresh']}
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for text in texts:
        cells: dict[str, list[str]] = {name: [] for name in names}
        left, current = list(names), names[0]
        for line in text.split("\n"):
            begun = next((name for name in left if line.startswith(f"{name}: ")), None)
            if begun is not None:
                left, current = left[left.index(begun) + 1 :], begun
                line = line.removeprefix(f"{begun}: ")
            cells[current].append(line)
        for name, lines in cells.items():
            found[name].append("\n".join(lines))
    return found
