"""The share of true prices inside the price intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError, DataError, check_intact
from pricekit.options import WeighedOptions, with_options
from pricekit.plots.drawing import (
    DASHES,
    MARKERS,
    PLAIN,
    Display,
    axes_for,
    heading,
    inks,
    legend,
    legend_below,
    price_label,
    price_scale,
)
from pricekit.plots.groups import deciles
from pricekit.plots.source import LEAST_ROWS, Judged, check_prices, judge
from pricekit.prediction.intervals import Intervals, read_intervals
from pricekit.support.log import logger
from pricekit.support.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "intervals.json"
SHOWN = 0.5, 0.8, 0.95
"""Levels that are drawn by price; the highest one of a model that has none of them."""

By = Literal["level", "price"]


@dataclass(repr=False, eq=False)
class CoverageDisplay(Display):
    """The share of true prices inside the price intervals, against the nominal level.

    Args:
        price: true prices, float64 (N,), N at least 20.
        inside: for each level, whether each true price is inside its interval, bool (Q, N).
        levels: ascending, each in (0, 1), float64 (Q,).
        weight: how much each row counts, float64 (N,); None: all count equally.
        currency: of the prices; None if unknown.

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
            by: "level" draws all levels over all rows, "price" some levels by decile of the true price.
            ax: the axes to draw on; default: those of a new figure.
            **options: options for reading the table, as of `pricekit.evaluate`.

        Raises:
            ConfigError: matplotlib is not installed, or the model has no intervals.
            DataError: as of `PredictionDisplay.from_model`; or there are fewer than 20 rows; or, by price,
                all are equal.
        """
        found = judge(model, table, options, least=LEAST_ROWS)
        rows, (levels, inside) = found.rows, coverage_of(found)
        if found.predictor is None and found.path is not None and not (found.path / "cv.json").is_file():
            logger.warning(
                f"the intervals of {found.path} were fitted on these held-out rows, so their coverage says little; "
                "use a table with other rows, or a cross-validation"
            )
        return cls(rows.price, inside, levels, rows.weight, found.currency).plot(ax, by=by)

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
            by: as of `from_model`.
            currency: of the prices, for the labels.
            ax: the axes to draw on; default: those of a new figure.

        Raises:
            ConfigError: matplotlib is not installed.
            DataError: the prices or the bounds cannot be drawn.
        """
        actual, _ = check_prices(price, price, LEAST_ROWS)
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
            by: "level" draws all levels over all rows, "price" some levels by decile of the true price.

        Raises:
            ConfigError: `by` is something else.
            DataError: by price, and all rows are in one group.
        """
        if by not in ("level", "price"):
            raise ConfigError(f"by is {by!r}; expected 'level' or 'price'", parameters=("by",))
        groups = deciles(self.price).codes if by == "price" else None
        ax = axes_for(ax)
        if groups is None:
            self._plot_levels(ax)
        else:
            self._plot_prices(ax, groups)
        ax.set_ylabel("true prices inside the interval (%)")
        heading(ax, counted(len(self.price), "row"))
        return self._drawn_on(ax)

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
        legend(ax, loc="upper left", fontsize="small")

    def _plot_prices(self, ax: Axes, groups: np.ndarray) -> None:
        ink = inks()
        weight = self._weights
        price_scale(ax, "x", self.price)
        shown = [row for row, level in enumerate(self.levels) if np.isclose(level, SHOWN).any()]
        for place, row in enumerate(shown or [len(self.levels) - 1]):
            level, colour = self.levels[row], ink.several[place]
            frame = pd.DataFrame(
                {"log": np.log(self.price), "hit": self.inside[row] * weight, "weight": weight}
            )
            parts = frame.groupby(groups).agg({"log": "median", "hit": "sum", "weight": "sum"})
            parts = parts[parts["weight"] > 0]
            ax.axhline(100 * level, linestyle=DASHES, color=colour, linewidth=1)
            ax.plot(
                np.exp(parts["log"]), 100 * parts["hit"] / parts["weight"], color=colour, marker=MARKERS[place],
                label=f"{100 * level:g}% interval: {100 * self.share[row]:.1f}% of all rows",
            )  # fmt: skip
        ax.set(ylim=(0, 102))
        ax.set_xlabel(price_label("true price, by decile", self.currency), **PLAIN)
        ax.plot([], [], DASHES, color=ink.text, linewidth=1, label="nominal")
        legend_below(ax, None, 2)

    def __repr__(self) -> str:
        rows, level = counted(len(self.price), "row"), int(np.abs(self.levels - 0.9).argmin())
        found = f"{100 * self.share[level]:.1f}% inside the {100 * self.levels[level]:g}% interval"
        return f"CoverageDisplay({rows}, {found})"


def coverage_of(found: Judged) -> tuple[np.ndarray, np.ndarray]:
    """Return the levels of a model, float64 (Q,), and whether each true price is inside their intervals, bool (Q, N).

    Raises:
        ConfigError: the model has no intervals.
    """
    rows, fold = found.rows, np.zeros(len(found.rows), np.int64)
    if found.predictor is not None:
        fitted = {0: found.predictor.require_intervals()}
    elif found.path is None:
        raise ConfigError("prices alone have no price intervals; name the model")
    elif (found.path / "cv.json").is_file():
        fold = rows.fold
        fitted = {int(number): _read(found.path / f"fold-{number}") for number in np.unique(fold)}
    else:
        fitted = {0: _read(found.path)}
    levels = reduce(np.intersect1d, [each.levels for each in fitted.values()])
    if not len(levels):
        raise ConfigError(
            "the runs of the folds have no level of price intervals in common; train with more rows"
        )
    inside = np.zeros((len(levels), len(rows)), bool)
    for number, intervals in fitted.items():
        mine = fold == number
        for place, level in enumerate(levels):
            low, high = intervals.bounds(rows.predicted[mine], float(level))
            inside[place, mine] = (rows.price[mine] >= low) & (rows.price[mine] <= high)
    return levels, inside


def _read(folder: Path) -> Intervals:
    if not (folder / FILE).is_file():
        raise ConfigError(f"{folder} has no price intervals; train again")
    check_intact(folder, [FILE])
    return read_intervals((folder / FILE).read_text("utf-8"), folder)
