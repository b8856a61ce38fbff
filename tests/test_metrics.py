import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.metrics import price_metrics, smape

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
def test_smape_refuses_what_it_cannot_score(p, a):
    with pytest.raises(ValueError, match="smape needs"):
        smape(p, a)


def test_price_metrics_by_hand():
    found = price_metrics([2.0, 4.0, 8.0], [1.0, 4.0, 10.0])
    assert found["mae"] == pytest.approx(1.0)
    assert found["mdape"] == pytest.approx(20.0)
    assert found["rmsle"] == pytest.approx(np.sqrt((np.log(3 / 2) ** 2 + np.log(9 / 11) ** 2) / 3))
