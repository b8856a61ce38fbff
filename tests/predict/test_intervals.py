"""Price intervals and quantiles: their coverage, their width by row, and errors for what too few rows allow."""

import json
import sys
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pricekit as pk
from pricekit.errors import BundleError, ConfigError
from pricekit.features.forest import LEAF, Forest
from pricekit.io.packing import pack
from pricekit.options import UncertaintyOptions, parameters_of
from pricekit.predict.intervals import (
    LEAST_ROWS,
    MOST_SCORES,
    Intervals,
    SurestFirst,
    Uncertainty,
    fit_intervals,
    fit_spread,
    read_intervals,
    spread_of,
)
from pricekit.predict.predictor import Predictor


def made(rows, seed=0):
    """Predicted prices, true prices and spreads; what decides how hard a row is to price is no matter of its price."""
    rng = np.random.default_rng(seed)
    predicted, spread = rng.lognormal(2, 1, rows), rng.choice([0.1, 0.8], rows)
    actual = predicted * np.exp(spread * rng.standard_t(4, rows))
    return predicted.astype(np.float32), actual, spread.astype(np.float32)


def fitted(rows, seed=0, weight=None):
    return fit_intervals([None], *made(rows, seed), weight)


def scores(values, weight=None):
    """Intervals of rows whose log prices are off by these values."""
    values = np.asarray(values, np.float64)
    return fit_intervals([None], np.ones(len(values)), np.exp(values), np.ones(len(values)), weight)


def log_quantile(intervals, share):
    return float(np.log(intervals.quantile(np.ones(1), np.ones(1), share).astype(np.float64))[0])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_new_rows_are_covered_at_the_stated_level_whatever_their_spread(level):
    intervals = fitted(20_000)
    predicted, actual, spread = made(20_000, seed=1)
    low, high = intervals.bounds(predicted, spread, level)
    inside = (low <= actual) & (actual <= high)
    for rows in (spread < 0.5, spread > 0.5):
        assert inside[rows].mean() == pytest.approx(level, abs=0.015)
    assert (high / low)[spread > 0.5].min() > (high / low)[spread < 0.5].max()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.7, 0.99])
def test_a_share_of_true_prices_is_below_a_quantile(share):
    predicted, actual, spread = made(20_000, seed=1)
    quantile = fitted(20_000).quantile(predicted, spread, share)
    assert (actual <= quantile).mean() == pytest.approx(share, abs=0.012)


@pytest.mark.parametrize(("rows", "share"), [(9, 0.9), (9, 0.1), (19, 0.8), (50, 0.37), (7, 0.7)])
def test_the_promise_for_a_new_row_holds_exactly(rows, share):
    """Each of n + 1 exchangeable rows is as likely the new one: count those that keep the promise."""
    values = np.random.default_rng(3).normal(size=rows + 1)
    bounds = [log_quantile(scores(np.delete(values, new)), share) for new in range(rows + 1)]
    below = sum(value <= bound + 1e-6 for value, bound in zip(values, bounds, strict=True))
    strictly = sum(value < bound - 1e-6 for value, bound in zip(values, bounds, strict=True))
    if share > 0.5:
        assert share * (rows + 1) - 1e-9 <= below <= share * (rows + 1) + 1
    else:
        assert share * (rows + 1) - 1 <= strictly <= share * (rows + 1) + 1e-9


def test_quantiles_by_hand():
    """Of 19 rows, the quantile 0.75 is the 15th smallest score, since 15 = 0.75 · 20, and 0.25 is the 5th."""
    intervals = scores(np.arange(1, 20) / 100)
    assert log_quantile(intervals, 0.75) == pytest.approx(0.15, abs=1e-6)
    assert log_quantile(intervals, 0.76) == pytest.approx(0.16, abs=1e-6)
    assert log_quantile(intervals, 0.25) == pytest.approx(0.05, abs=1e-6)
    assert log_quantile(intervals, 0.5) == pytest.approx(0.10, abs=1e-6)
    assert log_quantile(scores([0.1, 0.4]), 0.5) == pytest.approx(0.25, abs=1e-6)


def test_a_row_counts_by_its_weight():
    """Three rows of weight 3 and three of weight 1 have a mean of 2: the new row is a seventh of the whole weight."""
    weighted = scores([-3, -2, -1, 1, 2, 3], np.array([3, 3, 3, 1, 1, 1.0]))
    assert log_quantile(weighted, 11 / 14) == pytest.approx(2)
    assert log_quantile(weighted, 1 / 7) == pytest.approx(-3)
    assert log_quantile(weighted, 0.35) == pytest.approx(-3)  # 5/14 is above it
    assert log_quantile(weighted, 0.36) == pytest.approx(-2)


