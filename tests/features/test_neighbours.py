"""The feature `neighbours`: its columns, its folds and its state."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from pricekit.datasets import make_catalog
from pricekit.errors import BundleError
from pricekit.features.fit import fit_features
from pricekit.features.fitted import FittedFeatures
from pricekit.features.neighbours import Neighbours
from pricekit.io.packing import pack
from pricekit.table import table_of_texts

TABLE = table_of_texts(["green tea", "green tea", "black tea", "roasted coffee beans"])
PRICE = np.array([2.0, 4.0, 8.0, 100.0])


def neighbours(**options):
    return Neighbours(Neighbours.Options(**options))


def fitted(plugin, table=TABLE, price=PRICE):
    return json.loads(json.dumps(plugin.fit(table, price)))


def columns(texts, **options):
    plugin = neighbours(**options)
    return plugin.transform(table_of_texts(texts), fitted(plugin)).tolist()


def test_the_columns_of_a_text_with_equal_rows():
    ((mean, nearest, similarity),) = columns(["Green Tea!"], k=2)
    assert (mean, nearest) == pytest.approx((math.log(8) / 2, math.log(2)))
    assert similarity == 1


def test_the_power_weighs_similar_rows():
    plain, cubed = (columns(["green tea"], k=3, power=power)[0][0] for power in (0, 3))
    assert plain == pytest.approx(math.log(2 * 4 * 8) / 3)
    assert math.log(8) / 2 < cubed < plain


def test_a_text_without_neighbours_has_the_mean_log_price():
    mean = np.log(PRICE).mean()
    assert columns(["marble", ""]) == [pytest.approx([mean, mean, 0])] * 2


def test_a_large_table_is_sampled_evenly():
    texts = [f"item number{number}" for number in range(100)]
    plugin = neighbours(rows=3)
    state = plugin.fit(table_of_texts(texts), np.arange(1.0, 101))
    assert state["index"]["rows"] == 3
    found = plugin.transform(table_of_texts(["number0", "number50", "number99", "number1"]), state)
    assert np.exp(found[:3, 1]).round().tolist() == [1, 51, 100]
    assert found[3, 2] == 0
    assert state["mean"] == pytest.approx(np.log(np.arange(1, 101)).mean())


def test_no_row_sees_its_own_price():
    """A table in which every text is unique, but similar to others: no price changes the columns of its own row."""
    texts = [f"{text} planted{number}" for number, text in enumerate(make_catalog(60).catalog_content)]
    price = np.linspace(1, 60, 60)
    table = table_of_texts(texts)
    _, before = fit_features(["neighbours"], {}, replace(table, price=price))
    for row in range(0, 60, 7):
        changed = price.copy()
        changed[row] *= 1_000
        _, after = fit_features(["neighbours"], {}, replace(table, price=changed))
        for name, column in before.items():
            assert after[name][row] == column[row]
        assert (after["neighbour_log_price"] != before["neighbour_log_price"]).any()


def test_a_model_opens_with_its_state_as_json():
    catalog = make_catalog(200)
    table, new = (
        table_of_texts(catalog.catalog_content),
        table_of_texts(make_catalog(50, seed=9).catalog_content),
    )
    features, _ = fit_features(
        ["neighbours"], {"neighbours": {"k": 4}}, replace(table, price=catalog.price.to_numpy())
    )
    again = FittedFeatures.from_json(json.loads(json.dumps(features.to_json())))
    assert again.transform(new).tobytes() == features.transform(new).tobytes()
    assert again.transform(new)[:, 2].max() > 0
    assert again.holding_training_rows == ["neighbours"]


def test_another_state_replaces_the_opened_one():
    plugin = neighbours()
    one, other = fitted(plugin), fitted(plugin, price=PRICE * 10)
    text = table_of_texts(["green tea"])
    for state in (one, other, one):
        expected = neighbours().transform(text, state)
        assert plugin.transform(text, state).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"index": {}},
        {"index": None},
        {"log_price": pack(np.zeros(3, np.float32))},
        {"log_price": pack(np.array([1, 2, np.nan, 4], np.float32))},
        {"log_price": pack(np.array([1, 2, np.inf, 4], np.float32))},
        {"log_price": 3},
        {"mean": 1e300},
        {"mean": "much"},
        {"mean": None},
    ],
)
def test_a_damaged_state_is_one_paragraph(change, raises):
    (record,) = fit_features(["neighbours"], {}, replace(TABLE, price=PRICE))[0].to_json()
    state = record["state"]
    for damaged in (state | change, {name: value for name, value in state.items() if name not in change}):
        with raises(BundleError) as error:
            FittedFeatures.from_json([record | {"state": damaged}])
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("options", [{"k": 0}, {"power": -1}, {"terms": 0}, {"rows": 0}, {"rows": 10**7}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValidationError):
        neighbours(**options)
