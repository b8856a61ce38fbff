"""Partial dependence: the typical price by the value of an engineered feature."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pricekit.errors import ConfigError, DataError
from pricekit.io.progress import progress
from pricekit.io.record import check_intact
from pricekit.options import (
    ReadingOptions,
    path_or_frame,
    rows_without_prices,
    with_options,
)
from pricekit.plots.drawing import (
    Display,
    axes_for,
    inks,
    label_axis,
    number,
    plain,
    price_axis,
    price_label,
    require_matplotlib,
)
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import reader_of
from pricekit.table import Table
from pricekit.text.labelled_lines import evenly
from pricekit.wording import counted, did_you_mean, printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS, VALUES = 200, 20
"""At most this many rows are priced, at each of this many quantiles of the feature."""
SAMPLE = "sample.parquet"
"""The file of a run with some of its held-out rows."""


@dataclass(repr=False, eq=False)
class FeatureEffectDisplay(Display):
    """The typical predicted price by the value of one engineered feature, all other inputs as they are.

    Partial dependence (Friedman 2001, "Greedy function approximation: a gradient boosting machine", section 8.2) of the
    log price: for each value, all rows get this value of the feature and are priced again. The picture shows the
    geometric mean of their prices. The text stays as it is, so the effect is what the model attributes to the feature
    beyond the text. It says nothing about causes.

    Args:
        feature: the name of the feature's column.
        values: distinct values of the feature, ascending, float64 (V,).
        log_price: the log price of each row at each value, float64 (V, N).
        observed: the values of the rows themselves, float64 (N,).
        currency: of the prices; None if unknown.

    Attributes:
        ax_: the axes that `plot` drew on.
        figure_: their figure.

    Example:
        >>> import pricekit as pk
        >>> run = pk.train(pk.make_catalog(200), epochs=1, features="fast15")
        >>> shown = pk.plots.FeatureEffectDisplay.from_model(run, feature="value")
        >>> len(shown.values) == len(shown.price), shown.log_price.shape[1]
        (True, 30)
    """

    feature: str
    values: np.ndarray
    log_price: np.ndarray
    observed: np.ndarray
    currency: str | None = None

    @classmethod
    @with_options(ReadingOptions)
    def from_model(
        cls,
        model: Any,
        table: Any = None,
        *,
        feature: str,
        ax: Axes | None = None,
        **options: Unpack[ReadingOptions],
    ) -> FeatureEffectDisplay:
        """Draw the effect of a feature on the prices of a model. Members of an ensemble without the feature ignore it.

        Args:
            model: a `pricekit.Model` or its path.
            table: a file or a frame, with or without prices; default: a sample of the held-out rows, which runs
                store.
            feature: the name of the feature's column, as `pricekit.Model.features` shows it; of an ensemble without the
                number of the member.
            ax: the axes to draw on; default: those of a new figure.
            **options: options for reading the table, as of `pricekit.Model.explain`.

        Raises:
            ConfigError: matplotlib is not installed, or the model has no such feature.
            DataError: the table cannot be used, or the feature has a single value in it.
            BundleError, PluginError: the model cannot be opened.
        """
        require_matplotlib()
        reader = reader_of(model)
        predictor = reader.open()
        source = _sample(reader.path) if table is None else path_or_frame(table)
        rows = rows_without_prices(source, predictor.columns, options)
        return measure_effect(predictor, rows, feature).plot(ax)

    @property
    def price(self) -> np.ndarray:
        """The geometric mean of the prices at each value, float64 (V,)."""
        return np.asarray(np.exp(self.log_price.mean(axis=1)))

    def plot(self, ax: Axes | None = None) -> FeatureEffectDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        ink, price = inks(), self.price
        _value_scale(ax, self.values)
        middle = np.sqrt(price.min() * price.max())
        label = price_label("geometric mean of predicted prices", self.currency)
        price_axis(ax, "y", np.array([*price, middle / 1.1, middle * 1.1]), label, margin=0.1)
        ax.plot(self.values, price, "o-", color=ink.main, markersize=4)
        deciles = np.quantile(self.observed[np.isfinite(self.observed)], np.linspace(0.1, 0.9, 9))
        ax.plot(
            deciles, np.full(9, 0.012), "|", color=ink.text, markersize=10, transform=ax.get_xaxis_transform()
        )
        label_axis(ax, "x", f"{plain(self.feature, 60)} (ticks above the axis: deciles of the rows)")
        return self._drawn_on(ax, counted(self.log_price.shape[1], "row"))

    def __repr__(self) -> str:
        count = f"{counted(len(self.values), 'value')}, {counted(self.log_price.shape[1], 'row')}"
        return f"FeatureEffectDisplay({shorten(printable(self.feature))}: {count})"


def measure_effect(predictor: Predictor, rows: Table, feature: str) -> FeatureEffectDisplay:
    """Price rows at each value of a feature; errors as of `FeatureEffectDisplay.from_model`."""
    places = _places(predictor, feature)
    some = rows.take(evenly(len(rows), ROWS))
    inputs = predictor.prepare(some)
    column = next(
        each.features[:, place] for each, place in zip(inputs, places, strict=True) if place is not None
    )
    observed = column.astype(np.float64)
    known = observed[np.isfinite(observed)]
    quantiles = np.linspace(0, 1, VALUES)
    values = np.unique(np.quantile(known, quantiles, method="nearest")) if len(known) else known
    if len(values) < 2:
        raise DataError(
            f"the feature {feature} has the same value in all {counted(len(some), 'row')}; its effect needs two",
            parameters=("table",),
            feature=feature,
        )
    logs = np.empty((len(values), len(some)))
    with progress("pricing at each value", len(values)) as advance:
        for at, value in enumerate(values):
            changed = [
                each if place is None else each.with_column(place, value)
                for each, place in zip(inputs, places, strict=True)
            ]
            logs[at] = np.log(predictor.price(changed).astype(np.float64))
            advance(1)
    return FeatureEffectDisplay(feature, values, logs, observed, predictor.currency)


def _places(predictor: Predictor, feature: str) -> list[int | None]:
    """Return the column of a feature in each member's inputs, None for members without it; raises ConfigError."""
    known = list(dict.fromkeys(name for names in predictor.feature_names for name in names))
    if feature not in known:
        listed = ", ".join(shorten(name) for name in known) or "none"
        raise ConfigError(
            f"the model has no feature {shorten(str(feature))!r}; it has {listed}.{did_you_mean(str(feature), known)}",
            parameters=("feature",),
            feature=feature,
            candidates=known,
        )
    return [names.index(feature) if feature in names else None for names in predictor.feature_names]


def _sample(path: Path) -> Path:
    """Return the file with held-out rows of a run, or of a member of an ensemble; raises DataError."""
    for folder in (path, *sorted(path.glob("members/*"))):
        if (folder / SAMPLE).is_file():
            check_intact(folder, [SAMPLE])
            return folder / SAMPLE
    raise DataError(f"{path} contains no held-out rows; add a table", parameters=("table",), path=str(path))


def _value_scale(ax: Axes, values: np.ndarray) -> None:
    """Give the x axis a scale on which values that differ by large factors are apart."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    positive = values[values > 0]
    if values[0] >= 0 and len(positive) > 2 and positive[-1] > 50 * positive[0]:
        if values[0] > 0:
            ax.set_xscale("log")
        else:
            ax.set_xscale("symlog", linthresh=float(positive[0]), linscale=0.3)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        ax.xaxis.set_minor_formatter(NullFormatter())
