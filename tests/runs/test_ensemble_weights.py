import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.metrics import METRICS, smape
from pricekit.runs.ensemble import MIN_WEIGHT, cross_fitted, fit_weights, weighted


def _models(seed, rows=400, errors=(0.3, 0.5)):
    """Return predictions whose log errors are independent and of these sizes, and the prices."""
    rng = np.random.default_rng(seed)
    price = np.exp(rng.normal(3, 1, rows))
    noise = rng.normal(0, 1, (rows, len(errors))) * np.array(errors)
    return price[:, None] * np.exp(noise), price


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.floats(0.05, 2), min_size=1, max_size=4))
def test_weights_are_shares_and_never_worse_than_the_best_model_on_their_rows(seed, errors):
    predicted, price = _models(seed, 120, errors)
    weights = fit_weights(predicted, price)
    assert weights.sum() == pytest.approx(1)
    assert ((weights == 0) | (weights >= MIN_WEIGHT)).all()
    best = min(smape(column, price) for column in predicted.T)
    assert (
        smape(weighted(predicted, weights), price) <= best + 0.05
    )  # leaving small weights out costs a little


def test_the_better_of_two_independent_models_weighs_more_and_both_together_are_better():
    predicted, price = _models(0, 4000)
    weights = fit_weights(predicted, price)
    # Least squares would weigh by the inverse of the variances, 0.735 to 0.265; SMAPE is near it.
    assert weights == pytest.approx([0.735, 0.265], abs=0.06)
    assert smape(weighted(predicted, weights), price) < smape(predicted[:, 0], price) - 1


@pytest.mark.parametrize("name", sorted(METRICS))
def test_weights_minimise_any_metric(name):
    predicted, price = _models(0, 600)
    metric = METRICS[name]
    found = metric(weighted(predicted, fit_weights(predicted, price, metric)), price)
    shares = [metric(weighted(predicted, np.array([w, 1 - w])), price) for w in np.linspace(0, 1, 21)]
    assert found <= min(shares) * (1.05 if metric.centre == "median" else 1.001)
    assert found <= min(metric(column, price) for column in predicted.T)


def test_a_model_of_noise_gets_no_weight():
    predicted, price = _models(1, 1000, (0.2, 5.0))
    assert fit_weights(predicted, price).tolist() == [1, 0]


def test_equal_models_change_nothing():
    predicted, price = _models(2, 50, (0.3,))
    twice = np.repeat(predicted, 2, 1)
    assert weighted(twice, fit_weights(twice, price)) == pytest.approx(predicted[:, 0])


def test_some_of_many_similar_models_are_kept(monkeypatch):
    monkeypatch.setattr("pricekit.runs.ensemble._fit", lambda p, *_: np.full(p.shape[1], 1 / p.shape[1]))
    predicted, price = _models(2, 50, (0.3,))
    weights = fit_weights(np.repeat(predicted, 60, 1), price)
    assert weights.tolist() == [1 / 60] * 60


@pytest.mark.parametrize("folds", [1, 4])
def test_cross_fitted_predictions_do_not_use_a_rows_own_price(folds):
    predicted, price = _models(3, 40)
    fold = np.arange(40) % folds
    before = cross_fitted(predicted, price, fold)
    for row in (0, 7):
        other = price.copy()
        other[row] *= 100
        assert cross_fitted(predicted, other, fold)[row] == before[row]


def test_weighted_prices_are_geometric_means():
    assert weighted(np.array([[4.0, 9.0]]), np.array([0.5, 0.5])) == pytest.approx([6.0])
