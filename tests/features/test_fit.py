"""Features that use the price are fitted out of fold."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.core.loader import registry
from pricekit.errors import PluginError
from pricekit.features.fit import fit_features, threads_for
from pricekit.table import table_of_texts

PLUGIN = """
import numpy as np
import pricekit

class Known:
    '''The price that was learned for a text, 0 for one that was not.'''
    names = ("known",)
    uses_price = True
    def fit(self, table, price):
        return dict(zip(table.text, price.tolist()))
    def transform(self, table, state):
        return np.array([[state.get(text, 0)] for text in table.text], np.float32).reshape(-1, 1)

@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("known", f"{__name__}:Known", "leaks, were it not for the folds")
"""


@pytest.fixture
def known(tmp_path, monkeypatch):
    (tmp_path / "known.py").write_text(PLUGIN)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "known.py"))
    registry.cache_clear()
    yield tmp_path / "known.py"
    registry.cache_clear()


def test_the_columns_of_a_row_do_not_depend_on_its_own_price(known):
    texts = [f"product {number}" for number in range(23)]
    price = np.arange(1, 24, dtype=float)
    fitted, out_of_fold = fit_features(["known"], {}, replace(table_of_texts(texts), price=price))
    assert out_of_fold["known"].tolist() == [0.0] * 23  # each text is known from one row, its own
    assert fitted.transform(table_of_texts(texts))[:, 0].tolist() == price.tolist()
    twice = fit_features(["known"], {}, replace(table_of_texts(["a"] * 23), price=price))[1]["known"]
    assert (twice[:22] == 23).any()  # a text that others have, too, is known from the last of those
    assert twice[22] < 23


def test_two_folds_learn_from_each_other(known):
    table = table_of_texts(["a"] * 20)
    table = replace(table, cluster=np.arange(20), price=np.arange(1, 21, dtype=float))
    _, columns = fit_features(["known"], {}, table, folds=2)
    last = sorted(set(columns["known"].tolist()))  # of the rows of the other fold
    assert len(last) == 2
    assert last[1] == 20
    assert (columns["known"] == last[0]).sum() == 10


def test_threads_fit_no_more_rows_than_allowed(monkeypatch):
    monkeypatch.setattr("pricekit.features.fit.usable_cpus", lambda: 3)
    monkeypatch.setattr("pricekit.features.fit.ROWS_AT_ONCE", 150)
    rows_and_folds = [(40, 5), (75, 5), (100, 2), (100, 5), (1000, 2)]
    assert [threads_for(*each) for each in rows_and_folds] == [3, 2, 2, 1, 1]


def test_out_of_fold_values_do_not_leak_between_equal_texts(known):
    texts = [f"product {number}" for number in range(20)] * 2
    table = table_of_texts([*texts[:20], *(text.upper() + "!" for text in texts[20:])])
    _, out_of_fold = fit_features(["known"], {}, replace(table, price=np.arange(1, 41, dtype=float)))
    assert out_of_fold["known"].tolist() == [0.0] * 40
    _, exactly = fit_features(
        ["known"], {}, replace(table_of_texts(texts), price=np.arange(1, 41, dtype=float))
    )
    assert exactly["known"].tolist() == [0.0] * 40


def test_the_first_complete_estimate_of_the_log_price_is_found():
    table, price = table_of_texts([f"tea {number}" for number in range(30)]), np.arange(1.0, 31.0)
    names = ["fast15", "trees"]
    fitted, _ = fit_features(names, {"trees": {"rounds": 2}}, replace(table, price=price))
    assert fitted.names[fitted.log_price] == "trees_log_price"
    assert fit_features(["fast15"], {}, table)[0].log_price is None


def test_an_estimate_that_is_no_column_of_its_feature_is_an_error(known, raises):
    known.write_text(PLUGIN.replace("uses_price = True", "uses_price = True; log_price = 'other'"))
    fitted, _ = fit_features(["known"], {}, replace(table_of_texts(["a", "b"] * 6), price=np.ones(12)))
    with raises(PluginError):
        fitted.log_price  # noqa: B018


def test_known_out_of_fold_values_are_not_computed_again(known):
    texts, price = [f"product {number}" for number in range(23)], np.arange(1, 24, dtype=float)
    before = np.linspace(5, 6, 23, dtype=np.float32)
    fitted, columns = fit_features(
        ["known"], {}, replace(table_of_texts(texts), price=price), {"known": before}
    )
    assert columns["known"] is before
    assert fitted.transform(table_of_texts(texts))[:, 0].tolist() == price.tolist()


@pytest.mark.parametrize("cpus", [1, 3])
def test_out_of_fold_values_do_not_depend_on_the_number_of_threads(known, monkeypatch, cpus):
    monkeypatch.setattr("pricekit.features.fit.usable_cpus", lambda: cpus)
    texts = ["a", "b"] * 20  # labels, which recur in every fold
    found = fit_features(["known"], {}, replace(table_of_texts(texts), price=np.arange(1, 41, dtype=float)))[
        1
    ]["known"]
    monkeypatch.setattr("pricekit.features.fit.ROWS_AT_ONCE", 1)
    again = fit_features(["known"], {}, replace(table_of_texts(texts), price=np.arange(1, 41, dtype=float)))[
        1
    ]["known"]
    assert found.any()
    assert np.array_equal(found, again)


def test_a_failure_in_one_fold_names_the_feature(known, raises):
    known.write_text(
        known.read_text().replace("return dict(", "len(table) == 23 or fail()\n        return dict(")
    )
    registry.cache_clear()
    with raises(PluginError, kind="feature", name="known", package="known.py"):
        fit_features(["known"], {}, replace(table_of_texts([f"p {n}" for n in range(23)]), price=np.ones(23)))


def test_a_price_feature_without_prices_is_an_error(known, raises):
    from pricekit.errors import DataError

    with raises(DataError, "features", feature="known"):
        fit_features(["known"], {}, table_of_texts(["a"]))


def test_a_run_trains_on_them_and_resumes_with_them(known, pricekit, catalog, tmp_path):
    run = tmp_path / "run"
    small = [
        "--set",
        "backbone.width=8",
        "--set",
        "backbone.buckets=64",
        "--epochs",
        2,
        "--no-refit",
        "--quiet",
    ]
    train = ["train", catalog, "--out", run, "--plugin", known]
    assert pricekit(*train, "--features", "fast15,known", *small)[0] == 0
    columns = pd.read_parquet(run / "out_of_fold.parquet")
    assert columns.columns.tolist() == ["known"]
    assert len(columns) == 340

    from pricekit.config import build_config, read_toml
    from pricekit.runs.folder import folder_to_write
    from pricekit.runs.prepare import prepare
    from pricekit.runs.split import Source

    registry.cache_clear()
    config = build_config([read_toml(run / "config.toml")])
    again = shutil.copytree(run, tmp_path / "again")
    job = prepare(Source(catalog), config, folder_to_write(again, "run", "resume"), 0.0)[1]
    names = registry().create("feature", "fast15").names
    assert job.train.inputs.features[:, len(names)].tolist() == columns["known"].tolist()
    bundle, prices = tmp_path / "bundle", tmp_path / "prices.csv"
    assert pricekit("export", run, "--out", bundle, "--plugin", known)[0] == 0
    assert pricekit("predict", bundle, catalog, "--out", prices, "--plugin", known)[0] == 0