@pytest.mark.parametrize("rows", [50, 5_000])
def test_equal_weights_are_no_weights_and_rows_without_weight_do_not_count(rows):
    predicted, actual, spread = made(rows)
    none, equal = fitted(rows), fitted(rows, weight=np.full(rows, 7.0))
    assert equal.score.tolist() == none.score.tolist()
    assert equal.weight == pytest.approx(none.weight)
    some = np.arange(rows) % 2
    halved = fit_intervals([None], predicted, actual, spread, some)
    assert halved.rows == some.sum()
    assert set(halved.score) <= set(
        ((np.log(actual) - np.log(predicted.astype(np.float64))) / spread.astype(np.float64))[some > 0]
    )


@pytest.mark.parametrize(("rows", "level"), [(19, 0.9), (3, 0.5), (39, 0.95)])
def test_the_highest_level_that_the_rows_allow_is_available(rows, level):
    intervals = scores(np.arange(1, rows + 1) / 10)
    assert intervals.highest == level
    low, high = intervals.bounds(np.ones(1), np.ones(1), level)
    assert np.log(high) == pytest.approx(rows / 10)
    assert low == 1  # all prices were too low, and the interval contains the price


@given(st.integers(1, 400), st.integers(0, 99), st.floats(0.01, 0.99))
def test_the_price_is_inside_and_a_higher_level_is_wider(rows, seed, level):
    predicted, _, spread = made(rows, seed)
    intervals = fitted(rows, seed)
    if level > intervals.highest:
        with pytest.raises(ConfigError, match="calibrated on"):
            intervals.bounds(predicted, spread, level)
        return
    low, high = intervals.bounds(predicted, spread, level)
    narrow_low, narrow_high = intervals.bounds(predicted, spread, level / 2)
    for smaller, larger in (
        (low, narrow_low),
        (narrow_low, predicted),
        (predicted, narrow_high),
        (narrow_high, high),
    ):
        assert (smaller <= larger).all()


@given(
    st.integers(100, 400),
    st.integers(0, 99),
    st.lists(st.floats(0.01, 0.99), min_size=2, max_size=99, unique=True),
    st.booleans(),
)
def test_quantiles_never_cross(rows, seed, shares, weighted):
    weight = np.random.default_rng(seed).uniform(0.5, 2, rows) if weighted else None
    uncertainty = Uncertainty.of(None, sorted(shares))
    predicted, _, spread = made(rows, seed)
    columns = np.stack([*uncertainty.columns(fitted(rows, seed, weight), predicted, spread).values()])
    assert (np.diff(columns, axis=0) >= 0).all()


@given(st.integers(MOST_SCORES + 1, 60_000), st.integers(0, 99), st.floats(0.001, 0.999), st.booleans())
def test_many_scores_are_thinned_outwards(rows, seed, share, weighted):
    rng = np.random.default_rng(seed)
    values, weight = rng.normal(size=rows), rng.uniform(0, 3, rows) if weighted else np.ones(rows)
    intervals = scores(values, weight)
    assert len(intervals.score) <= MOST_SCORES
    order = np.argsort(values)
    surest = SurestFirst(*np.empty((3, 0)))
    exact = log_quantile(Intervals((None,), values[order], weight[order] / weight.mean(), surest), share)
    found = log_quantile(intervals, share)
    outwards = abs(found - exact) if share == 0.5 else found - exact if share > 0.5 else exact - found
    assert -1e-6 <= outwards < 0.1


@pytest.mark.parametrize("price", [1e-45, 1e-38, 3e38])
def test_bounds_of_extreme_prices_are_positive_and_finite(price):
    low, high = fitted(200).bounds(np.array([price], np.float32), np.array([60.0]), 0.9)
    assert 0 < low[0] <= np.float32(price) <= high[0] < np.inf


@pytest.mark.parametrize("level", ["0.9", [0.9], True, 90, 0, 1, -0.1, np.nan])
def test_a_level_that_is_no_share_is_refused(level, raises):
    with raises(ConfigError, "interval"):
        Uncertainty.of(level)


