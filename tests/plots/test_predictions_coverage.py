"""The share of true prices inside the price intervals."""

import numpy as np
import pytest

import pricekit as pk
from conftest import write_judged
from pricekit.errors import BundleError, ConfigError, DataError
from pricekit.plots import CoverageDisplay
from pricekit.predict.intervals import fit_intervals

PRICE = np.arange(1.0, 101.0)


def bounds(high: np.ndarray) -> np.ndarray:
    return np.column_stack([0.5 * PRICE, high])


def write_intervals(folder, width, rows):
    """Write intervals of this half width, whatever the level, that so many rows allow."""
    folder.mkdir(exist_ok=True)
    score = np.where(np.arange(rows) % 2, width, -width)
    fitted = fit_intervals([None], np.ones(rows), np.exp(score), np.ones(rows))
    (folder / "intervals.json").write_text(fitted.to_text())


def test_shares_by_hand():
    found = {
        0.9: bounds(np.where(PRICE <= 80, 2, 0.9) * PRICE),
        0.5: bounds(np.where(PRICE <= 40, 2, 0.9) * PRICE),
    }
    shown = CoverageDisplay.from_predictions(PRICE, found, currency="EUR")
    assert shown.levels.tolist() == [0.5, 0.9]
    assert shown.share.tolist() == [0.4, 0.8]
    line = shown.ax_.get_lines()[-1]
    assert line.get_xdata().tolist() == pytest.approx([50, 90])
    assert line.get_ydata().tolist() == pytest.approx([40, 80])


def test_by_price_each_level_has_a_line_with_the_share_of_each_decile():
    shown = CoverageDisplay.from_predictions(
        PRICE, {0.8: bounds(np.where(PRICE <= 45, 2, 0.9) * PRICE)}, by="price"
    )
    lines = [line for line in shown.ax_.get_lines() if len(line.get_xdata()) == 10]
    assert [line.get_ydata().tolist() for line in lines] == [[100] * 4 + [50] + [0] * 5]
    assert shown.plot(by="level") is shown


def test_a_table_is_inside_as_often_as_evaluate_says(bundle, catalog):
    shown = CoverageDisplay.from_model(bundle, catalog)
    expected = pk.load(bundle).evaluate(catalog).metrics["interval_90_coverage"]
    assert 100 * shown.share[np.isclose(shown.levels, 0.9)] == pytest.approx([expected])


def test_the_held_out_rows_of_a_run_fitted_its_intervals(run, logged):
    shown = CoverageDisplay.from_model(run)
    assert "were fitted on these held-out rows" in logged()
    assert shown.share == pytest.approx(shown.levels, abs=0.07)


def test_a_cross_validation_uses_the_intervals_of_each_fold(rows, tmp_path, logged, raises):
    held_out = rows(100, folds=2)
    write_judged(tmp_path, held_out, "cross-validation")
    write_intervals(tmp_path / "fold-0", 50.0, rows=100)
    write_intervals(tmp_path / "fold-1", 0.0, rows=19)
    shown = CoverageDisplay.from_model(tmp_path)
    assert shown.levels[-1] == 0.9
    assert set(shown.share) == {0.5}
    assert (shown.inside[0] == (held_out.fold == 0)).all()
    assert logged() == ""
    write_intervals(tmp_path / "fold-1", 0.0, rows=1)
    with raises(ConfigError):
        CoverageDisplay.from_model(tmp_path)


def test_weights_count(rows):
    inside = PRICE <= 50
    shown = CoverageDisplay(PRICE, inside[None], np.array([0.9]), np.where(inside, 3.0, 1.0)).plot(by="price")
    assert shown.share.tolist() == [0.75]


def test_unusable_models_and_bounds_are_refused(rows, tmp_path, raises):
    write_judged(tmp_path, rows(100))
    (tmp_path / "intervals.json").unlink()
    with raises(BundleError):
        CoverageDisplay.from_model(tmp_path)
    with raises(DataError, "bounds"):
        CoverageDisplay.from_predictions(PRICE, {})
    with raises(DataError, "bounds"):
        CoverageDisplay.from_predictions(PRICE, {90: bounds(PRICE)})
    with raises(DataError, "bounds"):
        CoverageDisplay.from_predictions(PRICE, {0.9: PRICE})
    for by in ("prices", "spread"):
        with raises(ConfigError, "by"):
            CoverageDisplay.from_predictions(PRICE, {0.9: bounds(PRICE)}, by=by)


def test_by_spread_the_surest_tenth_of_the_rows_comes_first():
    inside = PRICE > 90  # the dearest tenth
    shown = CoverageDisplay(PRICE, inside[None], np.array([0.8]), spread=1 / PRICE).plot(by="spread")
    line = next(line for line in shown.ax_.get_lines() if len(line.get_xdata()) == 10)
    assert line.get_xdata().tolist() == list(range(1, 11))
    assert line.get_ydata().tolist() == [100, *[0] * 9]
