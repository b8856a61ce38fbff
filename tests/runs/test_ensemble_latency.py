"""The time that models need for a row, and the choice of models within a limit."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import held_out_rows
from pricekit.config.settings import parse_latency
from pricekit.metrics import SMAPE
from pricekit.runs.ensemble import choose_within, seconds_per_row, warn_if_slow

ROWS = held_out_rows(60)


def prices(noises, seed=0):
    random = np.random.default_rng(seed)
    return np.stack([ROWS.price * np.exp(random.normal(0, noise, 60)) for noise in noises], 1)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0.1, 1), st.floats(0.001, 0.02)), min_size=1, max_size=4),
    st.floats(0.001, 0.05),
)
def test_the_chosen_models_keep_the_limit(models, limit):
    noises, seconds = zip(*models, strict=True)
    chosen = choose_within(prices(noises), ROWS, SMAPE, seconds, limit)
    assert chosen == sorted(set(chosen))
    assert chosen
    if min(seconds) <= limit:
        assert sum(seconds[model] for model in chosen) <= limit + 1e-12
    else:
        assert chosen == [int(np.argmin(seconds))]


def test_a_slow_model_is_left_out_even_if_it_is_the_best():
    predicted, seconds = prices([0.1, 0.3, 0.3]), [0.02, 0.001, 0.001]
    assert choose_within(predicted, ROWS, SMAPE, seconds, 0.01) == [1, 2]
    assert 0 in choose_within(predicted, ROWS, SMAPE, seconds, 0.1)


def test_a_limit_that_no_model_keeps_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "pricekit"):
        assert choose_within(prices([0.1, 0.3]), ROWS, SMAPE, [0.02, 0.01], 0.001) == [1]
    assert "a row may take 1.00 ms, and the quickest model needs 10 ms" in caplog.text


def test_a_run_is_timed_and_a_slow_one_is_a_warning(run, caplog):
    assert 0 < seconds_per_row(run) < 10
    with caplog.at_level(logging.WARNING, "pricekit"):
        warn_if_slow(run, None)
        warn_if_slow(run, 1000.0)
        assert not caplog.text
        warn_if_slow(run, 1e-9)
    assert "a row may take 0.00 ms" in caplog.text


@pytest.mark.parametrize(("text", "seconds"), [("5ms", 0.005), ("200us", 2e-4), ("0.1s", 0.1), ("2", 2.0)])
def test_a_limit_is_written_with_its_unit(text, seconds):
    assert parse_latency(text) == pytest.approx(seconds)
