"""The feature `trees`."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError
from pricekit.features import forest, trees
from pricekit.features.fit import fit_features
from pricekit.features.trees import Trees
from pricekit.table import table_of_texts
from pricekit.testing import check_feature

SMALL = Trees.Options(rounds=8, leaves=4)


@pytest.mark.parametrize("check", check_feature(lambda: Trees(SMALL)), ids=str)
def test_it_passes_the_checks(check):
    check()


@pytest.fixture(scope="module")
def products(catalog):
    frame = pd.read_csv(catalog)
    return table_of_texts(frame["catalog_content"].tolist()), frame["price"].to_numpy(np.float64)


def test_it_predicts_prices_of_rows_that_it_has_not_seen(products):
    table, price = products
    seen, unseen = np.arange(300), np.arange(300, 400)
    plugin = Trees(Trees.Options())
    found = plugin.transform(table.take(unseen), plugin.fit(table.take(seen), price[seen]))[:, 0]
    log_price = np.log(price[unseen])
    assert np.mean((found - log_price) ** 2) < 0.5 * np.var(log_price)


def test_numbers_categories_and_missing_cells_decide():
    random = np.random.default_rng(0)
    size, colour = random.integers(1, 9, 600), random.integers(0, 3, 600)
    weight = [f"{s * 100} g" if n % 2 else f"{s / 10} kg" for n, s in enumerate(size)]
    texts = [
        f"item\nweight: {weight[n]}\ncolour: {['red', 'green', 'blue'][colour[n]]}" if size[n] < 8 else "item"
        for n in range(600)
    ]
    price = np.where(size < 8, size * 2.0**colour, 500.0)
    plugin = Trees(Trees.Options(rounds=200, learning_rate=0.2, words=0))
    state = plugin.fit(table_of_texts(texts), price)
    asked = ["item\nweight: 0.6 kg\ncolour: blue", "item\nweight: 200 g\ncolour: red", "item"]
    assert np.exp(plugin.transform(table_of_texts(asked), state)[:, 0]) == pytest.approx(
        [24, 2, 500], rel=0.15
    )


def test_a_fit_is_bitwise_reproducible_with_any_number_of_threads(products, monkeypatch):
    states = []
    for threads in (1, 1, 2):
        monkeypatch.setattr(trees, "THREADS", threads)
        states.append(Trees(SMALL).fit(*products))
    assert states[0] == states[1] == states[2]


def test_batches_do_not_change_a_price(products, monkeypatch):
    table, price = products
    state = Trees(SMALL).fit(table, price)
    together = Trees(SMALL).transform(table, state)
    monkeypatch.setattr(forest, "BATCH_ROWS", 7)
    assert np.array_equal(Trees(SMALL).transform(table, state), together)


def test_the_state_holds_only_what_the_trees_read(products):
    state = json.loads(json.dumps(Trees(SMALL).fit(*products)))
    assert state["forest"]["columns"] == len(state["dense"]) + len(state["inputs"]["words"]) <= 8 * 3


def test_training_rows_get_out_of_fold_prices(products):
    table, price = products
    fitted, out_of_fold = fit_features(["trees"], {"trees": {"rounds": 100}}, replace(table, price=price))
    inside = np.abs(fitted.transform(table)[:, 0] - np.log(price)).mean()
    assert np.abs(out_of_fold["trees_log_price"] - np.log(price)).mean() > 1.2 * inside


def test_prices_alike_and_few_rows_are_no_error():
    table = table_of_texts([f"tea {n}" for n in range(12)])
    found = Trees(SMALL).transform(table, Trees(SMALL).fit(table, np.full(12, 3.0)))
    assert np.exp(found) == pytest.approx(np.full((12, 1), 3.0))


def test_wrong_options_are_named(raises):
    with raises(ConfigError, "settings", setting="round"):
        registry().create("feature", "trees", {"round": 9})


def test_more_rows_teach_the_trees_prices_that_have_changed(products):
    table, price = products
    plugin, (old, new) = Trees(Trees.Options(rounds=200)), (np.arange(200), np.arange(200, 400))
    state = json.loads(json.dumps(plugin.fit(table.take(old), price[old])))
    before = json.dumps(state)
    later = plugin.update(table.take(new[:150]), 2 * price[new[:150]], state)
    assert json.dumps(state) == before
    unseen, actual = table.take(new[150:]), np.log(2 * price[new[150:]])
    missed = [
        np.abs(Trees(Trees.Options()).transform(unseen, s)[:, 0] - actual).mean() for s in (state, later)
    ]
    assert missed[1] < 0.6 * missed[0]


def test_trees_continue_only_from_what_the_earlier_ones_left_over(products):
    table, price = products
    plugin = Trees(SMALL)
    state = plugin.fit(table, price)
    exact = np.exp(plugin.transform(table, state)[:, 0].astype(np.float64))
    later = plugin.update(table, exact, state)
    assert plugin.transform(table, later) == pytest.approx(plugin.transform(table, state), abs=1e-4)


def test_too_many_trees_are_an_error(products, monkeypatch, raises):
    table, price = products
    state = Trees(SMALL).fit(table, price)
    monkeypatch.setattr(trees, "MOST_NODES", len(state["forest"]["feature"]))
    with raises(DataError, "init"):
        Trees(SMALL).update(table, 2 * price, state)
