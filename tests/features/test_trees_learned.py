"""The inputs of the trees that are learned from prices."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pricekit.features.fit import fit_features, folds_of
from pricekit.features.trees import Inputs
from pricekit.table import table_of_texts


@pytest.fixture(scope="module")
def products():
    random = np.random.default_rng(0)
    table = table_of_texts([f"tea {kind} {n}" for n, kind in enumerate(random.integers(0, 9, 120))])
    return table, np.exp(random.normal(size=120))


@pytest.mark.parametrize("neighbours", [False, True])
def test_no_input_of_a_training_row_depends_on_a_price_of_its_fold(products, neighbours):
    table, price = products
    fold = folds_of(table)
    inputs = Inputs.fit(table, price, 0, 2, neighbours=neighbours)
    before = inputs.dense(table, price)
    after = inputs.dense(table, np.where(fold == 1, price * 7, price))
    assert len(inputs.dense(table).T) == len(before.T)
    assert np.array_equal(before[fold == 1], after[fold == 1])
    changed = (before[fold != 1] != after[fold != 1]).any(axis=0)
    assert np.flatnonzero(changed).tolist() == ([0, 1, 2] if neighbours else [0])
    assert (before[fold != 1] != after[fold != 1])[:, 0].all()


def test_inputs_survive_json_and_do_not_depend_on_other_rows(products):
    table, price = products
    inputs = Inputs.fit(table, price, 0, 2, neighbours=True)
    again = Inputs.from_json(json.loads(json.dumps(inputs.to_json())))
    together = inputs.dense(table)
    assert np.array_equal(again.dense(table), together)
    alone = np.vstack([inputs.dense(table.take(np.array([row]))) for row in range(20)])
    assert np.array_equal(alone, together[:20])


def test_trees_with_neighbours_say_that_they_hold_training_rows(products):
    held = {}
    for neighbours in (False, True):
        options = {"rounds": 3, "neighbours": neighbours}
        fitted, _ = fit_features(["trees"], {"trees": options}, replace(products[0], price=products[1]))
        held[neighbours] = fitted.holding_training_rows
    assert held == {False: [], True: ["trees"]}
