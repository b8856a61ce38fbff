import json

import numpy as np
import pandas as pd
import pytest
from pricekit_lightgbm import feature
from pricekit_lightgbm.feature import LightGbm

from pricekit.plugin import ConfigError, table_of_texts
from pricekit.testing import check_feature

SMALL = LightGbm.Options(rounds=8, leaves=4)


@pytest.mark.parametrize("check", check_feature(lambda: LightGbm(SMALL)), ids=str)
def test_the_plugin_passes_the_checks(check):
    check()


@pytest.fixture(scope="module")
def products(catalog):
    frame = pd.read_csv(catalog)
    return table_of_texts(frame["catalog_content"].tolist()), frame["price"].to_numpy(np.float64)


def test_it_is_registered(registered, raises):
    registry = registered("lightgbm")
    assert registry.create("feature", "lightgbm").names == ("lightgbm_log_price",)
    with raises(
        ConfigError, "settings", setting="round", candidates=["rounds", "leaves", "learning_rate", "words"]
    ):
        registry.create("feature", "lightgbm", {"round": 9})
    with raises(
        ConfigError,
        "leaves",
        "settings",
        setting="leaves",
        candidates=["rounds", "leaves", "learning_rate", "words"],
    ):
        registry.create("feature", "lightgbm", {"leaves": 1})


def test_it_predicts_prices_of_rows_that_it_has_not_seen(products):
    table, price = products
    seen, unseen = np.arange(300), np.arange(300, 400)
    plugin = LightGbm(LightGbm.Options())
    found = plugin.transform(table.take(unseen), plugin.fit(table.take(seen), price[seen]))[:, 0]
    log_price = np.log(price[unseen])
    assert np.mean((found - log_price) ** 2) < 0.5 * np.var(log_price)


def test_a_fit_is_bitwise_reproducible_with_any_number_of_threads(products, monkeypatch):
    states = []
    for threads in (1, 1, 2):
        monkeypatch.setattr(feature, "THREADS", threads)
        states.append(LightGbm(SMALL).fit(*products))
    one, again, two = (
        s | {"trees": s["trees"].replace("[num_threads: 2]", "[num_threads: 1]")} for s in states
    )
    assert one == again
    assert one == two


def test_its_state_is_text(products):
    state = LightGbm(SMALL).fit(*products)
    assert sorted(state) == ["catalog", "trees", "words"]
    assert state["trees"].startswith("tree\nversion=")
    assert json.loads(json.dumps(state)) == state
    assert LightGbm(LightGbm.Options(words=3)).fit(*products)["words"] == state["words"][:3]


@pytest.mark.parametrize("text", ["", "green tea"])
def test_rows_without_words_get_the_mean(text):
    table, price = table_of_texts([text] * 12), np.array([1.0, 100.0] * 6)
    plugin = LightGbm(SMALL)
    assert plugin.transform(table, plugin.fit(table, price)) == pytest.approx(np.full((12, 1), np.log(10)))


def test_the_trees_are_read_once(products):
    table, price = products
    plugin = LightGbm(SMALL)
    state = plugin.fit(table, price)
    feature._open.cache_clear()
    for row in range(3):
        plugin.transform(table.take(np.array([row])), state)
    assert feature._open.cache_info().misses == 1


def test_nothing_is_printed(products, capfd):
    plugin = LightGbm(SMALL)
    plugin.transform(products[0], plugin.fit(*products))
    plugin.fit(table_of_texts(["tea"]), np.ones(1))
    assert capfd.readouterr() == ("", "")


def test_from_a_table_to_prices_where_torch_is_absent(pricekit, program, catalog, tmp_path):
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    settings = ["backbone.width=8", "backbone.buckets=64", "feature_options.lightgbm.rounds=8"]
    train = ["train", catalog, "--out", run, "--features", "optimized22,lightgbm", "--epochs", 8, "--quiet"]
    assert pricekit(*train, *(part for s in settings for part in ("--set", s)))[0] == 0
    assert pd.read_parquet(run / "out_of_fold.parquet").columns.tolist() == ["lightgbm_log_price"]
    assert pricekit("export", run, "--out", bundle)[0] == 0
    prices = tmp_path / "run.csv", tmp_path / "bundle.csv"
    assert pricekit("predict", run, catalog, "--out", prices[0])[0] == 0
    program("predict", bundle, catalog, "--out", prices[1], absent=("torch",))
    expected, found = (pd.read_csv(path)["price"].to_numpy() for path in prices)
    assert len(found) == 400
    assert found == pytest.approx(expected, rel=1e-3)
