import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.metrics import price_metrics, r2_log, smape, smape_terms

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
def test_smape_rejects_invalid_input(p, a):
    with pytest.raises(ValueError, match="smape needs"):
        smape(p, a)


def test_price_metrics_by_hand():
    found = price_metrics([2.0, 4.0, 8.0], [1.0, 4.0, 10.0])
    assert found["mae"] == pytest.approx(1.0)
    assert found["mdape"] == pytest.approx(20.0)
    assert set(found) == {"smape", "mdape", "mae", "rmsle", "r2_log"}
    assert found["rmsle"] == pytest.approx(np.sqrt((np.log(3 / 2) ** 2 + np.log(9 / 11) ** 2) / 3))


def test_terms_by_hand():
    assert smape_terms([3, 2, 0, 0], [1, 2, 0, 5]).tolist() == [100, 0, 0, 200]


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
