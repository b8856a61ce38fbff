"""What a report is about: a model, rows with or without prices, the table, and products to compare with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.errors import DataError, PricekitError
from pricekit.evaluation.comparison import Comparison, compare_folders
from pricekit.evaluation.held_out import (
    HELD_OUT,
    HeldOut,
    count_shared_rows,
    held_out_of,
    read_held_out,
    report_refit,
)
from pricekit.evaluation.scores import Scores, metric_of, scores_of
from pricekit.evaluation.table_report import TableReport, profile_table
from pricekit.features.fit import some_rows
from pricekit.insight.products import Products, products_of
from pricekit.metrics import Metric
from pricekit.options import columns_over, names_of, read_options_of, rows_without_prices
from pricekit.prediction.predictor import Predictor
from pricekit.runs.load import load_model, read_model
from pricekit.support.log import logger
from pricekit.table import Table, source_name
from pricekit.workflows.evaluate import TRAINED_ON, products_among, usable_rows

MOST_ROWS = 200_000
"""Larger tables are sampled to this number of rows, with a fixed seed."""

MOST_COMPARED = 100_000
"""Rows of the training table that are indexed, to be compared with."""


@dataclass(frozen=True)
class Subject:
    """A model and the rows that the report is about.

    Attributes:
        path: the folder of a bundle, a run, an ensemble or a cross-validation.
        facts: the content of its manifest, `run.json` or `cv.json`.
        metric: that counts.
        rows: with true and predicted prices.
        held_out: whether these are the held-out rows of the model.
        table: the report on the table; None without a table.
        comparison: with other models; None without any.
        notes: sentences on how the rows were chosen.
        products: with known prices, to compare the worst rows with; None without any.
    """

    path: Path
    facts: Mapping[str, Any]
    metric: Metric
    rows: HeldOut
    held_out: bool
    table: TableReport | None
    comparison: Comparison | None
    notes: Sequence[str] = ()
    products: Products | None = None

    @property
    def currency(self) -> str | None:
        """The currency of the prices; None if the training table did not show one."""
        return self.facts.get("currency") or None

    @cached_property
    def scores(self) -> Scores:
        """The scores of the rows."""
        return scores_of(self.rows, self.metric)

    def predictor(self, row: int) -> Predictor:
        """Open the model that predicted a row: of a cross-validation, the run of its fold."""
        folder = self.path / f"fold-{self.rows.fold[row]}"
        return load_model(folder if folder.is_dir() else self.path)


def subject_of(
    model: Path,
    table: Any,
    options: Mapping[str, Any],
    *,
    against: Sequence[Path],
    metric: str | None,
    among: Any = None,
) -> Subject:
    """Read what a report is about.

    If the table contains the held-out rows of the model, it is the training table: then the held-out rows are judged,
    and the table is only described. It is the same for a cross-validation.

    Args:
        model: a bundle, a run, an ensemble or a cross-validation.
        table: a file or a frame with prices; None: the held-out rows.
        options: options for reading the table.
        against: other models of the same table, to compare with.
        metric: that counts; None: that of the model.
        among: a table of products to compare with; None: those of the bundle, or the table if it is the training's.

    Raises:
        PricekitError: as of `pricekit.evaluate` and `pricekit.compare`.
    """
    judged_by = metric_of([model], metric)
    comparison = compare_folders([model, *against], metric) if against else None
    products = None if among is None else products_among(model, among)
    chosen = _choose(model, table, options)
    if chosen.held_out:
        report_refit([model])
    notes, rows = [chosen.note] if chosen.note else [], chosen.rows
    if len(rows) > MOST_ROWS:
        notes.append(sampled(len(rows)))
        rows = rows.take(some_rows(len(rows), MOST_ROWS))
    return Subject(
        model,
        facts_of(model),
        judged_by,
        rows,
        chosen.held_out,
        None if table is None else describe_table(model, table, options),
        comparison,
        tuple(notes),
        products or chosen.products,
    )


@dataclass(frozen=True)
class _Chosen:
    """The rows that are judged, the products to compare them with, and why these rows."""

    rows: HeldOut
    products: Products | None
    held_out: bool
    note: str = ""


def _choose(model: Path, table: Any, options: Mapping[str, Any]) -> _Chosen:
    """Choose the held-out rows of a model without a table or with that of its training, else the rows of the table."""
    if table is None:
        return _Chosen(read_held_out(model), None, True)
    if (model / "cv.json").is_file():
        note = (
            "A cross-validation is judged by the rows that its folds held out; the table is only described."
        )
        return _Chosen(read_held_out(model), None, True, note)
    predictor = load_model(model)
    usable = usable_rows(predictor, table, options)
    if (model / HELD_OUT).is_file():
        held_out = read_held_out(model)
        if count_shared_rows(held_out, held_out_of(usable, usable.known_price)) >= TRAINED_ON * len(held_out):
            note = f"{source_name(table)} is the table of the training, so only the held-out rows are judged."
            products = products_of(usable.take(some_rows(len(usable), MOST_COMPARED)))
            return _Chosen(held_out, products, True, note)
    note = "" if len(usable) <= MOST_ROWS else sampled(len(usable))
    some = usable.take(some_rows(len(usable), MOST_ROWS))
    return _Chosen(held_out_of(some, predictor.predict(some)), predictor.own_products(), False, note)


@dataclass(frozen=True)
class Unpriced:
    """A model and a table without prices.

    Attributes:
        path: the folder of the model.
        facts: the content of its manifest or `run.json`.
        predictor: the model.
        table: N rows.
        predicted: their prices, float32 (N,).
        described: the report on the table; None if there is none.
        products: to compare prices with; None without any.
        note: how the rows were chosen; "" if they are all.
    """

    path: Path
    facts: Mapping[str, Any]
    predictor: Predictor
    table: Table
    predicted: np.ndarray
    described: TableReport | None
    products: Products | None
    note: str


def has_no_prices(predictor: Predictor, table: Any, options: Mapping[str, Any]) -> bool:
    """Return whether a table lacks the model's price column, and the user named no other one."""
    if options.get("price") is not None:
        return False
    some = rows_without_prices(table, predictor.columns, {**options, "limit": 1})
    return predictor.columns.price not in some.frame.columns


