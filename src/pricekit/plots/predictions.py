"""Pictures of true and predicted prices: of rows, by price and by group, and of price intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import pandas as pd

from pricekit.answers.evaluate import calibrated, judged_rows
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.groups import MIN_ROWS, Grouping, by_category, by_price, grouping_by
from pricekit.evaluation.held_out import HeldOut, rows_of_prices
from pricekit.evaluation.scores import facts_of, metric_of, overall, scores_with_intervals, surest_scores
from pricekit.io.log import logger
from pricekit.io.record import kind_of
from pricekit.metrics import Metric
from pricekit.options import WeighedOptions, path_or_frame, with_options
from pricekit.plots.drawing import (
    DASHES,
    MARKERS,
    SIZE,
    Display,
    axes_for,
    clear_legend,
    dense_points,
    inks,
    label_axis,
    legend_below,
    metric_label,
    number,
    plain,
    price_axis,
    price_label,
    require_matplotlib,
    show_as_is,
)
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import reader_of
from pricekit.table.currency import measure_of
from pricekit.wording import counted, printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        path: the folder of the model.
    """

    rows: HeldOut
    metric: Metric
    currency: str | None
    predictor: Predictor | None
    path: Path


def judge(
    model: Any, table: Any, options: Mapping[str, Any], metric: str | None = None, least: int = LEAST_ROWS
) -> Judged:
    """Return the rows of a table, or the held-out rows of a model, with their predictions.

    Args:
        model: a `pricekit.Model` or a path; without a table also a cross-validation.
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
    reader = reader_of(model)
    judged_by = metric_of([reader.path], metric)
    rows, predictor = judged_rows(reader, path_or_frame(table), options)
    check_prices(rows.price, rows.predicted, least)
    return Judged(rows, judged_by, currency_of(reader.path), predictor, reader.path)


def check_prices(price: Any, predicted: Any, least: int = LEAST_ROWS) -> HeldOut:
    """Return true and predicted prices as rows.

    Raises:
        DataError: they differ in number, there are fewer than `least`, or one is not a number above 0.
    """
    arrays = []
    for name, prices in (("price", price), ("predicted", predicted)):
        try:
            values = np.asarray(prices, np.float64)
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
        arrays.append(values)
    count, others = map(len, arrays)
    if count != others:
        raise DataError(
            f"there are {counted(count, 'true price')}, but {counted(others, 'predicted price')}; expected "
            "one of each for each row",
            parameters=("price", "predicted"),
        )
    if count < least:
        raise DataError(
            f"there {'is' if count == 1 else 'are'} only {counted(count, 'row')} with a price; this "
            f"picture needs at least {least}",
            rows=count,
            least=least,
        )
    return rows_of_prices(*arrays)


def currency_of(folder: Path) -> str | None:
    """Return the currency and unit of the prices of a run, an ensemble or a cross-validation; None if unknown."""
    named = (measure_of(facts_of(model)) for model in (folder, *sorted(folder.glob("fold-*"))))
    return next(filter(None, named), None)


FACTOR = 2.0
"""The dashed lines are at this factor above and below the true price."""


@dataclass(repr=False, eq=False)
class PredictionDisplay(Display):
    """Predicted against true prices, on logarithmic axes, with lines for equality and for a factor of 2.

    Args:
        price: true prices, float64 (N,), N at least 2.
        predicted: predicted prices, float64 (N,).
        currency: of both; None if unknown.

    Attributes:
        ax_: the axes that `plot` drew on.
        figure_: their figure.

    Example:
        >>> from pricekit import plots
        >>> plots.PredictionDisplay.from_predictions([2.0, 5.0, 9.0], [2.5, 4.0, 19.0])
        PredictionDisplay(3 rows, 66.7% within a factor of 2)
    """

    price: np.ndarray
    predicted: np.ndarray
    currency: str | None = None

    @classmethod
    @with_options(WeighedOptions)
    def from_model(
        cls, model: Any, table: Any = None, *, ax: Axes | None = None, **options: Unpack[WeighedOptions]
    ) -> PredictionDisplay:
        """Draw the prices of a model.

        Args:
            model: a `pricekit.Model` or its path; without a table also a cross-validation.
            table: a file or a frame with prices; default: the held-out rows of the model.
            ax: the axes to draw on; default: those of a new figure.
            **options: options for reading the table, as of `pricekit.evaluate`.

        Raises:
            ConfigError: matplotlib is not installed.
            DataError: the table cannot be used, there are fewer than two rows, or the model has no held-out rows.
            BundleError, PluginError: the model cannot be opened.
        """
        judged = judge(model, table, options, least=2)
        return cls(judged.rows.price, judged.rows.predicted, judged.currency).plot(ax)

    @classmethod
    def from_predictions(
        cls, price: Any, predicted: Any, *, currency: str | None = None, ax: Axes | None = None
    ) -> PredictionDisplay:
        """Draw given prices.

        Args:
            price: true prices above 0, (N,).
            predicted: predicted prices above 0, (N,).
            currency: of both, for the labels.
            ax: the axes to draw on; default: those of a new figure.

        Raises:
            ConfigError: matplotlib is not installed.
            DataError: the prices cannot be drawn.
        """
        rows = check_prices(price, predicted, 2)
        return cls(rows.price, rows.predicted, currency).plot(ax)

    @property
    def within(self) -> float:
        """The percentage of rows whose prices differ by at most a factor of 2."""
        return 100 * float((np.abs(np.log(self.predicted / self.price)) <= np.log(FACTOR)).mean())

    def plot(self, ax: Axes | None = None) -> PredictionDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        ink, both = inks(), np.concatenate([self.price, self.predicted])
        dense_points(ax, self.price, self.predicted)
        price_axis(ax, "x", both, price_label("true price", self.currency))
        price_axis(ax, "y", both, price_label("predicted price", self.currency))
        ax.set_aspect("equal")
        ends = np.array(ax.get_xlim())
        ax.plot(ends, ends, color=ink.text, linewidth=1.2, label="predicted = true price")
        label = f"factor of {FACTOR:g}: {self.within:.0f}% of the rows between"
        for factor in (FACTOR, 1 / FACTOR):
            ax.plot(ends, ends * factor, DASHES, color=ink.text, linewidth=1, label=label)
            label = "_"
        ax.set_ylim(*ends)
        clear_legend(ax.legend(loc="upper left", fontsize="small"))
        return self._drawn_on(ax, counted(len(self.price), "row"))

    def __repr__(self) -> str:
        return (
            f"PredictionDisplay({counted(len(self.price), 'row')}, {self.within:.1f}% within a factor of 2)"
        )


QUANTILES = 0.1, 0.5, 0.9
_LINES = {0.1: (0, (1, 1.2)), 0.5: "-", 0.9: "--"}
MOST_BINS, ROWS_PER_BIN = 20, 25


@dataclass(repr=False, eq=False)
class ResidualDisplay(Display):
    """The factor between predicted and true price, against the predicted price, with running quantiles.

    A factor of 1 is exact. A median above 1 means that such predictions are typically too high.

    Args:
        predicted: predicted prices, float64 (N,), N at least 20.
        factor: predicted / true price, float64 (N,).
        currency: of the prices; None if unknown.

    Attributes:
        ax_: the axes that `plot` drew on.
        figure_: their figure.

    Example:
        >>> import numpy as np
        >>> from pricekit import plots
        >>> price = np.arange(1.0, 41.0)
        >>> plots.ResidualDisplay.from_predictions(price, 2 * price).running["50%"].tolist()
        [2.0, 2.0]
    """

    predicted: np.ndarray
    factor: np.ndarray
    currency: str | None = None

    @classmethod
    @with_options(WeighedOptions)
    def from_model(
        cls, model: Any, table: Any = None, *, ax: Axes | None = None, **options: Unpack[WeighedOptions]
    ) -> ResidualDisplay:
        """Draw the factors of a model, for at least 20 rows; otherwise as `PredictionDisplay.from_model`."""
        judged = judge(model, table, options)
        return cls._of(judged.rows, judged.currency).plot(ax)

    @classmethod
    def from_predictions(
        cls, price: Any, predicted: Any, *, currency: str | None = None, ax: Axes | None = None
    ) -> ResidualDisplay:
        """Draw the factors of given prices, for at least 20 rows; otherwise as that of `PredictionDisplay`."""
        return cls._of(check_prices(price, predicted), currency).plot(ax)

    @classmethod
    def _of(cls, rows: HeldOut, currency: str | None) -> ResidualDisplay:
        return cls(rows.predicted, rows.predicted / rows.price, currency)

    @property
    def running(self) -> pd.DataFrame:
        """Quantiles `10%`, `50%` and `90%` of the factor in up to 20 bins of at least 25 rows, and the median price.

        The column `predicted` is the median predicted price of a bin. Fewer than 50 rows are two bins.
        """
        bins = int(np.clip(len(self.predicted) // ROWS_PER_BIN, 2, MOST_BINS))
        parts = np.array_split(np.argsort(self.predicted, kind="stable"), bins)
        rows = [
            {"predicted": np.median(self.predicted[part])}
            | {f"{level:.0%}": np.quantile(self.factor[part], level) for level in QUANTILES}
            for part in parts
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: Axes | None = None) -> ResidualDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        ink, running = inks(), self.running
        dense_points(ax, self.predicted, self.factor)
        price_axis(ax, "x", self.predicted, price_label("predicted price", self.currency))
        _factor_scale(ax, self.factor)
        ax.axhline(1, color=ink.text, linewidth=1)
        for level in reversed(QUANTILES):
            label = "running median" if level == 0.5 else f"running {level:.0%} quantile"
            ax.plot(
                running["predicted"], running[f"{level:.0%}"], linestyle=_LINES[level], color=ink.text,
                linewidth=2, label=label,
            )  # fmt: skip
        ax.set_ylabel("predicted / true price")
        legend_below(ax, 3)
        return self._drawn_on(ax, counted(len(self.predicted), "row"))

    def __repr__(self) -> str:
        median = float(np.median(self.factor))
        return f"ResidualDisplay({counted(len(self.factor), 'row')}, median factor {median:.3g})"


def _factor_scale(ax: Axes, factor: np.ndarray) -> None:
    """Give the y axis a logarithmic scale with powers of 2, symmetric around 1."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    far = max(1.0, 1.05 * float(np.abs(np.log2(factor)).max()))
    step = int(np.ceil(far / 4))
    ticks = np.arange(-(far // step), far // step + 1) * step
    ax.set_yscale("log")  # with base 2, hexagons would be misplaced
    ax.set_ylim(2**-far, 2**far)
    ax.yaxis.set_major_locator(FixedLocator(list(2.0**ticks)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: number(value) if value >= 1 else f"1/{number(1 / value)}")
    )


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
        judged = judge(model, table, options, metric)
        return cls._of(judged.rows, judged.metric, judged.currency).plot(ax)

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
        return cls._of(check_prices(price, predicted), metric_of([], metric), currency).plot(ax)

    @classmethod
    def _of(cls, rows: HeldOut, metric: Metric, currency: str | None) -> DecileDisplay:
        grouping = deciles(rows.price)
        scores = scores_with_intervals(grouping, rows, metric)
        ranges = pd.Series(rows.price).groupby(grouping.codes).agg(["min", "max"])
        scores["least"], scores["most"] = ranges["min"], ranges["max"]
        return cls(scores, overall(rows, metric), metric, currency)

    def plot(self, ax: Axes | None = None) -> DecileDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        ink, scores = inks(), self.scores
        label = price_label("true price", self.currency)
        price_axis(ax, "x", scores[["least", "most"]].to_numpy(), label)
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
        _draw_overall(ax.axhline, self)
        ax.set_ylim(bottom=0)
        label_axis(ax, "y", metric_label(self.metric, self.currency))
        legend_below(ax, 3)
        rows = counted(int(scores["rows"].sum()), "row")
        return self._drawn_on(ax, f"{rows} in {counted(len(scores), 'group')}")

    def __repr__(self) -> str:
        return f"DecileDisplay({_summary(self)})"


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
        judged = judge(model, table, options, metric)
        grouping = grouping_by(judged.rows, by, MOST_GROUPS)
        return cls._of(judged.rows, _several(grouping, by), judged.metric, judged.currency).plot(ax)

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
        rows = check_prices(price, predicted)
        column = pd.Series(np.asarray(groups, object).ravel(), name=by).astype("str").fillna("")
        if len(column) != len(rows):
            raise DataError(
                f"there are {counted(len(rows), 'row')}, but groups of {len(column):,}; expected one for each row",
                parameters=("groups",),
            )
        grouping = _several(by_category(column, MOST_GROUPS), by)
        return cls._of(rows, grouping, metric_of([], metric), currency).plot(ax)

    @classmethod
    def _of(cls, rows: HeldOut, grouping: Grouping, metric: Metric, currency: str | None) -> GroupDisplay:
        scores = scores_with_intervals(grouping, rows, metric)
        return cls(grouping.by, scores, overall(rows, metric), metric, currency)

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
        _draw_overall(ax.axvline, self)
        labels = [
            f"{plain(group)}  ({rows:,})" for group, rows in zip(scores["group"], scores["rows"], strict=True)
        ]
        ax.set_yticks(places, labels=labels)
        show_as_is(ax.get_yticklabels())
        ax.set_ylim(len(scores) - 0.4, -0.6)
        ax.set_xlim(left=0)
        label_axis(ax, "x", metric_label(self.metric, self.currency))
        legend_below(ax, 2)
        return self._drawn_on(ax, f"by {plain(self.by)} (number of rows)")

    def __repr__(self) -> str:
        return f"GroupDisplay(by {shorten(printable(self.by))}: {_summary(self)})"


def deciles(price: np.ndarray) -> Grouping:
    """Return the grouping by price; raises DataError if it has a single group."""
    grouping = by_price(price)
    if len(grouping.labels) < 2:
        raise DataError(
            f"all {len(price):,} rows are in one group; a picture by price or by spread needs groups of at least "
            f"{MIN_ROWS} rows whose values differ"
        )
    return grouping


def _summary(display: DecileDisplay | GroupDisplay) -> str:
    groups = f"{counted(len(display.scores), 'group')} of {counted(int(display.scores['rows'].sum()), 'row')}"
    return f"{groups}, {display.metric.title} {display.metric.write(display.overall)}"


def _draw_overall(line: Callable[..., object], display: DecileDisplay | GroupDisplay) -> None:
    """Draw the metric over all rows with `axhline` or `axvline`."""
    label = f"all rows: {display.metric.write(display.overall)}"
    line(display.overall, linestyle=DASHES, color=inks().text, linewidth=1, label=label)


def _several(grouping: Grouping, by: str) -> Grouping:
    if len(grouping.labels) < 2:
        raise DataError(
            f"the column {by!r} has only one group with at least {MIN_ROWS} rows; a picture by group needs two",
            parameters=("by",),
            column=by,
        )
    return grouping


SHOWN = 0.5, 0.8, 0.95
"""Levels that are drawn by price and by spread; the highest one of a model that has none of them."""

By = Literal["level", "price", "spread"]


@dataclass(repr=False, eq=False)
class CoverageDisplay(Display):
    """The share of true prices inside the price intervals, against the nominal level.

    Args:
        price: true prices, float64 (N,), N at least 20.
        inside: for each level, whether each true price is inside its interval, bool (Q, N).
        levels: ascending, each in (0, 1), float64 (Q,).
        weight: how much each row counts, float64 (N,); None: all count equally.
        currency: of the prices; None if unknown.
        spread: how sure each price is expected to be, ascending with the width of the intervals, float64 (N,); None if
            unknown.

    Attributes:
        ax_: the axes that `plot` drew on.
        figure_: their figure.

    Example:
        >>> import numpy as np
        >>> from pricekit import plots
        >>> price = np.arange(1.0, 101.0)
        >>> bounds = np.column_stack([0.5 * price, np.where(price < 81, 2.0, 0.9) * price])
        >>> plots.CoverageDisplay.from_predictions(price, {0.9: bounds})
        CoverageDisplay(100 rows, 80.0% inside the 90% interval)
    """

    price: np.ndarray
    inside: np.ndarray
    levels: np.ndarray
    weight: np.ndarray | None = None
    currency: str | None = None
    spread: np.ndarray | None = None

    @classmethod
    @with_options(WeighedOptions)
    def from_model(
        cls,
        model: Any,
        table: Any = None,
        *,
        by: By = "level",
        ax: Axes | None = None,
        **options: Unpack[WeighedOptions],
    ) -> CoverageDisplay:
        """Draw the coverage of a model's intervals.

        The intervals of a run were fitted on its held-out rows. So on them, the coverage by level is close to the
        nominal one in any case. This is not so in a cross-validation: the run that held out a row fitted its intervals
        on other rows.

        Args:
            model: as of `PredictionDisplay.from_model`.
            table: a file or a frame with prices; default: the held-out rows of the model.
            by: "level" draws all levels over all rows, "price" some levels by decile of the true price, and "spread" by
                tenth of how sure the prices are, the surest rows first.
            ax: the axes to draw on; default: those of a new figure.
            **options: options for reading the table, as of `pricekit.evaluate`.

        Raises:
            ConfigError: matplotlib is not installed, or the model has no intervals.
            DataError: as of `PredictionDisplay.from_model`; or there are fewer than 20 rows; or, by price,
                all are equal.
        """
        judged = judge(model, table, options)
        display = coverage_of(judged)
        if judged.predictor is None and kind_of(judged.path) != "cross-validation":
            logger.warning(
                f"the intervals of {judged.path} were fitted on these held-out rows, so their coverage says little; "
                "use a table with other rows, or a cross-validation"
            )
        return display.plot(ax, by=by)

    @classmethod
    def from_predictions(
        cls,
        price: Any,
        bounds: Mapping[float, Any],
        *,
        by: By = "level",
        currency: str | None = None,
        ax: Axes | None = None,
    ) -> CoverageDisplay:
        """Draw the coverage of given intervals.

        Args:
            price: true prices above 0, (N,).
            bounds: for each level, such as 0.9, the lower and the upper bounds, (N, 2), as
                `PriceRegressor.predict_interval` returns them.
            by: "level" or "price", as of `from_model`.
            currency: of the prices, for the labels.
            ax: the axes to draw on; default: those of a new figure.

        Raises:
            ConfigError: matplotlib is not installed.
            DataError: the prices or the bounds cannot be drawn.
        """
        actual = check_prices(price, price).price
        levels = sorted(bounds)
        arrays = [np.asarray(bounds[level], np.float64) for level in levels]
        if not levels or not all(0 < level < 1 for level in levels):
            raise DataError(
                f"the levels are {levels}; expected shares between 0 and 1", parameters=("bounds",)
            )
        if any(each.shape != (len(actual), 2) for each in arrays):
            raise DataError(
                f"bounds need a lower and an upper bound for each of the {counted(len(actual), 'row')}",
                parameters=("bounds",),
            )
        inside = [(actual >= each[:, 0]) & (actual <= each[:, 1]) for each in arrays]
        return cls(actual, np.array(inside), np.array(levels), None, currency).plot(ax, by=by)

    @property
    def share(self) -> np.ndarray:
        """The share of all true prices inside the interval of each level, float64 (Q,)."""
        return np.average(self.inside, axis=1, weights=self.weight)

    @property
    def _weights(self) -> np.ndarray:
        return np.ones(len(self.price)) if self.weight is None else self.weight

    def plot(self, ax: Axes | None = None, *, by: By = "level") -> CoverageDisplay:
        """Draw on axes, or on those of a new figure; return the display itself.

        Args:
            ax: the axes to draw on; default: those of a new figure.
            by: as of `from_model`.

        Raises:
            ConfigError: `by` is something else, or "spread" of intervals whose spreads are unknown.
            DataError: by price or spread, and all rows are in one group.
        """
        possible = ("level", "price") if self.spread is None else ("level", "price", "spread")
        if by not in possible:
            raise ConfigError(
                f"by is {by!r}; expected {' or '.join(map(repr, possible))}", parameters=("by",)
            )
        ax = axes_for(ax)
        if by == "price":
            price_axis(ax, "x", self.price, price_label("true price, by decile", self.currency))
            self._plot_groups(ax, deciles(self.price).codes, np.log(self.price), np.exp)
        elif by == "spread" and self.spread is not None:
            groups = deciles(self.spread).codes
            ax.set_xlabel("tenth of the rows, from the surest to the least sure")
            self._plot_groups(ax, groups, groups + 1.0, lambda place: place)
        else:
            self._plot_levels(ax)
        ax.set_ylabel("true prices inside the interval (%)")
        return self._drawn_on(ax, counted(len(self.price), "row"))

    def _plot_levels(self, ax: Axes) -> None:
        ink, level = inks(), np.linspace(0, 1, 101)
        weight = self._weights
        sd = np.sqrt(level * (1 - level) * np.sum(weight**2)) / weight.sum()
        ax.fill_between(
            100 * level, 100 * np.clip(level - 1.96 * sd, 0, 1), 100 * np.clip(level + 1.96 * sd, 0, 1),
            color=ink.text, alpha=0.15, linewidth=0, label="by chance, 95% of samples",
        )  # fmt: skip
        ax.plot([0, 100], [0, 100], DASHES, color=ink.text, linewidth=1, label="nominal")
        ax.plot(100 * self.levels, 100 * self.share, "o-", color=ink.main, markersize=5, label="found")
        ax.set(xlim=(0, 100), ylim=(0, 102), xlabel="level of the interval (%)")
        clear_legend(ax.legend(loc="upper left", fontsize="small"))

    def _plot_groups(
        self, ax: Axes, groups: np.ndarray, place: np.ndarray, shown_at: Callable[[Any], Any]
    ) -> None:
        """Draw the coverage of each group at what `shown_at` makes of the median place of its rows."""
        ink, weight = inks(), self._weights
        shown = [row for row, level in enumerate(self.levels) if np.isclose(level, SHOWN).any()]
        for nth, row in enumerate(shown or [len(self.levels) - 1]):
            level, colour = self.levels[row], ink.several[nth]
            frame = pd.DataFrame({"place": place, "hit": self.inside[row] * weight, "weight": weight})
            parts = frame.groupby(groups).agg({"place": "median", "hit": "sum", "weight": "sum"})
            parts = parts[parts["weight"] > 0]
            ax.axhline(100 * level, linestyle=DASHES, color=colour, linewidth=1)
            ax.plot(
                shown_at(parts["place"]), 100 * parts["hit"] / parts["weight"], color=colour, marker=MARKERS[nth],
                label=f"{100 * level:g}% interval: {100 * self.share[row]:.1f}% of all rows",
            )  # fmt: skip
        ax.set(ylim=(0, 102))
        ax.plot([], [], DASHES, color=ink.text, linewidth=1, label="nominal")
        legend_below(ax, 2)

    def __repr__(self) -> str:
        rows, level = counted(len(self.price), "row"), int(np.abs(self.levels - 0.9).argmin())
        coverage = f"{100 * self.share[level]:.1f}% inside the {100 * self.levels[level]:g}% interval"
        return f"CoverageDisplay({rows}, {coverage})"


@dataclass(repr=False, eq=False)
class SurestDisplay(Display):
    """The metric of the surest rows against their share of all rows.

    A curve that falls to the left means that the model knows which prices are sure.

    Args:
        scores: as of `pricekit.evaluation.scores.surest_scores`: `share`, `rows` and the metric by its name.
        metric: the metric.
        currency: of the prices; None if unknown.

    Attributes:
        ax_: the axes that `plot` drew on.
        figure_: their figure.

    Example:
        >>> import numpy as np
        >>> from pricekit import plots
        >>> price, spread = np.arange(1.0, 101.0), np.arange(1.0, 101.0)
        >>> plots.SurestDisplay.from_predictions(price, price * np.where(spread > 50, 1.2, 1), spread, metric="mape")
        SurestDisplay(100 rows, MAPE 0.00 of the surest half, 10.00 of all)
    """

    scores: pd.DataFrame
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
    ) -> SurestDisplay:
        """Draw the metric of a model's surest rows; arguments and errors as of `DecileDisplay.from_model`.

        Raises:
            DataError: also if the model is equally sure of all rows.
        """
        judged = judge(model, table, options, metric)
        return cls.of(judged.rows, judged.metric, judged.currency).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        price: Any,
        predicted: Any,
        spread: Any,
        *,
        metric: str = "smape",
        currency: str | None = None,
        ax: Axes | None = None,
    ) -> SurestDisplay:
        """Draw the metric of given prices.

        Args:
            price: true prices above 0, (N,).
            predicted: predicted prices above 0, (N,).
            spread: how unsure each price is, a number above 0, (N,); only the order counts.
            metric: the metric.
            currency: of the prices, for the labels.
            ax: the axes to draw on; default: those of a new figure.

        Raises:
            ConfigError: matplotlib is not installed, or the metric is unknown.
            DataError: the prices cannot be drawn, or all are equally sure.
        """
        rows = replace(check_prices(price, predicted), spread=check_prices(price, spread).predicted)
        return cls.of(rows, metric_of([], metric), currency).plot(ax)

    @classmethod
    def of(cls, rows: HeldOut, metric: Metric, currency: str | None) -> SurestDisplay:
        """Return the display of rows, not drawn; raises DataError if all are equally sure."""
        scores = surest_scores(rows, metric)
        if scores is None:
            raise DataError(
                f"all {len(rows):,} rows are equally sure, or fewer than {LEAST_ROWS} have a weight; this picture "
                "needs rows of which some are surer than others"
            )
        return cls(scores, metric, currency)

    def plot(self, ax: Axes | None = None) -> SurestDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        values = self.scores[self.metric.name]
        ax.plot(100 * self.scores["share"], values, "o-", color=inks().main, markersize=5)
        ax.axhline(
            values.iloc[-1], linestyle=DASHES, color=inks().text, linewidth=1,
            label=f"all rows: {self.metric.write(values.iloc[-1])}",
        )  # fmt: skip
        ax.set(xlim=(0, 102), xlabel="rows that are priced, surest first (%)")
        ax.set_ylim(bottom=0)
        label_axis(ax, "y", metric_label(self.metric, self.currency))
        clear_legend(ax.legend(loc="lower right", fontsize="small"))
        return self._drawn_on(ax, counted(int(self.scores["rows"].iloc[-1]), "row"))

    def __repr__(self) -> str:
        by_share = self.scores.set_index("share")[self.metric.name]
        half, everything = (self.metric.write(by_share[share]) for share in (0.5, 1.0))
        rows = counted(int(self.scores["rows"].iloc[-1]), "row")
        return f"SurestDisplay({rows}, {self.metric.title} {half} of the surest half, {everything} of all)"


def coverage_of(judged: Judged) -> CoverageDisplay:
    """Return the coverage of a model's intervals, not drawn; raises ConfigError if the model has no intervals."""
    rows = judged.rows
    parts = calibrated(judged.path, rows, judged.predictor)
    levels = reduce(np.intersect1d, [intervals.levels for _, intervals in parts])
    if not len(levels):
        raise ConfigError(
            "the runs of the folds have no level of price intervals in common; train with more rows"
        )
    inside = np.zeros((len(levels), len(rows)), bool)
    for part, intervals in parts:
        for place, level in enumerate(levels):
            low, high = intervals.bounds(rows.predicted[part], rows.spread[part], float(level))
            inside[place, part] = (rows.price[part] >= low) & (rows.price[part] <= high)
    return CoverageDisplay(rows.price, inside, levels, rows.weight, judged.currency, rows.spread)
