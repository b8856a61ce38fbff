"""Predicted / true price against the predicted price."""

import numpy as np
import pytest

from pricekit.plots import ResidualDisplay


def test_running_quantiles_by_hand():
    price = np.arange(1.0, 101.0)
    factor = np.where(price <= 50, 2.0, 0.5)
    shown = ResidualDisplay.from_predictions(price / factor * factor, price * factor)
    assert len(shown.running) == 4
    order = np.argsort(price * factor, kind="stable")
    first = (price * factor)[order][:25]
    assert shown.running["predicted"][0] == np.median(first)
    assert shown.running["50%"].tolist()[-1] == 2.0
    assert shown.running["90%"][0] == pytest.approx(np.quantile(factor[order][:25], 0.9))
    drawn = [line.get_ydata() for line in shown.ax_.get_lines()]
    assert any(np.array_equal(each, shown.running["10%"]) for each in drawn)


def test_the_factor_axis_is_symmetric_with_powers_of_2():
    price = np.ones(30)
    shown = ResidualDisplay.from_predictions(price, np.geomspace(0.3, 1.2, 30))
    low, high = shown.ax_.get_ylim()
    assert low * high == pytest.approx(1)
    shown.figure_.canvas.draw()
    assert [t.get_text() for t in shown.ax_.get_yticklabels()] == ["1/2", "1", "2"]


def test_constant_predictions_are_drawn():
    shown = ResidualDisplay.from_predictions(np.arange(1.0, 31.0), np.full(30, 9.0))
    assert shown._repr_png_() is not None
    assert (shown.running["predicted"] == 9).all()
