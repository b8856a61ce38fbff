"""The metric by price, and by the groups of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.error_report import grouping_by
from pricekit.evaluation.groups import MIN_ROWS, Grouping, by_category, by_price
from pricekit.evaluation.scores import metric_of, scores_with_intervals
from pricekit.metrics import Metric
from pricekit.options import WeighedOptions, with_options
from pricekit.plots.drawing import (
    DASHES,
    PLAIN,
    SIZE,
    Display,
    axes_for,
    heading,
    inks,
    legend_below,
    metric_label,
    plain,
    price_label,
    price_scale,
)
from pricekit.plots.source import LEAST_ROWS, check_prices, judge
from pricekit.support.text import counted, printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS = 20
"""The largest groups of a column are drawn; the others are one group."""


@dataclass(repr=False, eq=False)
class DecileDisplay(Display):
    """The metric by decile of the true price, with 95% bootstrap intervals, and the metric over all rows.

    Args:
        scores: one line for each group, (G,): `rows`, the range of the prices `least` and `most`, the metric as
            `value`, and its 95% interval `low` and `high`, NaN if unknown.
        overall: the metric over all rows.
        metric: the metric.
        currency: of the prices; None if unknown.

    Attributes:
        ax_: the axes that `plot` drew on.
        figure_: their figure.

    Example:
        >>> import numpy as np
        >>> from pricekit import plots
        >>> price = np.arange(1.0, 101.0)
        >>> plots.DecileDisplay.from_predictions(price, 1.1 * price, metric="mape")
        DecileDisplay(10 groups of 100 rows, MAPE 10.00)
    """

    scores: pd.DataFrame
    overall: float
    metric: Metric
    currency: str | None = None

    @classmethod
    @with_options(WeighedOptions)
    def from_model(
        cls,
        model: Any,
        table: Any = None,
        *,
        metric: str | None = None,
        ax: Axes | None = None,
        **options: Unpack[WeighedOptions],
    ) -> DecileDisplay:
        """Draw the metric of a model by price.

        Args:
            model: as of `PredictionDisplay.from_model`.
            table: a file or a frame with prices; default: the held-out rows of the model.
            metric: the metric, such as `rmsle`; default: that which the model was trained to minimise.
            ax: the axes to draw on; default: those of a new figure.
            **options: options for reading the table, as of `pricekit.evaluate`.

        Raises:
            ConfigError: matplotlib is not installed, or there is no such metric.
            DataError: as of `PredictionDisplay.from_model`; or there are fewer than 20 rows, or all prices are equal.
        """
        found = judge(model, table, options, metric=metric, least=LEAST_ROWS)
        rows = found.rows
        return cls._of(rows.price, rows.predicted, rows.weight, found.metric, found.currency).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        price: Any,
        predicted: Any,
        *,
        metric: str = "smape",
        currency: str | None = None,
        ax: Axes | None = None,
    ) -> DecileDisplay:
        """Draw the metric of given prices, (N,) each; arguments and errors as of `from_model`."""
        actual, priced = check_prices(price, predicted, LEAST_ROWS)
        return cls._of(actual, priced, None, metric_of([], metric), currency).plot(ax)

    @classmethod
    def _of(
        cls,
        price: np.ndarray,
        predicted: np.ndarray,
        weight: np.ndarray | None,
        metric: Metric,
        currency: str | None,
    ) -> DecileDisplay:
        grouping = deciles(price)
        scores = scores_with_intervals(grouping, predicted, price, metric, weight)
        ranges = pd.Series(price).groupby(grouping.codes).agg(["min", "max"])
        scores["least"], scores["most"] = ranges["min"], ranges["max"]
        return cls(scores, metric(predicted, price, weight), metric, currency)

    def plot(self, ax: Axes | None = None) -> DecileDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        ink, scores = inks(), self.scores
        price_scale(ax, "x", scores[["least", "most"]].to_numpy())
        ax.hlines(
            scores["value"],
            scores["least"],
            scores["most"],
            color=ink.main,
            linewidth=3,
            label="decile of the price",
        )
        middle = np.sqrt(scores["least"] * scores["most"])
        ax.plot(middle, scores["value"], "o", color=ink.main)
        if scores["low"].notna().any():
            ax.vlines(
                middle, scores["low"], scores["high"], color=ink.main, linewidth=1, label="95% interval"
            )
        ax.axhline(
            self.overall,
            linestyle=DASHES,
            color=ink.text,
            linewidth=1,
            label=_all_rows(self),
        )
        ax.set_ylim(bottom=0)
        ax.set_xlabel(price_label("true price", self.currency), **PLAIN)
        ax.set_ylabel(metric_label(self.metric, self.currency), **PLAIN)
        heading(ax, f"{counted(int(scores['rows'].sum()), 'row')} in {counted(len(scores), 'group')}")
        legend_below(ax, None, 3)
        return self._drawn_on(ax)

    def __repr__(self) -> str:
        groups = f"{counted(len(self.scores), 'group')} of {counted(int(self.scores['rows'].sum()), 'row')}"
        return f"DecileDisplay({groups}, {self.metric.title} {self.metric.write(self.overall)})"


@dataclass(repr=False, eq=False)
class GroupDisplay(Display):
    """The metric by group of one column, with 95% bootstrap intervals and numbers of rows.

    Groups with fewer than ten rows, and those behind the twenty largest ones, are one group, "(other)".

    Args:
        by: the column.
        scores: one line for each group, (G,), the largest first: `group`, `rows`, the metric as `value`, and its 95%
            interval `low` and `high`, NaN if unknown.
        overall: the metric over all rows.
        metric: the metric.
        currency: of the prices; None if unknown.

    Attributes:
        ax_: the axes that `plot` drew on.
        figure_: their figure.

    Example:
        >>> import numpy as np
        >>> from pricekit import plots
        >>> price, shelf = np.arange(1.0, 41.0), ["left", "right"] * 20
        >>> plots.GroupDisplay.from_predictions(price, 1.1 * price, shelf, by="shelf").scores["rows"].tolist()
        [20, 20]
    """

    by: str
    scores: pd.DataFrame
    overall: float
    metric: Metric
    currency: str | None = None

    @classmethod
    @with_options(WeighedOptions)
    def from_model(
        cls,
        model: Any,
        table: Any = None,
        *,
        by: str,
        metric: str | None = None,
        ax: Axes | None = None,
        **options: Unpack[WeighedOptions],
    ) -> GroupDisplay:
        """Draw the metric of a model by the groups of a column.

        Args:
            model: as of `PredictionDisplay.from_model`.
            table: a file or a frame with prices; default: the held-out rows of the model.
            by: the column, a text with 2 to 50 different values.
            metric: the metric, such as `rmsle`; default: that which the model was trained to minimise.
            ax: the axes to draw on; default: those of a new figure.
            **options: options for reading the table, as of `pricekit.evaluate`.

        Raises:
            ConfigError: matplotlib is not installed, or there is no such metric.
            DataError: as of `PredictionDisplay.from_model`; or there is no such column, or only one group with at least
                ten rows.
        """
        found = judge(model, table, options, metric=metric, least=LEAST_ROWS)
        rows = found.rows
        grouping = _several(grouping_by(rows, by, MOST_GROUPS), by)
        prices = rows.price, rows.predicted, rows.weight
        return cls._of(grouping, *prices, found.metric, found.currency).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        price: Any,
        predicted: Any,
        groups: Any,
        *,
        by: str = "group",
        metric: str = "smape",
        currency: str | None = None,
        ax: Axes | None = None,
    ) -> GroupDisplay:
        """Draw the metric of given prices by given groups, (N,) each; arguments and errors as of `from_model`.

        Args:
            price: true prices above 0.
            predicted: predicted prices above 0.
            groups: the name of the group of each row.
            by: what the groups are, for the label.
            metric: the metric.
            currency: of the prices, for the labels.
            ax: the axes to draw on; default: those of a new figure.
        """
        actual, priced = check_prices(price, predicted, LEAST_ROWS)
        column = pd.Series(np.asarray(groups, object).ravel(), name=by).astype("str").fillna("")
        if len(column) != len(actual):
            raise DataError(
                f"there are {counted(len(actual), 'row')}, but groups of {len(column):,}; expected one for each row",
                parameters=("groups",),
            )
        grouping = _several(by_category(column, MOST_GROUPS), by)
        return cls._of(grouping, actual, priced, None, metric_of([], metric), currency).plot(ax)

    @classmethod
    def _of(
        cls,
        grouping: Grouping,
        price: np.ndarray,
        predicted: np.ndarray,
        weight: np.ndarray | None,
        metric: Metric,
        currency: str | None,
    ) -> GroupDisplay:
        scores = scores_with_intervals(grouping, predicted, price, metric, weight)
        return cls(grouping.by, scores, metric(predicted, price, weight), metric, currency)

    def plot(self, ax: Axes | None = None) -> GroupDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        scores = self.scores
        ax = axes_for(ax, (SIZE[0], 1.6 + 0.28 * len(scores)))
        ink, places = inks(), np.arange(len(scores))
        if scores["low"].notna().any():
            ax.hlines(
                places, scores["low"], scores["high"], color=ink.main, linewidth=1.5, label="95% interval"
            )
        ax.plot(scores["value"], places, "o", color=ink.main)
        ax.axvline(
            self.overall,
            linestyle=DASHES,
            color=ink.text,
            linewidth=1,
            label=_all_rows(self),
        )
        labels = [
            f"{plain(group)}  ({rows:,})" for group, rows in zip(scores["group"], scores["rows"], strict=True)
        ]
        ax.set_yticks(places, labels=labels, **PLAIN)
        ax.set_ylim(len(scores) - 0.4, -0.6)
        ax.set_xlim(left=0)
        ax.set_xlabel(metric_label(self.metric, self.currency), **PLAIN)
        heading(ax, f"by {plain(self.by)} (number of rows)")
        legend_below(ax, None, 2)
        return self._drawn_on(ax)

    def __repr__(self) -> str:
        groups = f"{counted(len(self.scores), 'group')} of {counted(int(self.scores['rows'].sum()), 'row')}"

        score = f"{self.metric.title} {self.metric.write(self.overall)}"
        return f"GroupDisplay(by {shorten(printable(self.by))}: {groups}, {score})"


def deciles(price: np.ndarray) -> Grouping:
    """Return the grouping by price; raises DataError if it has a single group."""
    found = by_price(price)
    if len(found.labels) < 2:
        raise DataError(
            f"all {len(price):,} rows are in one group by price; a picture by price needs groups of at least "
            f"{MIN_ROWS} rows with different prices"
        )
    return found


def _all_rows(display: DecileDisplay | GroupDisplay) -> str:
    return f"all rows: {display.metric.write(display.overall)}"


def _several(grouping: Grouping, by: str) -> Grouping:
    if len(grouping.labels) < 2:
        raise DataError(
            f"the column {by!r} has only one group with at least {MIN_ROWS} rows; a picture by group needs two",
            parameters=("by",),
            column=by,
        )
    return grouping