@pytest.mark.parametrize(
    "quantiles",
    [[], [0.5, 0.5], [0.9, 0.1], [0, 0.5], [0.5, 1], ["0.5"], "0.5", 0.5, [np.nan], [[0.1, 0.2]], [None]],
)
def test_quantiles_that_are_no_ascending_shares_are_refused(quantiles, raises):
    with raises(ConfigError, "quantiles"):
        Uncertainty.of(None, quantiles)


def test_at_most_99_quantiles_are_possible(raises):
    assert len(Uncertainty.of(None, np.arange(1, 100) / 100).names) == 99
    with raises(ConfigError, "quantiles"):
        Uncertainty.of(None, np.linspace(0.01, 0.99, 100))


def test_columns_are_named_by_their_shares():
    names = Uncertainty.of(0.9, [0.00001, 0.05, 0.5]).names
    assert names == ("price_low", "price_high", "price_0.00001", "price_0.05", "price_0.5")


def test_too_few_rows_are_counted(raises):
    with raises(ConfigError, "interval", highest=0.6):
        scores([1, 2, 3, 4]).bounds(np.ones(1), np.ones(1), 0.9)
    with raises(ConfigError, "quantiles", rows=4):
        scores([1, 2, 3, 4]).quantile(np.ones(1), np.ones(1), 0.001)
    with raises(ConfigError, "quantiles", rows=0):
        scores([], np.array([])).quantile(np.ones(1), np.ones(1), 0.5)


# Prices that may go out


def surest(errors, spread=None, weight=None):
    """Rows with these errors of the log price, the surest first."""
    errors = np.asarray(errors, np.float64)
    spread = np.arange(1, len(errors) + 1) if spread is None else np.asarray(spread)
    return SurestFirst.of(np.ones(len(errors)), np.exp(errors), spread, weight)


def test_the_limit_by_hand():
    """With a confidence of 0.75, 6 rows that hold are needed, 10 if one of them fails, and 14 if two do."""
    holds, fails = 0.1, 1.0
    assert surest([holds] * 5).largest_spread(2, 0.75) is None
    assert surest([holds] * 6).largest_spread(2, 0.75) == 6
    assert surest([holds] * 6 + [fails] * 5).largest_spread(2, 0.75) == 6
    assert surest([holds, -fails] + [-holds] * 8).largest_spread(2, 0.75) == 10
    assert surest([holds, fails] + [holds] * 7).largest_spread(2, 0.75) is None
    assert surest([fails] * 2 + [holds] * 12).largest_spread(2, 0.75) == 14
    assert surest([]).largest_spread(2, 0.5) is None
    assert surest([np.log(2)] * 6).largest_spread(2, 0.75) == 6  # the factor itself is within


def test_rows_that_are_equally_sure_go_out_together():
    assert surest([0] * 6 + [1] * 3, [1] * 7 + [2] * 2).largest_spread(2, 0.75) is None
    assert surest([0] * 9 + [1], [1] * 10).largest_spread(2, 0.75) == 1


def test_a_row_goes_out_by_its_weight():
    """Two failures with a tenth of the weight of the 12 others."""
    errors, weight = [0] * 12 + [1] * 2, np.array([1] * 12 + [0.1] * 2)
    assert surest(errors).largest_spread(2, 0.8) == 13
    assert surest(errors, None, weight).largest_spread(2, 0.8) == 14
    assert surest(errors, None, np.array([1] * 12 + [0] * 2)).spread.tolist() == list(range(1, 13))


@given(st.integers(1, 300), st.integers(0, 99), st.floats(1.01, 9), st.floats(0.5, 0.99), st.booleans())
def test_the_limit_is_the_largest_that_the_rule_allows(rows, seed, within, confidence, weighted):
    rng = np.random.default_rng(seed)
    spread = rng.integers(1, 60, rows) / 10
    error = rng.normal(size=rows) * spread / 4
    weight = rng.uniform(0.5, 2, rows) if weighted else np.ones(rows)
    found = surest(error, spread, weight).largest_spread(within, confidence)
    weight = weight / weight.mean()

    def allowed(limit):
        failed = weight[(spread <= limit) & (np.abs(error) > np.log(within))].sum()
        return (failed + 2) / (weight[spread <= limit].sum() + 2) <= 1 - confidence + 1e-9

    assert found == max(filter(allowed, set(spread)), default=None)


