"""Predicted against true prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

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
    legend_below,
    number,
    price_label,
    price_scale,
)
from pricekit.plots.source import LEAST_ROWS, check_prices, judge
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
        found = judge(model, table, options, least=LEAST_ROWS)
        return cls(found.rows.predicted, found.rows.predicted / found.rows.price, found.currency).plot(ax)

    @classmethod
    def from_predictions(
        cls, price: Any, predicted: Any, *, currency: str | None = None, ax: Axes | None = None
    ) -> ResidualDisplay:
        """Draw the factors of given prices, for at least 20 rows; otherwise as that of `PredictionDisplay`."""
        actual, priced = check_prices(price, predicted, LEAST_ROWS)
        return cls(priced, priced / actual, currency).plot(ax)

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
        price_scale(ax, "x", self.predicted)
        _factor_scale(ax, self.factor)
        ax.axhline(1, color=ink.text, linewidth=1)
        for level in reversed(QUANTILES):
            label = "running median" if level == 0.5 else f"running {level:.0%} quantile"
            ax.plot(
                running["predicted"], running[f"{level:.0%}"], linestyle=_LINES[level], color=ink.text,
                linewidth=2, label=label,
            )  # fmt: skip
        ax.set_xlabel(price_label("predicted price", self.currency), **PLAIN)
        ax.set_ylabel("predicted / true price")
        heading(ax, counted(len(self.predicted), "row"))
        legend_below(ax, None, 3)
        return self._drawn_on(ax)

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
