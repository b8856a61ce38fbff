import json

import numpy as np
import pytest
from pricekit_images import ridge
from pricekit_images.ridge import fit_ridge, predict_ridge


def rows(count, width, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    encoded = rng.normal(3, 2, (count, width)).astype(np.float32)
    weights = np.zeros(width)
    weights[:3] = 0.5, -0.3, 0.2
    return encoded, encoded @ weights + rng.normal(0, noise, count)


@pytest.mark.parametrize("penalty", [0.1, 100.0])
def test_the_weights_solve_the_equations_of_ridge(monkeypatch, penalty):
    monkeypatch.setattr(ridge, "PENALTIES", np.array([penalty]))
    encoded, log_price = rows(50, 4)
    found = fit_ridge(encoded, log_price)
    scaled = (encoded - encoded.mean(axis=0)) / encoded.std(axis=0)
    expected = np.linalg.solve(
        scaled.T @ scaled + penalty * np.eye(4), scaled.T @ (log_price - log_price.mean())
    )
    assert found["weights"] == pytest.approx(expected / encoded.std(axis=0), rel=1e-4)
    predicted = predict_ridge(encoded, json.loads(json.dumps(found)))
    assert predicted == pytest.approx(log_price.mean() + scaled @ expected, rel=1e-4)


def test_the_penalty_is_that_of_leaving_out_one_row_at_a_time(monkeypatch):
    encoded, log_price = rows(40, 30, noise=1.0)
    mean, scale = encoded.mean(axis=0), encoded.std(axis=0)
    errors = []
    for penalty in ridge.PENALTIES:
        with monkeypatch.context() as patch:
            patch.setattr(ridge, "PENALTIES", np.array([penalty]))
            rest = []
            for row in range(40):
                others = np.arange(40) != row
                # The scale of all rows: another one would change what the penalty means.
                centred = (encoded - mean) / scale
                part = centred[others] - centred[others].mean(axis=0)
                level = log_price[others].mean()
                weights = np.linalg.solve(
                    part.T @ part + penalty * np.eye(30), part.T @ (log_price[others] - level)
                )
                rest.append(log_price[row] - level - (centred[row] - centred[others].mean(axis=0)) @ weights)
            errors.append(np.square(rest).mean())
    with monkeypatch.context() as patch:
        patch.setattr(ridge, "PENALTIES", ridge.PENALTIES[[int(np.argmin(errors))]])
        expected = fit_ridge(encoded, log_price)
    assert fit_ridge(encoded, log_price)["weights"] == pytest.approx(expected["weights"])


def test_more_values_than_rows_and_constant_ones():
    encoded, log_price = rows(30, 200)
    encoded[:, 7] = 5
    found = fit_ridge(encoded, log_price)
    assert found["weights"][7] == 0
    assert np.isfinite(predict_ridge(encoded, found)).all()


def test_few_rows_have_their_mean():
    encoded, log_price = rows(5, 3)
    assert predict_ridge(encoded, fit_ridge(encoded, log_price)) == pytest.approx(log_price.mean())
    assert predict_ridge(encoded, fit_ridge(encoded[:0], log_price[:0])).tolist() == [0] * 5


def test_a_row_alone_has_the_same_bits():
    encoded, log_price = rows(60, 77)
    state = fit_ridge(encoded, log_price)
    alone = [predict_ridge(encoded[n : n + 1], state)[0] for n in range(60)]
    assert predict_ridge(encoded, state).tolist() == alone
