import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.training.batches import accumulated, epoch_batches, split_rows

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=300).map(np.array)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_holds_every_row_once_and_depends_on_nothing_else(lengths, size, seed, epoch):
    batches = epoch_batches(lengths, size, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert max(map(len, batches)) <= size + 1
    again = epoch_batches(lengths, size, seed, epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    if size > 1 and len(lengths) > 1:
        assert min(map(len, batches)) > 1


def test_epochs_and_seeds_differ():
    lengths = np.ones(100, int)
    order = [
        np.concatenate(epoch_batches(lengths, 8, seed, epoch)).tolist()
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert order[0] != order[1] != order[2] != order[0]


def test_batches_are_alike_in_length():
    lengths = np.random.default_rng(0).integers(1, 300, 5000)
    padded = sum(len(rows) * lengths[rows].max() for rows in epoch_batches(lengths, 32, 0, 0))
    assert padded / lengths.sum() < 1.06


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


def test_accumulation_keeps_the_last_smaller_group():
    batches = [np.array([i]) for i in range(5)]
    assert [len(group) for group in accumulated(batches, 2)] == [2, 2, 1]
