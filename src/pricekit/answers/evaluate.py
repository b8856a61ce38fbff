"""Score a model on the rows of a table, or on its held-out rows, and list the rows with the largest errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError
from pricekit.evaluation.groups import find_errors
from pricekit.evaluation.held_out import (
    HELD_OUT,
    HeldOut,
    count_shared_rows,
    held_out_of,
    read_held_out,
    report_refit,
)
from pricekit.evaluation.scores import MIN_ROWS, Scores, metric_of, scores_of
from pricekit.insight.comparables import mark_far
from pricekit.insight.products import Products, products_of
from pricekit.io.log import logger
from pricekit.io.record import check_intact, kind_of
from pricekit.io.storage import Address, location_of
from pricekit.options import (
    EvaluateOptions,
    columns_over,
    path_or_frame,
    read_options_of,
    refuse_reading_options,
)
from pricekit.predict.intervals import INTERVALS, Intervals, intervals_in, rows_needed
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import ModelReader
from pricekit.table import Columns, Table, check_output, read_usable, source_name, write_frame
from pricekit.table.currency import require_same_currency
from pricekit.table.row_info import with_row_info

LEVEL = 0.9
"""Level of the interval whose coverage and score are reported."""


def evaluate_model(reader: ModelReader, table: Any, options: EvaluateOptions) -> Scores:
    """Score a model; see `pricekit.Model.evaluate`."""
    source, worst, by, among = path_or_frame(table), options["worst"], options["by"], options["among"]
    out = None if options["out"] is None else location_of(options["out"], "out")
    if among is not None and worst is None and out is None:
        raise ConfigError(
            "a table of similar products marks prices of the worst rows, but none are listed; set their number, or "
            "leave the table out",
            parameters=("worst", "among"),
        )
    if out is not None:
        check_output(out, [source] if isinstance(source, Path | Address) else [])
    metric = metric_of([reader.path], options["metric"])
    products = products_among(reader, options)
    rows, predictor = judged_rows(reader, source, options)
    scores = replace(scores_of(rows, metric), released=released_shares(reader.path, rows, predictor))
    if predictor is not None or kind_of(reader.path) == "cross-validation":
        scores = replace(scores, metrics=scores.metrics | _interval_scores(reader.path, rows, predictor))
    if scores.interval is None and len(rows) >= MIN_ROWS:
        logger.warning(f"the interval of {metric.title} is omitted: it needs scipy (pip install scipy)")
    if worst is None and by is None and out is None:
        return scores
    errors = find_errors(rows, by, metric)
    if products is None and predictor is not None:
        products = predictor.own_products()
    if products is not None:
        errors = replace(errors, rows=mark_far(errors.rows, products))
    if out is not None:
        write_frame(out, errors.rows)
    if worst is not None or by is not None:
        scores = replace(scores, groups=errors.groups)
    if worst is not None:
        share = errors.share_of_worst(worst)
        scores = replace(scores, worst=errors.rows.head(worst), share_of_worst=share)
    return scores


def products_among(reader: ModelReader, options: Mapping[str, Any]) -> Products | None:
    """Return the products of the table `among`, with the columns of a model (`columns_of`); None without a table."""
    among = path_or_frame(options.get("among"))
    return None if among is None else products_of(read_usable(among, columns_of(reader))[0])


def columns_of(reader: ModelReader) -> Columns:
    """Return the columns that a model reads, or the first run of a cross-validation."""
    folds = sorted(reader.path.glob("fold-*"))
    return ModelReader(folds[0]).columns if folds else reader.columns


def judged_rows(
    reader: ModelReader, table: Any, options: Mapping[str, Any]
) -> tuple[HeldOut, Predictor | None]:
    """Return rows with prices and predictions, and the model if it was opened.

    Args:
        reader: of a bundle, a run or an ensemble; without a table of a run, an ensemble or a cross-validation.
        table: a file or a frame with prices; None: the held-out rows.
        options: options for reading the table.

    Raises:
        ConfigError: options without a table.
        PricekitError: the model or the table cannot be read.
    """
    if table is None:
        refuse_reading_options(options)
        held_out = read_held_out(reader.path)
        report_refit([reader.path])
        return held_out, None
    predictor = reader.open()
    judged = priced_rows(predictor, table, options)
    warn_of_training_rows(reader.path, source_name(table), judged)
    return judged, predictor


def priced_rows(predictor: Predictor, table: Any, options: Mapping[str, Any]) -> HeldOut:
    """Return the rows of a table with their prices and the predictions of an open model.

    Args:
        predictor: the open model.
        table: a file or a frame with prices.
        options: options for reading the table.

    Raises:
        DataError: the table cannot be read, or no row can be used.
    """
    return predicted_rows(predictor, usable_rows(predictor, table, options))


def predicted_rows(predictor: Predictor, rows: Table) -> HeldOut:
    """Return rows with prices, and the predictions of a model."""
    inputs = predictor.prepare(rows)
    return held_out_of(rows, predictor.price(inputs), spread=predictor.spread(inputs))


def usable_rows(predictor: Predictor, table: Any, options: Mapping[str, Any]) -> Table:
    """Return the rows of a table with their prices and weights; arguments and errors as of `priced_rows`."""
    rows, _ = read_usable(
        table,
        columns_over(predictor.columns, options),
        limit=options.get("limit"),
        read_options=read_options_of(options),
    )
    require_same_currency(predictor.currency, rows.price_style.currency)
    return with_row_info(rows, options.get("weight"))


def warn_of_training_rows(model: Path, table: str, rows: HeldOut | Table) -> None:
    """Warn if a table has the rows that a run held out: most likely it is the run's training table."""
    if not (model / HELD_OUT).is_file():
        return
    held_out = read_held_out(model)
    if shared := count_shared_rows(held_out, rows):
        logger.warning(
            f"{table} contains {shared:,} of the {len(held_out):,} held-out rows of {model}, so it probably also "
            "contains training rows, and the scores are too optimistic. Without a table, only the held-out rows are "
            "scored."
        )


