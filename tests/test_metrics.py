import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.metrics import METRICS, SMAPE, best_constant, metric_named, price_metrics, r2_log, smape

PRICES = st.lists(st.floats(0, 1e12), min_size=1, max_size=20)


def test_smape_by_hand():
    # |3-1|/2 = 1 -> 100 %; |2-2| -> 0; 0/0 counts as 0; |0-5|/2.5 = 2 -> 200 %
    assert smape([3, 2, 0, 0], [1, 2, 0, 5]) == pytest.approx((100 + 0 + 0 + 200) / 4)


@given(PRICES)
def test_smape_is_0_at_the_truth_and_symmetric(prices):
    shifted = [p + 1 for p in prices]
    assert smape(prices, prices) == 0
    assert 0 < smape(shifted, prices) <= 200
    assert smape(shifted, prices) == smape(prices, shifted)


@pytest.mark.parametrize(("p", "a"), [([], []), ([1], [1, 2]), ([np.nan], [1]), ([1], [np.inf])])
def test_smape_rejects_invalid_input(p, a, raises):
    with raises(ValueError):
        smape(p, a)


def test_price_metrics_by_hand():
    found = price_metrics([2.0, 4.0, 8.0], [1.0, 4.0, 10.0])
    assert found["mae"] == pytest.approx(1.0)
    assert found["mdape"] == pytest.approx(20.0)
    assert set(found) == {"smape", "mdape", "mae", "rmsle", "r2_log"}
    assert found["rmsle"] == pytest.approx(np.sqrt((np.log(3 / 2) ** 2 + np.log(9 / 11) ** 2) / 3))


def test_terms_by_hand():
    assert SMAPE.terms([3, 2, 0, 0], [1, 2, 0, 5]).tolist() == [100, 0, 0, 200]


def test_r2_of_the_log_price_by_hand():
    # log prices 0, 1, 2 around their mean 1: total 2; errors 0, 0.5, 0.5: 0.5 -> 1 - 0.5 / 2
    assert r2_log(np.exp([0, 1.5, 1.5]), np.exp([0, 1, 2])) == pytest.approx(0.75)


@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=20), st.floats(0.01, 100))
def test_r2_is_1_for_true_prices_0_for_the_geometric_mean_and_independent_of_the_currency(prices, rate):
    prices = np.array(prices)
    if np.ptp(np.log(prices)) < 1e-3:
        return
    assert r2_log(prices, prices) == 1
    mean = np.full_like(prices, np.exp(np.log(prices).mean()))
    assert r2_log(mean, prices) == pytest.approx(0, abs=1e-6)
    other = np.sort(prices)
    assert r2_log(rate * other, rate * prices) == pytest.approx(r2_log(other, prices), abs=1e-6)


@pytest.mark.parametrize(("p", "a"), [([1, 2], [3, 3]), ([4], [3]), ([0, 2], [1, 3])])
def test_r2_is_omitted_if_it_is_undefined(p, a):
    assert r2_log(p, a) is None
    assert set(price_metrics(p, a)) == {"smape", "mdape", "mae", "rmsle"}


SKLEARN = {
    "mape": (lambda: sklearn_metrics().mean_absolute_percentage_error, 100),
    "mae": (lambda: sklearn_metrics().mean_absolute_error, 1),
    "rmse": (lambda: sklearn_metrics().root_mean_squared_error, 1),
    "rmsle": (lambda: sklearn_metrics().root_mean_squared_log_error, 1),
}
POSITIVE = st.lists(
    st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6), st.integers(0, 5)), min_size=1, max_size=30
)


def sklearn_metrics():
    return pytest.importorskip("sklearn.metrics")


@given(POSITIVE, st.sampled_from(sorted(SKLEARN)))
def test_metrics_agree_with_scikit_learn_with_and_without_weights(rows, name):
    p, a, w = map(np.array, zip(*rows, strict=True))
    theirs, factor = SKLEARN[name][0](), SKLEARN[name][1]
    assert METRICS[name](p, a) == pytest.approx(factor * theirs(a, p), rel=1e-6)
    if w.any():
        assert METRICS[name](p, a, w) == pytest.approx(factor * theirs(a, p, sample_weight=w), rel=1e-6)


@given(POSITIVE)
def test_medians_agree_with_scikit_learn_and_numpy(rows):
    p, a, _ = map(np.array, zip(*rows, strict=True))
    assert METRICS["medae"](p, a) == pytest.approx(sklearn_metrics().median_absolute_error(a, p), rel=1e-6)
    assert METRICS["mdape"](p, a) == pytest.approx(100 * np.median(abs(p - a) / a), rel=1e-6)


@given(POSITIVE, st.sampled_from(sorted(METRICS)))
def test_a_weight_of_two_counts_as_two_equal_rows(rows, name):
    p, a, w = map(np.array, zip(*rows, strict=True))
    if w.any():
        repeated = METRICS[name](np.repeat(p, w), np.repeat(a, w))
        assert METRICS[name](p, a, w) == pytest.approx(repeated, rel=1e-6)


@given(POSITIVE, st.sampled_from(sorted(METRICS)))
def test_true_prices_are_best(rows, name):
    p, a, _ = map(np.array, zip(*rows, strict=True))
    assert METRICS[name](a, a) == 0 <= METRICS[name](p, a)


def test_wape_by_hand():
    assert METRICS["wape"]([8.0, 3.0], [10.0, 2.0]) == pytest.approx(100 * 3 / 12)


@pytest.mark.parametrize(
    ("name", "p", "a", "weight"),
    [
        ("rmsle", [-1.0], [1.0], None),
        ("rmsle", [1.0], [-3.0], None),
        ("mape", [1.0], [0.0], None),
        ("mae", [1.0, 2.0], [1.0, 2.0], [0.0, 0.0]),
        ("mae", [1.0, 2.0], [1.0, 2.0], [-1.0, 2.0]),
        ("mae", [1.0, 2.0], [1.0, 2.0], [1.0]),
        ("rmse", [1.0], [1.0, 2.0], None),
    ],
)
def test_undefined_metrics_say_why(name, p, a, weight, raises):
    with raises(ValueError):
        METRICS[name](p, a, weight)


def test_an_unknown_metric_names_those_that_exist(raises):
    with raises(ValueError):
        metric_named("rmsl")


@pytest.mark.parametrize("name", sorted(METRICS))
def test_the_best_constant_is_as_good_as_every_quantile(name):
    price = np.exp(np.random.default_rng(0).normal(2, 1, 400))
    best = METRICS[name](np.full(400, best_constant(price, METRICS[name])), price)
    assert all(
        best <= METRICS[name](np.full(400, c), price) + 1e-9 for c in np.quantile(price, [0.1, 0.3, 0.5, 0.8])
    )


def test_the_metric_that_counts_comes_first():
    assert list(price_metrics([1.0, 2.0], [1.0, 3.0], "rmse")) == [
        *("rmse", "smape", "mdape", "mae", "rmsle"),
        "r2_log",
    ]
