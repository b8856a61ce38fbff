import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pricekit as pk
from pricekit.errors import ConfigError, DataError
from pricekit.runs.cross_validation import assign_folds


@settings(max_examples=25, deadline=None)
@given(st.integers(20, 150), st.integers(2, 6), st.integers(0, 5), st.integers(1, 4))
def test_each_group_is_in_one_fold_and_folds_are_of_nearly_one_size(rows, folds, seed, largest):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(rows), rng.integers(1, largest + 1, rows))[:rows]
    fold = assign_folds(np.exp(rng.normal(size=rows)), rng.permutation(groups), folds, seed)
    assert sorted(set(fold)) == list(range(folds))
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 2 * largest + rows // 10


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=30, max_size=80), st.integers(2, 3), st.integers(0, 3))
def test_groups_are_not_split(groups, folds, seed):
    codes = np.unique(groups, return_inverse=True)[1]
    if codes.max() + 1 < folds:
        return
    fold = assign_folds(np.arange(1.0, len(codes) + 1), codes, folds, seed)
    for group in np.unique(codes):
        assert len(set(fold[codes == group])) == 1


def test_folds_have_similar_prices_and_depend_on_the_seed():
    rng = np.random.default_rng(0)
    price = np.exp(rng.normal(size=1000))
    groups = rng.integers(0, 800, 1000)
    fold = assign_folds(price, groups, 5, 0)
    means = [np.log(price[fold == held]).mean() for held in range(5)]
    assert max(means) - min(means) < 0.06  # of random folds it is 0.17
    assert np.array_equal(fold, assign_folds(price, groups, 5, 0))
    assert not np.array_equal(fold, assign_folds(price, groups, 5, 1))


@pytest.mark.parametrize("price", [np.full(10, 5.0), np.arange(1.0, 11)])
def test_ten_rows_have_five_assign_folds_two(price):
    assert np.bincount(assign_folds(price, np.arange(10), 5, 0)).tolist() == [2] * 5


@pytest.mark.parametrize("folds", [-1, 0, 1, 2.5, "5", True])
@pytest.mark.parametrize("function", [pk.cross_validate, pk.tune])
def test_folds_are_a_whole_number_and_at_least_two(function, folds, raises):
    with raises(ConfigError, "folds"):
        function(pk.make_catalog(10), folds=folds)


def test_more_folds_than_groups_are_refused(raises):
    with raises(DataError, "folds", groups=3):
        assign_folds(np.ones(30), np.arange(30) % 3, 4, 0)
