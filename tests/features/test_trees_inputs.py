"""The inputs of trees."""

import json

import numpy as np

from pricekit.features.catalog import OPTIMIZED22
from pricekit.features.trees import MISSING, Inputs
from pricekit.table import table_of_texts

TEXTS = [f"tea\nsize: {n % 7 + 1} x 100 g\nbrand: {['cheap', 'dear', 'middle'][n % 3]}" for n in range(90)]
PRICE = np.array([1.0, 9.0, 3.0] * 30)


def test_a_category_is_its_rank_by_price():
    inputs = Inputs.fit(table_of_texts(TEXTS), PRICE, 10, 2)
    dense = inputs.dense(
        table_of_texts([f"tea\nbrand: {brand}" for brand in ("cheap", "middle", "dear", "new", "")])
    )
    ranked = [column for column in dense.T if column[0] < column[1] < column[2]]
    assert ranked
    assert all(column[0] < column[3] < column[2] for column in ranked)  # an unknown brand is like the mean


def test_missing_numbers_are_below_all_others():
    inputs = Inputs.fit(table_of_texts(TEXTS), PRICE, 10, 2)
    dense = inputs.dense(table_of_texts(["tea\nsize: 3 x 100 g", "tea"]))[:, : -len(OPTIMIZED22)]
    read = dense[0] == 100
    assert read.any()
    assert (dense[1, read] == np.float32(MISSING)).all()
    assert np.isfinite(dense).all()


def test_inputs_survive_json():
    inputs = Inputs.fit(table_of_texts(TEXTS), PRICE, 10, 2)
    again = Inputs.from_json(json.loads(json.dumps(inputs.to_json())))
    assert np.array_equal(again.dense(table_of_texts(TEXTS)), inputs.dense(table_of_texts(TEXTS)))
    assert again.to_json() == inputs.to_json()
