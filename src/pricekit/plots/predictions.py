"""Predicted against true prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pricekit.options import WeighedOptions, with_options
from pricekit.plots.drawing import (
    DASHES,
    PLAIN,
    Display,
    axes_for,
    dense_points,
    heading,
    inks,
    legend,
    price_label,
    price_scale,
)
from pricekit.plots.source import check_prices, judge
from pricekit.support.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
            model: the path or handle of a bundle, a run, an ensemble or, without a table, a cross-validation; or an
                open `Predictor`.
            table: a file or a frame with prices; default: the held-out rows of the model.
            ax: the axes to draw on; default: those of a new figure.
            **options: options for reading the table, as of `pricekit.evaluate`.

        Raises:
            ConfigError: matplotlib is not installed.
            DataError: the table cannot be used, there are fewer than two rows, or the model has no held-out rows.
            BundleError, PluginError: the model cannot be opened.
        """
        found = judge(model, table, options)
        return cls(found.rows.price, found.rows.predicted, found.currency).plot(ax)

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
        return cls(*check_prices(price, predicted), currency).plot(ax)

    @property
    def within(self) -> float:
        """The percentage of rows whose prices differ by at most a factor of 2."""
        return 100 * float((np.abs(np.log(self.predicted / self.price)) <= np.log(FACTOR)).mean())

    def plot(self, ax: Axes | None = None) -> PredictionDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        ink, both = inks(), np.concatenate([self.price, self.predicted])
        dense_points(ax, self.price, self.predicted)
        price_scale(ax, "x", both)
        price_scale(ax, "y", both)
        ax.set_aspect("equal")
        ends = np.array(ax.get_xlim())
        ax.plot(ends, ends, color=ink.text, linewidth=1.2, label="predicted = true price")
        label = f"factor of {FACTOR:g}: {self.within:.0f}% of the rows between"
        for factor in (FACTOR, 1 / FACTOR):
            ax.plot(ends, ends * factor, DASHES, color=ink.text, linewidth=1, label=label)
            label = "_"
        ax.set_ylim(*ends)
        ax.set_xlabel(price_label("true price", self.currency), **PLAIN)
        ax.set_ylabel(price_label("predicted price", self.currency), **PLAIN)
        heading(ax, counted(len(self.price), "row"))
        legend(ax, loc="upper left", fontsize="small")
        return self._drawn_on(ax)

    def __repr__(self) -> str:
        return (
            f"PredictionDisplay({counted(len(self.price), 'row')}, {self.within:.1f}% within a factor of 2)"
        )
