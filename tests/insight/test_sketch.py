"""What sketch.json contains, and what is refused."""

import json

import numpy as np
import pytest

from pricekit.errors import BundleError
from pricekit.insight.sketch import Sketch, distribution_of, read_sketch, three_digits, unpacked


@pytest.fixture
def record(run):
    return json.loads((run / "sketch.json").read_text())


def test_bins_have_about_equal_numbers_of_rows():
    found = distribution_of(np.arange(1000.0))
    assert len(found.cuts) == 9
    assert max(found.rows) - min(found.rows) <= 2


@pytest.mark.parametrize(
    ("values", "cuts", "rows"),
    [([0] * 97 + [1] * 3, [0], [97, 3]), ([0] * 3 + [1] * 97, [0], [3, 97]), ([7] * 5, [7], [5, 0])],
)
def test_few_distinct_values_are_kept_apart(values, cuts, rows):
    found = distribution_of(np.array(values))
    assert (found.cuts, found.rows) == (cuts, rows)


def test_scores_are_mean_ranks():
    found = distribution_of(np.arange(1000.0))
    assert found.scores(np.arange(1000.0)).mean() == pytest.approx(0.5, abs=0.01)
    assert found.scores(np.array([5000.0]))[0] == pytest.approx(0.95, abs=0.01)


def test_a_sketch_is_read_as_it_was_written(run):
    content = (run / "sketch.json").read_text()
    assert read_sketch(content, run).to_text() == content
    assert len(content) < 30_000


def test_correlations_are_symmetric():
    assert unpacked([100, 200, 300], 3).tolist() == [[1, 0.1, 0.2], [0.1, 1, 0.3], [0.2, 0.3, 1]]


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 0},
        {"rows": "400"},
        {"words": {"x" * 61: 5}},
        {"words": {f"w{n}": 5 for n in range(801)}},
        {"unknown_words": 1.5},
        {"text_length": {"cuts": [2.0, 1.0], "rows": [1, 1, 1]}},
        {"text_length": {"cuts": [1.0], "rows": [1]}},
        {"vector": {"features": [], "mean": [], "deviation": [], "correlation": []}},
        {"fields": {f"f{n}": {"filled": 1} for n in range(50)}},
    ],
)
def test_a_strangers_numbers_are_refused_in_one_sentence(record, change, raises):
    with raises(BundleError):
        read_sketch(json.dumps(record | change), "here")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"rows": NaN}'])
def test_what_is_no_sketch_is_refused(content, raises):
    with raises(BundleError):
        read_sketch(content, "here")


def test_later_versions_may_add_names(record):
    assert isinstance(read_sketch(json.dumps(record | {"later": 1}), "here"), Sketch)


def test_prices_that_agree_in_three_digits_are_no_drift():
    then, now = 5.0 * np.exp(np.random.default_rng(0).normal(0, 1e-5, (2, 500)))
    found = distribution_of(three_digits(then))
    assert found.count(three_digits(now)).tolist() == found.rows == [500, 0]
    assert distribution_of(then).count(now).tolist() != distribution_of(then).rows


@pytest.mark.parametrize(("rows", "low", "high"), [(1000, 4, 995), (9, 4, 4), (2, 0, 1), (1, 0, 0)])
def test_the_range_is_the_number_of_no_single_row(rows, low, high):
    found = distribution_of(np.arange(float(rows)))
    assert (found.low, found.high) == (low, high)
    beyond = found.outside(np.array([low - 1, low, high, high + 1], np.float32))
    assert beyond.tolist() == [True, False, False, True]