def calibrated(path: Path, rows: HeldOut, predictor: Predictor | None) -> list[tuple[np.ndarray, Intervals]]:
    """Return the intervals of rows: each part of the rows, int64 (M,), with those of the model that priced it.

    Args:
        path: the model, or a cross-validation, whose folds have intervals of their own.
        rows: with their predictions.
        predictor: the model; None: the rows are its held-out ones.

    Raises:
        ConfigError: the model has no intervals.
        TrainingError, BundleError: they are damaged.
    """
    everything = np.arange(len(rows))
    if predictor is not None:
        return [(everything, predictor.require_intervals())]
    if kind_of(path) != "cross-validation":
        folders = [(everything, path)]
    else:
        folders = [
            (np.flatnonzero(rows.fold == fold), path / f"fold-{fold}") for fold in np.unique(rows.fold)
        ]
    for _, folder in folders:
        check_intact(folder, [INTERVALS])
    return [(part, intervals_in(folder)) for part, folder in folders]


def _interval_scores(path: Path, rows: HeldOut, predictor: Predictor | None) -> dict[str, float]:
    """Return coverage and score of the 90% interval of rows that it was not fitted on; {} without such intervals.

    The score of an interval [l, u] of the log price y is (u - l) + 20·max(l - y, 0, y - u): a low one is narrow and
    contains the price (Gneiting and Raftery 2007, section 6.2).
    """
    if predictor is not None and predictor.intervals is None:
        return {}
    parts = calibrated(path, rows, predictor)
    if any(intervals.highest < LEVEL for _, intervals in parts):
        return {}
    low, high = np.empty(len(rows)), np.empty(len(rows))
    for part, intervals in parts:
        low[part], high[part] = intervals.bounds(rows.predicted[part], rows.spread[part], LEVEL)
    inside = (rows.price >= low) & (rows.price <= high)
    outside = np.maximum(np.maximum(np.log(low / rows.price), np.log(rows.price / high)), 0)
    score = np.log(high / low) + 2 / (1 - LEVEL) * outside
    return {
        "interval_90_coverage": 100 * float(np.average(inside, weights=rows.weight)),
        "interval_90_score": float(np.average(score, weights=rows.weight)),
    }


FACTORS, CONFIDENCES = (1.2, 1.5, 2.0), (0.9, 0.95)
"""Tolerances and confidences for which the share of rows that may go out is reported."""


def released_shares(path: Path, rows: HeldOut, predictor: Predictor | None) -> pd.DataFrame | None:
    """Return which share of rows may go out without a person; None without price intervals.

    Args:
        path: as of `calibrated`.
        rows: with their predictions.
        predictor: the model; None: the rows are its held-out ones.

    Returns:
        A line for each tolerance and confidence: `within` and `confidence`, as `predict` takes them; `share`, of the
        rows that may go out; `held`, the share of these whose true prices are within the factor. `share` is NaN if the
        model was calibrated on too few rows, `held` if no row may go out, or if the limits were chosen on these rows.
    """
    if predictor is not None and predictor.intervals is None:
        return None
    parts = calibrated(path, rows, predictor)
    chosen_here = predictor is None and kind_of(path) != "cross-validation"
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    error = np.abs(np.log(rows.predicted / rows.price))
    lines = []
    for within in FACTORS:
        for confidence in CONFIDENCES:
            share = held = np.nan
            if all(len(intervals.surest) >= rows_needed(confidence) for _, intervals in parts):
                released = np.zeros(len(rows), bool)
                for part, intervals in parts:
                    released[part] = intervals.released(rows.spread[part], within, confidence)
                share = float(np.average(released, weights=weight))
                if share and not chosen_here:
                    held = float(np.average(error[released] <= np.log(within), weights=weight[released]))
            lines.append({"within": within, "confidence": confidence, "share": share, "held": held})
    return pd.DataFrame(lines)