def read_unpriced(
    model: Path, predictor: Predictor, table: Any, options: Mapping[str, Any], products: Products | None
) -> Unpriced:
    """Read and price a table without prices; raises DataError if it has no row."""
    rows = rows_without_prices(table, predictor.columns, options)
    if not len(rows):
        raise DataError(f"{source_name(table)} has no row; expected at least one", parameters=("table",))
    note = sampled(len(rows)).replace("judged", "priced") if len(rows) > MOST_ROWS else ""
    rows = rows.take(some_rows(len(rows), MOST_ROWS))
    products = products or predictor.own_products()
    described = describe_table(model, table, options, priced=False)
    return Unpriced(
        model, facts_of(model), predictor, rows, predictor.predict(rows), described, products, note
    )


def describe_table(
    model: Path, table: Any, options: Mapping[str, Any], *, priced: bool = True
) -> TableReport | None:
    """Return the report on the table as the model reads it, with or without its prices; None if there is none."""
    folds = sorted(model.glob("fold-*"))
    columns = columns_over(read_model(folds[0] if folds else model).columns, options)
    try:
        return profile_table(
            table,
            text=list(columns.text),
            price=columns.price if priced else None,
            id=names_of(options.get("id"), "id")[0] if options.get("id") else None,
            read_options=read_options_of(options),
            limit=options.get("limit"),
        )
    except PricekitError as error:
        logger.warning(f"the report does not describe the table: {error}")
        return None


def sampled(count: int) -> str:
    """Return the sentence for more than `MOST_ROWS` rows."""
    return f"Of {count:,} rows, {MOST_ROWS:,} drawn by chance are judged."


def facts_of(model: Path) -> dict[str, Any]:
    """Return the content of the manifest, `run.json` or `cv.json` of a model; {} without any."""
    for name in ("run.json", "cv.json", "manifest.json"):
        try:
            return dict(json.loads((model / name).read_text("utf-8")))
        except (OSError, ValueError):  # the folder of another kind of model
            continue
    return {}
