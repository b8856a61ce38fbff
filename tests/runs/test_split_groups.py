"""The split by groups and by rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.runs.split import split_groups, split_rows


@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=500), st.floats(0.02, 0.5), st.integers(0, 9))
def test_a_split_has_every_row_once_and_both_parts(price, fraction, seed):
    train, valid = split_rows(np.array(price), fraction, seed)
    assert sorted([*train, *valid]) == list(range(len(price)))
    assert len(train)
    assert len(valid)
    assert abs(len(valid) - fraction * len(price)) <= 1


def test_a_split_is_stratified_by_price():
    price = np.exp(np.random.default_rng(0).normal(size=2000))
    _, valid = split_rows(price, 0.15, 0)
    quantiles = [0.1, 0.25, 0.5, 0.75, 0.9]
    assert np.quantile(price[valid], quantiles) == pytest.approx(np.quantile(price, quantiles), rel=0.08)
    assert not np.array_equal(valid, split_rows(price, 0.15, 1)[1])


@given(st.lists(st.integers(0, 40), min_size=20, max_size=300), st.floats(0.05, 0.4), st.integers(0, 5))
def test_a_split_keeps_groups_together(groups, fraction, seed):
    codes = np.unique(groups, return_inverse=True)[1]
    train, valid = split_groups(np.arange(1.0, len(codes) + 1), codes, fraction, seed)
    assert sorted([*train, *valid]) == list(range(len(codes)))
    assert len(train)
    assert len(valid)
    if (np.bincount(codes) <= 10).sum() >= 5:
        assert not set(codes[train]) & set(codes[valid])


def test_tables_without_duplicates_keep_their_split():
    price = np.exp(np.random.default_rng(0).normal(size=500))
    for mine, plain in zip(
        split_groups(price, np.arange(500), 0.15, 3), split_rows(price, 0.15, 3), strict=True
    ):
        assert np.array_equal(mine, plain)


def test_a_text_of_half_the_rows_is_in_the_training_part():
    groups = np.concatenate([np.zeros(500, int), np.arange(1, 501)])
    train, valid = split_groups(np.ones(1000), groups, 0.15, 0)
    assert set(range(500)) <= set(train)
    assert len(valid) == 75
