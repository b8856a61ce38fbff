"""A model and a table to rows with true and predicted prices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.errors import DataError
from pricekit.evaluation.held_out import HeldOut
from pricekit.evaluation.scores import metric_of
from pricekit.metrics import Metric
from pricekit.options import model_path, path_or_frame
from pricekit.plots.drawing import require_matplotlib
from pricekit.prediction.predictor import Predictor
from pricekit.support.text import counted
from pricekit.workflows.evaluate import judged_rows, priced_rows

LEAST_ROWS = 20
"""Two groups of ten rows, the smallest that are scored."""


@dataclass(frozen=True)
class Judged:
    """Rows with true and predicted prices, and how they are judged.

    Attributes:
        rows: the rows.
        metric: the metric that counts.
        currency: of the prices; None if unknown.
        predictor: the model, if it was opened.
        path: the folder of the model; None for an open one.
    """

    rows: HeldOut
    metric: Metric
    currency: str | None
    predictor: Predictor | None
    path: Path | None


def judge(
    model: Any, table: Any, options: Mapping[str, Any], *, metric: str | None = None, least: int = 2
) -> Judged:
    """Return the rows of a table, or the held-out rows of a model, with their predictions.

    Args:
        model: the path or handle of a bundle, a run, an ensemble or a cross-validation; or an open `Predictor`.
        table: a file or a frame with prices; None: the held-out rows.
        options: options for reading the table.
        metric: the metric that counts; None: that of the model.
        least: the number of rows that the picture needs.

    Raises:
        ConfigError: matplotlib is not installed, the metric is unknown, or options are given without a table.
        DataError: there are no held-out rows, too few rows, or the table cannot be used.
        BundleError, PluginError: the model cannot be opened.
    """
    require_matplotlib()
    if isinstance(model, Predictor):
        require_table(table)
        judged_by = metric_of([] if model.origin is None else [model.origin.path], metric)
        rows = priced_rows(model, path_or_frame(table), options)
        found = Judged(rows, judged_by, model.currency, model, None)
    else:
        path = model_path(model, "model")
        judged_by = metric_of([path], metric)
        rows, predictor = judged_rows(path, path_or_frame(table), options)
        currency = currency_of(path) if predictor is None else predictor.currency
        found = Judged(rows, judged_by, currency, predictor, path)
    check_prices(rows.price, rows.predicted, least)
    return found


def require_table(table: Any) -> None:
    """Raise DataError if an open model comes without a table."""
    if table is None:
        raise DataError(
            "an open model has no held-out rows; add a table, or use the path of its run",
            parameters=("table",),
        )


def check_prices(price: Any, predicted: Any, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return true and predicted prices as float64 (N,) each.

    Raises:
        DataError: they differ in number, there are fewer than `least`, or one is not a number above 0.
    """
    found = []
    for name, given in (("price", price), ("predicted", predicted)):
        try:
            values = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            values = np.empty((0, 0))
        if values.ndim != 1:
            raise DataError(
                f"{name} is not a list of numbers; expected one price for each row", parameters=(name,)
            )
        if len(bad := values[~(np.isfinite(values) & (values > 0))]):
            raise DataError(
                f"{name} contains {bad[0]:g}; a picture has logarithmic axes, so it needs prices above 0",
                parameters=(name,),
            )
        found.append(values)
    actual, priced = found
    if len(actual) != len(priced):
        raise DataError(
            f"there are {counted(len(actual), 'true price')}, but {counted(len(priced), 'predicted price')}; expected "
            "one of each for each row",
            parameters=("price", "predicted"),
        )
    if len(actual) < least:
        raise DataError(
            f"there {'is' if len(actual) == 1 else 'are'} only {counted(len(actual), 'row')} with a price; this "
            f"picture needs at least {least}",
            rows=len(actual),
            least=least,
        )
    return actual, priced


def currency_of(folder: Path) -> str | None:
    """Return the currency of a run, an ensemble or a cross-validation; None if its table did not show one."""
    for file in (folder / "run.json", *sorted(folder.glob("fold-*/run.json"))):
        try:
            found = json.loads(file.read_text("utf-8")).get("currency")
        except (OSError, ValueError, AttributeError):  # reported by whoever opens the run
            continue
        return str(found) if found else None
    return None
