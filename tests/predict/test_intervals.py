"""Price intervals: their coverage, and errors for unavailable levels."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pricekit as pk
from pricekit.errors import BundleError, ConfigError
from pricekit.predict.intervals import Intervals, fit_intervals, read_intervals
from pricekit.predict.predictor import Predictor


def made(rows, seed=0):
    """Predicted and true prices; cheap products are harder to price."""
    rng = np.random.default_rng(seed)
    predicted = rng.lognormal(2, 1, rows)
    spread = np.where(predicted < 7, 0.8, 0.2)
    return predicted.astype(np.float32), predicted * np.exp(rng.normal(0, spread))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_new_rows_are_covered_at_the_stated_level(level):
    intervals = fit_intervals(*made(20_000))
    predicted, actual = made(20_000, seed=1)
    low, high = intervals.bounds(predicted, level)
    inside = (low <= actual) & (actual <= high)
    assert inside.mean() == pytest.approx(level, abs=0.015)
    for cheap in (predicted < 4, predicted > 15):  # not only on average
        assert inside[cheap].mean() == pytest.approx(level, abs=0.03)
    assert (high / low)[predicted < 4].mean() > 2 * (high / low)[predicted > 15].mean()


def test_the_width_is_the_conformal_quantile_by_hand():
    """19 residuals: the 75% width is the 15th smallest, since 15 = 0.75 · 20."""
    residuals = np.arange(1, 20) / 100
    intervals = fit_intervals(np.full(19, 10.0, np.float32), 10 * np.exp(residuals))
    low, high = intervals.bounds(np.array([10.0], np.float32), 0.75)
    assert np.log(high / 10) == pytest.approx(0.15, abs=1e-5)
    assert np.log(10 / low) == pytest.approx(0.15, abs=1e-5)
    assert intervals.levels[-1] == 0.95  # of 19 rows no more than 19 / 20 can be said


@pytest.mark.parametrize(("rows", "level"), [(9, 0.9), (4, 0.8), (19, 0.95)])
def test_the_highest_level_that_the_rows_allow_is_available(rows, level):
    intervals = fit_intervals(np.ones(rows), np.exp(np.arange(1, rows + 1) / 10))
    assert intervals.levels[-1] == level
    assert np.log(intervals.bounds(np.ones(1), level)[1]) == pytest.approx(rows / 10)


@given(st.integers(1, 400), st.integers(0, 99), st.floats(0.05, 0.99))
def test_the_price_is_inside_and_a_higher_level_is_wider(rows, seed, level):
    predicted, actual = made(rows, seed)
    intervals = fit_intervals(predicted, actual)
    if level > intervals.levels[-1]:
        with pytest.raises(ConfigError, match="up to"):
            intervals.bounds(predicted, level)
        return
    low, high = intervals.bounds(predicted, level)
    assert (low <= predicted).all()
    assert (predicted <= high).all()
    assert (np.diff(intervals.widths, axis=0) >= 0).all()


@pytest.mark.parametrize("cheapest", [0, 5])
def test_equal_predictions_are_in_one_bin_however_they_are_rounded(cheapest):
    predicted = np.repeat(np.float32([6.19, 6.1905, 9.5, 20.0]), [cheapest, 600 - cheapest, 250, 150])
    noise = np.repeat(
        [0.1, 0.1, 0.3, 0.9], [cheapest, 600 - cheapest, 250, 150]
    )  # no two bins may be taken for one
    actual = predicted * np.exp(np.random.default_rng(0).normal(0, noise))
    intervals = fit_intervals(predicted, actual)
    for rounding in (0.999, 1.001):
        low, high = intervals.bounds(predicted * np.float32(rounding), 0.9)
        for price in np.unique(predicted[predicted > 6.19]):
            rows = predicted == price
            assert ((low <= actual) & (actual <= high))[rows].mean() >= 0.85
    assert len(intervals.edges) == 2


@pytest.mark.parametrize("price", [1e-45, 1e-38, 3e38])
def test_bounds_of_extreme_prices_are_positive_and_finite(price):
    low, high = fit_intervals(*made(200)).bounds(np.array([price], np.float32), 0.9)
    assert 0 < low[0] <= np.float32(price) <= high[0] < np.inf


def test_numbers_survive_the_file():
    intervals = fit_intervals(*made(500))
    again = read_intervals(intervals.to_text(), "x")
    assert all(
        np.array_equal(getattr(again, n), getattr(intervals, n)) for n in ("edges", "levels", "widths")
    )


def numbers(edges="[]", levels="[0.9]", widths="[[1]]"):
    """Intervals as JSON."""
    return f'{{"edges": {edges}, "levels": {levels}, "widths": {widths}}}'


def test_well_formed_numbers_are_read():
    assert read_intervals(numbers(), "here").levels.tolist() == [0.9]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        numbers(levels="[1" + "0" * 400 + "]"),
        *(numbers(widths=f"[[{width}]]") for width in ("-1", "800", "NaN")),
        *(numbers(edges=edges, widths="[[1, 1, 1]]") for edges in ("[NaN, 1]", "[100, 1]", "[-1, 1]")),
        *(numbers(levels=levels) for levels in ("[[0.9]]", "[0]", "[1]")),
        *("", "[]", "{}", '{"edges": [], "levels": [0.9], "widths": [[1, 2]]}', '{"edges": 1, "levels": 2}'),
    ],
)
def test_damaged_numbers_are_reported(text, raises):
    with raises(BundleError):
        read_intervals(text, "here")


def test_a_text_among_the_numbers_does_not_fill_the_screen():
    with pytest.raises(BundleError) as caught:
        read_intervals(numbers(levels=f'["{"y" * 100_000}"]'), "here")
    assert len(str(caught.value)) < 400


def test_a_run_and_its_bundle_write_the_same_intervals(run, bundle, catalog, tmp_path):
    frames = []
    for name, predictor in (("run", pk.load(run)), ("bundle", pk.load(bundle))):
        predictor.predict_file(catalog, tmp_path / f"{name}.csv", interval=0.9)
        frames.append(pd.read_csv(tmp_path / f"{name}.csv"))
    assert list(frames[0]) == ["sample_id", "price", "price_low", "price_high"]
    assert (frames[0]["price_low"] < frames[0]["price"]).all()
    assert (frames[0]["price"] < frames[0]["price_high"]).all()
    assert frames[1][["price_low", "price_high"]].to_numpy() == pytest.approx(
        frames[0][["price_low", "price_high"]].to_numpy(), rel=1e-4
    )


def test_an_unavailable_interval_level_is_an_error_before_the_work(bundle, catalog, tmp_path, raises):
    with raises(ConfigError, "interval", highest=0.98):
        pk.load(bundle).predict_file(catalog, tmp_path / "p.csv", interval=0.999)
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_intervals_predicts_and_reports_it(bundle, raises):
    alone = Predictor(Predictor.load(bundle).members)
    with raises(ConfigError, "interval"):
        alone.interval(np.ones(1), 0.9)
    assert Intervals(np.array([]), np.array([0.9]), np.array([[0.0]])).bounds(np.ones(1), 0.9)[0] == 1


@pytest.mark.parametrize("level", ["0.9", [0.9], True, 90])
def test_a_level_that_is_no_share_is_refused(level, raises):
    with raises(ConfigError, "interval"):
        fit_intervals(*made(100)).bounds(np.ones(1, np.float32), level)
