"""Explanations of models: runs, bundles, ensembles, columns that only a feature reads, and unusual rows."""

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, PluginError
from pricekit.insight.explanations import ROWS_AT_A_TIME, explain_rows
from pricekit.table import Columns, read_frame

TEXT = "Item Name: Sea Salt Crackers, 14 Ounce (Pack of 6)\nBullet Point 1: Crisp\nValue: 84\nUnit: Ounce"


def _check(found, price):
    """The price is the base times all factors, at every level."""
    assert found.price == pytest.approx(price, rel=1e-6)
    assert found.base * np.prod([factor.factor for factor in found.factors]) == pytest.approx(price, rel=1e-6)
    phrases, words = found.phrases(), found.words()
    assert np.prod([found.base, *(each.factor for each in phrases)]) == pytest.approx(price, rel=1e-6)
    assert np.prod([found.base, *(each.factor for each in words)]) == pytest.approx(price, rel=1e-6)


@pytest.mark.parametrize("evaluations", [2, 30, 500])
def test_a_price_is_the_base_times_its_factors(run, bundle, evaluations):
    for path in (run, bundle):
        model = pk.load(path, "ort-cpu" if path is bundle else None)
        texts = [TEXT, "Plum jam", "", TEXT.replace("14", "15")]
        found = model.explain(texts, evaluations=evaluations)
        for explanation, price in zip(found, model.predict(texts), strict=True):
            _check(explanation, float(price))
        assert found[2].factors == ()
        assert found[2].base == found[0].base


def test_a_run_and_its_bundle_have_the_same_reasons(run, bundle):
    (of_run,), (of_bundle,) = (pk.load(path).explain([TEXT]) for path in (run, bundle))
    factors = [[phrase.factor for phrase in each.phrases()] for each in (of_run, of_bundle)]
    assert factors[0] == pytest.approx(factors[1], rel=1e-3)


def test_rows_do_not_depend_on_the_rows_beside_them(bundle):
    model = pk.load(bundle, "ort-cpu")
    texts = pk.make_catalog(ROWS_AT_A_TIME + 6, seed=9)["catalog_content"].tolist()
    together = model.explain(texts, evaluations=40)
    alone = model.explain([texts[-1]], evaluations=40)[0]
    assert [each.factor for each in together[-1].factors] == pytest.approx(
        [each.factor for each in alone.factors], rel=1e-5
    )


def _price_of(frame_price):
    return lambda table: frame_price(table.frame).to_numpy(float)


def test_columns_that_only_a_feature_reads_have_factors():
    frame = pd.DataFrame(
        {"title": ["tea", "jam"], "grams": [500, 250], "shop": ["north", "south"], "price": [2.0, 3.0]}
    )

    def price(cells):
        grams = cells["grams"].astype("Float64").fillna(100).astype(float)
        return grams * cells["shop"].map({"north": 2.0}).fillna(1.0)

    columns = Columns(("title",), None, None)
    table = read_frame(frame.drop(columns="price"), columns)
    north, south = explain_rows(table, columns, _price_of(price))
    assert {each.column: round(each.factor, 6) for each in north.factors} == {
        "title": 1,
        "grams": 5,
        "shop": 2,
    }
    assert {each.column: round(each.factor, 6) for each in south.factors} == {
        "title": 1,
        "grams": 2.5,
        "shop": 1,
    }
    ignored = explain_rows(table, columns, _price_of(lambda cells: cells["title"].str.len() + 1))
    assert [each.column for each in ignored[0].factors] == ["title"]


def test_a_model_of_several_columns(tmp_path):
    frame = pk.make_catalog(200).rename(columns={"catalog_content": "title"}).assign(stars=4.5)
    options = {"epochs": 1, "refit": False, "features": ["optimized22", "columns"], "max_length": 32}
    model = pk.load(pk.train(frame, text=["title", "stars"], out=tmp_path / "run", **options))
    found = model.explain(frame.head(2))
    for explanation, price in zip(found, model.predict(frame.head(2)), strict=True):
        _check(explanation, float(price))
    assert [factor.text for factor in found[0].factors if factor.column == "stars"] == ["4.5"]
    as_text = model.explain([f"title: {frame.title[0]}\nstars: 4.5"])[0]
    assert as_text.price == pytest.approx(found[0].price)


def test_too_few_evaluations_are_an_error(bundle, raises):
    with raises(ConfigError, "evaluations"):
        pk.load(bundle, "ort-cpu").explain([TEXT], evaluations=1)


def test_no_rows_have_no_explanations(bundle):
    assert pk.load(bundle, "ort-cpu").explain([]) == []


def test_columns_that_a_feature_cannot_do_without_are_not_explained():
    frame = pd.DataFrame({"title": ["green tea", "plum jam"], "stock": [3.0, 5.0], "price": [2.0, 4.0]})
    columns = Columns(text=("title",), price=None, id=None)

    def price(table):
        if table.frame["stock"].isna().any():
            raise PluginError("the feature 'stock' returned values that are not finite")
        return 1 + table.text.str.len().to_numpy(np.float64) + table.frame["stock"].to_numpy(np.float64)

    found = explain_rows(read_frame(frame, columns), columns, price)
    assert [each.price for each in found] == pytest.approx([13, 14])
    assert {factor.column for each in found for factor in each.factors} == {"title"}


def test_cells_may_be_lists():
    frame = pd.DataFrame({"title": ["green tea", "plum jam"], "tags": [["a", "b"], []]})
    columns = Columns(text=("title",), price=None, id=None)

    def price(table):
        tags = [len(cell) if isinstance(cell, list | np.ndarray) else 0 for cell in table.frame["tags"]]
        return 1 + table.text.str.len().to_numpy(np.float64) + np.array(tags)

    found = explain_rows(read_frame(frame, columns), columns, price)
    assert [factor.column for factor in found[0].factors] == ["title", "tags"]
    assert [factor.column for factor in found[1].factors] == ["title"]