@given(st.integers(100, 400), st.integers(0, 99), st.floats(1.01, 9), st.floats(0.5, 0.98))
def test_more_go_out_within_a_larger_factor_or_at_a_lower_confidence(rows, seed, within, confidence):
    _, _, spread = made(rows, seed)
    intervals = fitted(rows, seed)
    released = intervals.released(spread, within, confidence)
    assert (released <= intervals.released(spread, within * 1.3, confidence)).all()
    assert (released <= intervals.released(spread, within, confidence - 0.1)).all()
    alone = [intervals.released(spread[[row]], within, confidence)[0] for row in range(5)]
    assert alone == released[:5].tolist()


def test_released_prices_hold_on_new_rows():
    predicted, actual, spread = made(20_000, seed=1)
    released = fitted(20_000).released(spread, 1.5, 0.9)
    within = np.abs(np.log(actual / predicted)) <= np.log(1.5)
    assert (released == (spread < 0.5)).all()
    assert within[released].mean() > 0.9 > within[~released].mean()


def test_many_rows_are_thinned_evenly():
    predicted, actual, spread = made(30_000)
    spread = spread * np.linspace(1, 1.1, len(spread))
    everything = SurestFirst.of(predicted, actual, spread)
    few = everything.few()
    assert len(few) == MOST_SCORES
    assert few.weight.mean() == pytest.approx(1)
    assert few.largest_spread(2, 0.9) == pytest.approx(everything.largest_spread(2, 0.9), rel=0.1)


def test_the_options_of_everything_that_prices_rows_are_those_of_the_description():
    assert list(parameters_of(UncertaintyOptions)) == [field.name for field in fields(Uncertainty)]
    texts = {"interval": "0.5", "quantiles": "0.1,0.5", "within": "2", "confidence": 0.5, "priority": 1}
    assert Uncertainty.of_options(texts) == Uncertainty(0.5, (0.1, 0.5), 2, 0.5)
    assert Uncertainty.of_options({}) == Uncertainty()


@pytest.mark.parametrize("name", ["interval", "quantiles", "within", "confidence"])
@pytest.mark.parametrize("text", ["", "0,5;", "x"])
def test_an_option_in_words_is_refused(name, text, raises):
    with raises(ConfigError, name):
        Uncertainty.of_options({"within": 2, name: text})


@pytest.mark.parametrize("within", [1, 0.5, -2, 0, np.nan, np.inf, "2", True, [2]])
def test_a_tolerance_that_is_no_factor_is_refused(within, raises):
    with raises(ConfigError, "within"):
        Uncertainty.of(within=within)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1, np.nan, "0.9", True])
def test_a_confidence_that_is_no_share_is_refused(confidence, raises):
    with raises(ConfigError, "confidence"):
        Uncertainty.of(within=2, confidence=confidence)


def test_a_confidence_needs_a_tolerance(raises):
    with raises(ConfigError, "confidence", "within"):
        Uncertainty.of(confidence=0.9)


def test_a_confidence_needs_rows(raises):
    assert scores([0] * 38).released(np.ones(2), 2, 0.95).all()
    assert not scores([9] * 38).released(np.ones(2), 2, 0.95).any()
    with raises(ConfigError, "confidence", rows=37):
        scores([0] * 37).released(np.ones(2), 2, 0.95)


# The spread


