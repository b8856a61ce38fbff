"""Predicted against true prices."""

import numpy as np
import pytest

from pricekit.plots import PredictionDisplay


def test_the_share_within_the_factor_and_the_lines():
    shown = PredictionDisplay.from_predictions([1, 10, 100, 100], [2, 10, 201, 49], currency="EUR")
    assert shown.within == 50
    assert shown.ax_.get_xlim() == shown.ax_.get_ylim()
    ratios = sorted(float(np.divide(*line.get_data()[::-1])[0]) for line in shown.ax_.get_lines())
    assert ratios == pytest.approx([0.5, 1, 2])
    assert shown.ax_.get_xlabel() == "true price (EUR)"
    assert "50% of the rows between" in [t.get_text() for t in shown.ax_.get_legend().get_texts()][1]


def test_points_are_the_rows():
    shown = PredictionDisplay.from_predictions([1.0, 10.0, 30.0], [2.0, 11.0, 25.0])
    (points,) = shown.ax_.collections
    assert points.get_offsets().tolist() == [[1, 2], [10, 11], [30, 25]]
    assert repr(shown) == "PredictionDisplay(3 rows, 100.0% within a factor of 2)"


def test_many_rows_are_counted_in_hexagons_on_the_same_axes():
    price = np.exp(np.random.default_rng(0).normal(3, 1, 5000))
    shown = PredictionDisplay.from_predictions(price, price * 1.5)
    (hexagons,) = shown.ax_.collections
    assert hexagons.get_array().sum() == 5000
    assert hexagons.get_rasterized()
    assert shown.ax_.get_xlim() == pytest.approx(shown.ax_.get_ylim())
    shown.figure_.canvas.draw()
    labels = [
        text.get_text() for axis in (shown.ax_.xaxis, shown.ax_.yaxis) for text in axis.get_ticklabels()
    ]
    assert "10" in labels
    assert not any("$" in label for label in labels)
