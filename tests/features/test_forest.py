"""Trees as plain numbers."""

import json

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.features.forest import LEAF, MOST_DEPTH, Forest, from_lightgbm, joined, round_down


@pytest.fixture(scope="module")
def grown():
    """Trees of LightGBM, the rows that they were grown on, and the forest that is read back from JSON."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(1500, 20)).astype(np.float32)
    rows[:, 10:] = random.poisson(0.3, (1500, 10))
    price = 3 + rows[:, 0] + rows[:, 11] * rows[:, 1] + 0.1 * random.normal(size=1500)
    options = {"objective": "l1", "num_leaves": 15, "num_threads": 1, "verbosity": -1, "deterministic": True}
    trees = lightgbm.train(options, lightgbm.Dataset(rows, price), 60)
    forest, used = from_lightgbm(trees.model_to_string())
    state = json.loads(json.dumps(forest.to_json()))
    return trees, rows, np.ascontiguousarray(rows[:, used]), state


def test_it_predicts_like_lightgbm(grown):
    trees, rows, inputs, state = grown
    assert Forest.from_json(state).predict(inputs) == pytest.approx(trees.predict(rows), abs=1e-4)


def test_a_row_has_the_same_price_alone_and_among_others(grown):
    _, _, inputs, state = grown
    forest = Forest.from_json(state)
    together = forest.predict(inputs)
    for size in (1, 2, 7, 129):
        parts = [forest.predict(inputs[start : start + size]) for start in range(0, 20 * size, size)]
        assert np.array_equal(np.concatenate(parts), together[: 20 * size])


def test_it_follows_each_tree_to_one_leaf(grown):
    _, _, inputs, state = grown
    forest = Forest.from_json(state)
    assert [walked(forest, row) for row in inputs[:50]] == forest.predict(inputs[:50]).tolist()


def walked(forest, row):
    """Return the result by following each tree in Python."""
    total, node = 0, 0
    while node < len(forest.feature):
        value, node = leaf(forest, row, node)
        total += value
    return float(np.float32(forest.offset + forest.unit * total))


def leaf(forest, row, node):
    """Return the leaf that a row reaches, and the node behind the tree, which is in preorder."""
    if forest.feature[node] == LEAF:
        return int(forest.value[node]), node + 1
    left, behind = leaf(forest, row, node + 1)
    right, behind = leaf(forest, row, behind)
    return (left if row[forest.feature[node]] <= forest.value[node] else right), behind


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_damaged_state_is_refused_or_finite(grown, data):
    _, _, inputs, state = grown
    damaged = json.loads(json.dumps(state))
    for _ in range(data.draw(st.integers(1, 3))):
        numbers = damaged[data.draw(st.sampled_from(["feature", "value"]))]
        numbers[data.draw(st.integers(0, len(numbers) - 1))] = data.draw(
            st.sampled_from([-1, 0, 3, -5, 2**40, 1e300])
        )
    if data.draw(st.booleans()):
        damaged["feature"], damaged["value"] = damaged["feature"][:-3], damaged["value"][:-3]
    try:
        found = Forest.from_json(damaged).predict(inputs[:3])
    except ValueError:
        return
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "change",
    [
        {"feature": [0, -1], "value": [0.5, 1]},
        {"feature": [0, -1, -1], "value": [0.5, 1]},
        {"feature": [1, -1, -1], "value": [0.5, 1, 2]},
        {"feature": [-1], "value": [1]},
        {"feature": [0, -1, -1], "value": [0.5, 1.5, 2]},
        {"feature": [0, -1, -1], "value": [0.5, 1 << 24, 2]},
        {"feature": [0, -1, -1], "value": [float("inf"), 1, 2]},
        {
            "feature": [0] * (MOST_DEPTH + 1) + [-1] * (MOST_DEPTH + 2),
            "value": [0] * (2 * MOST_DEPTH + 3),
        },
        {"unit": 0.3},
    ],
)
def test_what_is_wrong_with_a_state_is_named(change, raises):
    state = {"columns": 1, "offset": 1.0, "unit": 0.5, "feature": [0, -1, -1], "value": [0.5, 1, 2]}
    assert Forest.from_json(state).predict(np.zeros((1, 1), np.float32)).tolist() == [1.5]
    with raises(ValueError):
        Forest.from_json(state | change)


@given(st.floats(-1e38, 1e38))
def test_a_threshold_separates_the_same_numbers_in_float32(value):
    low = round_down(np.array([value]))[0]
    assert float(low) <= value < float(np.nextafter(low, np.float32(np.inf)))


def test_trees_without_splits_predict_the_mean():
    options = {"objective": "l1", "num_threads": 1, "verbosity": -1}
    trees = lightgbm.train(options, lightgbm.Dataset(np.zeros((30, 2)), np.full(30, 2.5)), 5)
    forest, used = from_lightgbm(trees.model_to_string())
    assert not len(used)
    assert Forest.from_json(forest.to_json()).predict(np.zeros((2, 1), np.float32)).tolist() == [2.5, 2.5]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 30), shift=st.integers(-12, 12))
def test_a_joined_forest_predicts_the_sum(seed, shift):
    random = np.random.default_rng(seed)
    parts = []
    for scale in (1.0, 2.0**shift):
        rows = random.normal(size=(200, 3))
        target = scale * (rows[:, 0] > 0) + scale * rows[:, 2]
        options = {"objective": "l1", "num_leaves": 7, "num_threads": 1, "verbosity": -1}
        booster = lightgbm.train(options, lightgbm.Dataset(rows, target), 5)
        parts.append(from_lightgbm(booster.model_to_string()))
    numbers = [used + place for place, (_, used) in enumerate(parts)]
    both = joined([(forest, number) for (forest, _), number in zip(parts, numbers, strict=True)], 4)
    assert Forest.from_json(both.to_json()).to_json() == both.to_json()
    asked = random.normal(size=(50, 4)).astype(np.float32)
    each = [forest.predict(asked[:, number]) for (forest, _), number in zip(parts, numbers, strict=True)]
    assert both.predict(asked) == pytest.approx(each[0] + each[1], rel=1e-5, abs=1e-5 * max(1, 2.0**shift))