def hard_rows(rows, seed=0):
    """Features, of which the second one decides how wrong an estimate is, and the errors."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 3)).astype(np.float32)
    return features, np.abs(rng.normal(size=rows) * np.where(features[:, 1] > 0, 0.5, 0.05))


def test_a_spread_finds_the_rows_that_are_hard_to_price():
    forest = fit_spread(*hard_rows(4_000))
    features, _ = hard_rows(1_000, seed=1)
    spread = spread_of(forest, features)
    assert spread.dtype == np.float32
    hard = features[:, 1] > 0
    assert np.median(spread[hard]) > 4 * np.median(spread[~hard])
    assert spread[~hard].mean() == pytest.approx(0.06, rel=0.3)  # the mean error and the offset


def test_the_spread_of_a_row_is_the_same_alone_and_in_a_batch():
    forest = fit_spread(*hard_rows(1_000))
    features, _ = hard_rows(100, seed=1)
    alone = [spread_of(forest, row[None])[0] for row in features]
    assert alone == spread_of(forest, features).tolist()


def test_without_lightgbm_all_rows_have_the_same_width(monkeypatch, logged):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert fit_spread(*hard_rows(1_000)) is None
    assert "needs lightgbm in training" in logged()


def test_rows_without_weight_teach_nothing():
    features, error = hard_rows(2_000)
    kept = np.arange(2_000) % 2 == 0
    some = fit_spread(features, np.where(kept, error, 9.0), kept.astype(np.float64))
    expected = fit_spread(features[kept], error[kept], np.ones(1_000))
    assert some.to_json() == expected.to_json()


def test_without_anything_to_learn_all_rows_have_the_same_width():
    features, error = hard_rows(LEAST_ROWS)
    assert fit_spread(features[1:], error[1:]) is None
    assert fit_spread(np.ones_like(features), error) is None
    assert fit_spread(features[:, :0], error) is None
    assert spread_of(None, features).tolist() == LEAST_ROWS * [1]


def test_the_largest_and_the_smallest_spread_are_limited():
    for offset in (-1e6, 1e6):
        spread = spread_of(
            Forest(1, np.zeros(0, np.int64), np.zeros(0, np.float32), offset, 1.0), np.ones((2, 1))
        )
        assert (np.isfinite(spread) & (spread > 0)).all()


# The file


def test_numbers_survive_the_file():
    intervals = fit_intervals([fit_spread(*hard_rows(1_000)), None], *made(500))
    again = read_intervals(intervals.to_text(), "x", [3, 8])
    assert again.to_text() == intervals.to_text()


TREE = {"columns": 2, "offset": 0.0, "unit": 1.0, "feature": [1, LEAF, LEAF], "value": [0.5, 0, 1]}


SUREST = {"spread": (1.0, 1.0, 2.0), "error": (0.0, 0.5, 0.1), "weight": (1.0, 1.0, 1.0)}


def numbers(spreads=(TREE,), score=(0.0, 1.0), weight=(1.0, 1.0), surest=None):
    """Intervals as JSON."""

    def packed(arrays):
        return {name: pack(np.array(values, np.float64)) for name, values in arrays.items()}

    arrays = packed({"score": score, "weight": weight})
    return json.dumps({"spreads": spreads, **arrays, "surest": packed(SUREST | (surest or {}))})


def test_well_formed_numbers_are_read():
    assert read_intervals(numbers(), "here", [2]).score.tolist() == [0, 1]
    assert read_intervals(numbers([None], (), ()), "here", [2]).rows == 0


LARGE = TREE | {"feature": [1, LEAF, LEAF] * 6_000, "value": [0.5, 0, 0] * 6_000}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "[" * 100_000, numbers(score=[1.0, 0.0]), numbers(score=[1.0, 1.0])),
        *(numbers(weight=weight) for weight in ([1.0], [0.0, 1.0], [-1.0, 1.0], [np.nan, 1.0], [1e300, 1.0])),
        *(numbers(score=score) for score in ([0.0, np.inf], [0.0, 1e300])),
        *(numbers(spreads) for spreads in ({}, "x", [], [TREE, TREE], [1], [{}], [LARGE])),
        *(numbers([TREE | change]) for change in ({"columns": 3}, {"feature": 7}, {"unit": 0.3})),
        *(numbers([TREE | {"value": [0.5, 0, value]}]) for value in (1e30, 0.5, "x")),
        numbers(score=np.arange(MOST_SCORES + 1), weight=np.ones(MOST_SCORES + 1)),
        numbers(score=[]),
        *(numbers(surest={"spread": spread}) for spread in ((1, 2), (2, 1, 1), (0, 1, 2))),
        numbers(surest={"error": (0, -0.1, 0)}),
        *(numbers(surest={"weight": weight}) for weight in ((1, 1, 0), (1, 1, 1e300), ())),
        json.dumps({"spreads": [None], "score": "y" * 100_000, "weight": ""}),
    ],
)
def test_damaged_numbers_are_reported(text):
    with pytest.raises(BundleError, match=r"the intervals of here are damaged") as caught:
        read_intervals(text, "here", [2])
    assert len(str(caught.value)) < 400


# Models

SMALL = {"backbone.vocab_size": 1000, "backbone.buckets": 512, "backbone.width": 8, "backbone.members": 2}


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A model whose features estimate prices, the rows that it was trained on, and its bundle."""
    table = pk.make_catalog(700, seed=5)
    model = pk.train(
        table,
        epochs=1,
        features=["optimized22", "trees"],
        settings={**SMALL, "feature_options.trees.rounds": 60, "training.folds": 1},
        out=tmp_path_factory.mktemp("x") / "run",
    )
    model.export(tmp_path_factory.mktemp("y") / "bundle")
    return model, table


