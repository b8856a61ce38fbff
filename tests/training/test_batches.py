import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pricekit.config import RunConfig, TrainingConfig
from pricekit.features.preprocess import Inputs
from pricekit.text.tokens import Tokens
from pricekit.training.batches import (
    PricedInputs,
    epoch_batches,
    epoch_rows,
    micro_batches,
    plan_epoch,
    shuffled_parts,
)

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=300).map(np.array)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_contains_every_row_once_and_depends_only_on_its_arguments(lengths, size, seed, epoch):
    batches = epoch_batches(lengths, TrainingConfig(batch_size=size), 50, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert max(map(len, batches)) <= size + 1
    again = epoch_batches(lengths, TrainingConfig(batch_size=size), 50, seed, epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    if size > 1 and len(lengths) > 1:
        assert min(map(len, batches)) > 1


def test_epochs_and_seeds_differ():
    lengths = np.ones(100, int)
    order = [
        np.concatenate(epoch_batches(lengths, TrainingConfig(batch_size=8), 50, seed, epoch)).tolist()
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert order[0] != order[1] != order[2] != order[0]


@pytest.fixture
def small_windows(monkeypatch):
    monkeypatch.setattr("pricekit.training.batches.WINDOW_ROWS", 40)
    monkeypatch.setattr("pricekit.training.batches.BLOCK_ROWS", 8)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 5), st.integers(0, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_epoch_of_several_parts_has_each_row_once(small_windows, lengths, size, seed, epoch):
    training = TrainingConfig(batch_size=size)
    batches = epoch_batches(lengths, training, 3, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    again = epoch_batches(lengths, training, 3, seed, epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    if size > 1 and len(lengths) > 1:
        assert min(map(len, batches)) > 1


@given(st.integers(1, 400), st.integers(0, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_part_reads_few_blocks(small_windows, rows, seed):
    parts = list(shuffled_parts(rows, np.random.default_rng(seed)))
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
    assert len(parts) == -(-rows // 40)
    for part in parts:
        assert len(part) <= 48  # blocks are not cut
        assert len(np.unique(part // 8)) <= 6


def test_parts_come_from_everywhere_and_differ_between_epochs(small_windows):
    first, second = (next(shuffled_parts(4000, np.random.default_rng((0, epoch)))) for epoch in (0, 1))
    assert np.ptp(first) > 1000
    assert set(first.tolist()) != set(second.tolist())
    assert first.tolist() != sorted(first.tolist())


def test_rows_of_one_window_have_a_known_order():
    lengths = np.random.default_rng(7).integers(1, 40, 500)
    order = np.concatenate(epoch_batches(lengths, TrainingConfig(batch_size=16), 3, 5, 2))
    assert order[:8].tolist() == [113, 413, 233, 34, 497, 457, 77, 6]
    assert int((order * np.arange(500)).sum()) == 30_909_374


def _padding(batches, lengths):
    return sum(len(rows) * lengths[rows].max() for rows in batches) / lengths.sum()


def test_batches_have_similar_lengths_only_with_a_window():
    lengths = np.random.default_rng(0).integers(1, 300, 5000)
    training = TrainingConfig(batch_size=32)
    assert _padding(epoch_batches(lengths, training, 50, 0, 0), lengths) < 1.06
    assert _padding(epoch_batches(lengths, training, 1, 0, 0), lengths) > 1.5


@given(LENGTHS, st.integers(1, 200), st.integers(1, 60), st.integers(0, 5))
@example(np.array([300, 1]), 200, 1, 0)
def test_only_a_joined_single_row_exceeds_the_token_budget(lengths, tokens, window, epoch):
    batches = epoch_batches(lengths, TrainingConfig(batch_tokens=tokens), window, 0, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        without_the_last_row = (len(rows) - 1) * lengths[rows].max()
        # A row that is longer than the budget is a batch of its own, which a single row may join, too.
        assert len(rows) <= 2 or without_the_last_row <= tokens


@given(LENGTHS, st.integers(100, 300), st.integers(1, 60))
def test_a_token_budget_of_two_rows_leaves_no_single_row(lengths, tokens, window):
    batches = epoch_batches(lengths, TrainingConfig(batch_tokens=tokens), window, 0, 0)
    assert len(lengths) == 1 or min(map(len, batches)) > 1


def test_a_token_budget_fills_its_batches():
    lengths = np.random.default_rng(0).integers(1, 300, 5000)
    batches = epoch_batches(lengths, TrainingConfig(batch_tokens=4096), 50, 0, 0)
    assert len(batches) < 1.1 * lengths.sum() / 4096


def test_accumulation_keeps_the_last_smaller_group():
    config = RunConfig(training={"batch_size": 3, "gradient_accumulation_steps": 2})
    steps = plan_epoch(priced(15, None), config, 0)
    assert [[len(rows) for rows in step] for step in steps] == [[3, 3], [3, 3], [3]]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 5))
def test_processes_share_a_step_without_changing_it(sizes, processes):
    rows = iter(range(sum(sizes)))
    step = [np.array([next(rows) for _ in range(size)]) for size in sizes]
    shares = [micro_batches(step, process, processes) for process in range(processes)]
    assert len({len(share) for share in shares}) == 1  # gradients are exchanged together
    counted = [(part, rows) for share in shares for _, rows, part in share if part]
    assert sorted(np.concatenate([rows for _, rows in counted]).tolist()) == list(range(sum(sizes)))
    assert sum(part for part, _ in counted) == pytest.approx(1)
    assert all(part == pytest.approx(len(rows) / sum(sizes)) for part, rows in counted)
    if processes == 1:
        assert [rows.tolist() for _, rows in counted] == [rows.tolist() for rows in step]


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 5))
def test_an_epoch_takes_all_new_rows_and_as_many_of_the_others(new, others, epoch):
    flags = np.random.default_rng(0).permutation(np.repeat([True, False], [new, others]))
    rows = epoch_rows(priced(len(flags), flags), 0, epoch)
    assert len(set(rows.tolist())) == len(rows) == new + min(new, others)
    assert set(np.flatnonzero(flags)) <= set(rows.tolist())


def test_other_rows_are_drawn_anew_in_each_epoch():
    flags = np.arange(100) < 20
    epochs = [tuple(epoch_rows(priced(100, flags), 0, epoch).tolist()) for epoch in range(10)]
    assert len(set(epochs)) == 10
    assert len(set(sum(epochs, ()))) > 80
    assert epoch_rows(priced(100, None), 0, 3).tolist() == list(range(100))


def priced(count, new):
    tokens = Tokens(np.ones(count, np.int32), np.arange(count + 1))
    return PricedInputs(Inputs(tokens, np.zeros((count, 0), np.float32), 0), np.ones(count), new=new)
