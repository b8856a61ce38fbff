"""Bootstrap intervals."""

import numpy as np
import pytest

from pricekit.evaluation.bootstrap import MIN_ROWS, mean_interval
from pricekit.evaluation.scores import scores_of


def test_the_interval_is_that_of_the_mean_of_normal_terms():
    terms = np.random.default_rng(3).normal(40, 20, 4000)
    low, high = mean_interval(terms)
    half = 1.96 * terms.std() / np.sqrt(len(terms))
    assert (low, high) == pytest.approx((terms.mean() - half, terms.mean() + half), abs=half / 8)


def test_the_interval_covers_as_often_as_it_says():
    random = np.random.default_rng(5)
    inside = [low <= 1 <= high for low, high in (mean_interval(random.gamma(1, 1, 60)) for _ in range(200))]
    assert 0.88 <= np.mean(inside) <= 0.99


def test_the_interval_is_repeatable_and_of_enough_rows(rows):
    terms = np.random.default_rng(0).gamma(1, 40, 300)
    assert mean_interval(terms) == mean_interval(terms[::-1].copy())
    assert mean_interval(np.full(20, 7.0)) == (7, 7)
    assert mean_interval(terms[: MIN_ROWS - 1]) is None
    assert scores_of(rows(1)).interval is None