def test_each_row_has_a_width_of_its_own_from_the_training_to_the_prices(wide, tmp_path):
    model, table = wide
    rows = table.drop(columns="price")
    frame = model.predict(rows, interval=0.9, quantiles=[0.05, 0.5, 0.95])
    assert list(frame) == ["price", "price_low", "price_high", "price_0.05", "price_0.5", "price_0.95"]
    assert (frame.dtypes == np.float32).all()
    widths = np.log(frame["price_high"] / frame["price_low"])
    assert widths.nunique() > 50
    assert (frame["price_0.05"] <= frame["price_0.5"]).all()
    assert (frame["price_low"] <= frame["price"]).all()
    for row in (0, 3):
        alone = model.predict(rows.iloc[[row]], interval=0.9)
        assert np.log(alone["price_high"] / alone["price_low"]).item() == pytest.approx(widths[row], rel=1e-5)


def test_prices_that_may_go_out_are_named_in_frames_and_files(wide, tmp_path, logged):
    model, table = wide
    rows = table.drop(columns="price")
    frame = model.predict(rows, within=1.8, confidence=0.8)
    assert list(frame) == ["price", "release"]
    assert frame["release"].dtype == bool
    assert 0 < frame["release"].sum() < len(rows)
    for row in (0, 3):
        alone = model.predict(rows.iloc[[row]], within=1.8, confidence=0.8)
        assert alone["release"].item() == frame["release"][row]
    rows.to_csv(tmp_path / "new.csv", index=False)
    for name in ("p.csv", "p.parquet", "p.jsonl"):
        model.predict_file(tmp_path / "new.csv", tmp_path / name, within=1.8, confidence=0.8, interval=0.5)
    assert (tmp_path / "p.csv").read_text().splitlines()[0].endswith("price,price_low,price_high,release")
    assert (tmp_path / "p.csv").read_text().splitlines()[1].rpartition(",")[2] in ("true", "false")
    lines = pd.read_json(tmp_path / "p.jsonl", lines=True)
    for written in (pd.read_csv(tmp_path / "p.csv"), pd.read_parquet(tmp_path / "p.parquet"), lines):
        assert written["release"].dtype == bool
        assert (written["release"] == frame["release"]).all()
    assert "no price may go out" not in logged()


def test_a_tolerance_that_no_price_meets_is_logged_once(wide, tmp_path, logged):
    model, table = wide
    assert not model.predict(table, within=1.001)["release"].any()
    assert logged().count("no price may go out within a factor of 1.001 at a confidence of 0.95") == 1
    table.to_csv(tmp_path / "new.csv", index=False)
    model.predict_file(tmp_path / "new.csv", tmp_path / "p.csv", within=1.001)
    assert logged().count("no price may go out") == 1
    assert not pd.read_csv(tmp_path / "p.csv")["release"].any()


def test_a_run_and_its_bundle_write_the_same_intervals(run, bundle, catalog, tmp_path):
    frames = []
    for name, predictor in (("run", pk.load(run)), ("bundle", pk.load(bundle))):
        predictor.predict_file(catalog, tmp_path / f"{name}.csv", interval=0.9, quantiles=(0.1, 0.5))
        frames.append(pd.read_csv(tmp_path / f"{name}.csv"))
    assert list(frames[0]) == ["sample_id", "price", "price_low", "price_high", "price_0.1", "price_0.5"]
    assert (frames[0]["price_low"] <= frames[0]["price"]).all()
    assert (frames[0]["price"] <= frames[0]["price_high"]).all()
    assert frames[1].iloc[:, 2:].to_numpy() == pytest.approx(frames[0].iloc[:, 2:].to_numpy(), rel=1e-4)


def test_an_unavailable_interval_level_is_an_error_before_the_work(bundle, catalog, tmp_path, raises):
    with raises(ConfigError, "interval", highest=pk.load(bundle)._reader.open().intervals.highest):
        pk.load(bundle).predict_file(catalog, tmp_path / "p.csv", interval=0.999)
    with raises(ConfigError, "quantiles"):
        pk.load(bundle).predict_file(catalog, tmp_path / "p.csv", quantiles=[0.0001])
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_intervals_predicts_and_reports_it(bundle, raises):
    alone = Predictor(Predictor.load(bundle).members)
    assert len(alone.predict(["tea"])) == 1
    for wanted in ({"interval": 0.9}, {"quantiles": [0.5]}, {"within": 2}):
        with raises(ConfigError, "interval", "quantiles", "within"):
            alone.predict(["tea"], **wanted)
