"""Fitted features as a run and a bundle store them."""

import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel, Field

from pricekit.core.loader import registry
from pricekit.datasets import make_catalog
from pricekit.errors import BundleError, PluginError
from pricekit.features.fit import fit_features
from pricekit.features.fitted import LOCAL, FittedFeatures
from pricekit.features.fitted_feature import FittedFeature
from pricekit.table import table_of_texts
from tests.faults.grammar import mutate


class Options(BaseModel):
    weights: str = Field("", json_schema_extra={LOCAL: True})
    column: str = "a/b"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("models/siglip", "siglip"),
        ("models/siglip/", "siglip"),
        ("encoder.onnx", "encoder.onnx"),
        (".", "here"),
        ("below/..", "here"),
        ("link", "link"),
        ("/", "weights"),
        ("", ""),
    ],
)
def test_a_bundle_has_the_name_of_a_file_that_only_a_fit_reads(given, stored, tmp_path, monkeypatch):
    """A name is never empty, because an option that is not set may mean other columns."""
    (tmp_path / "here" / "below").mkdir(parents=True)
    (tmp_path / "here" / "link").symlink_to("below")
    monkeypatch.chdir(tmp_path / "here")
    plugin = SimpleNamespace(names=("trees",), Options=Options)
    options = Options(weights=given).model_dump()
    fitted = FittedFeatures((FittedFeature("trees", options, plugin, {}),))
    assert fitted.to_json(portable=True)[0]["options"] == {"weights": stored, "column": "a/b"}
    assert fitted.to_json()[0]["options"] == options


OPTIONS = {
    "trees": {"rounds": 5, "neighbours": True, "words": 50, "vectors": ["seen"]},
    "vectors": {"vectors": ["seen"], "components": 3},
}
BUILT_IN = [entry.name for entry in registry().of_kind("feature") if entry.package == "pricekit"]
CATALOG = make_catalog(120)


def with_vectors(table):
    """Add vectors of four numbers, some of them missing."""
    draw = np.random.default_rng(0).normal(size=(len(table), 4))
    cells = [str(vector.tolist()) if number % 7 else "" for number, vector in enumerate(draw)]
    return replace(table, frame=table.frame.assign(seen=pd.array(cells, dtype="str")))


TABLE = with_vectors(table_of_texts(CATALOG.catalog_content))
ODD = with_vectors(
    table_of_texts(
        ["", "tea", "Item Name: Tea\nBrand: x\nValue: 1e9\nUnit: kg", "茶" * 300, *TABLE.text[:20]]
    )
)


@pytest.fixture(scope="module", params=BUILT_IN)
def record(request):
    """What a bundle stores of a built-in feature."""
    name = request.param
    options = {name: OPTIONS[name]} if name in OPTIONS else {}
    fitted, _ = fit_features([name], options, replace(TABLE, price=CATALOG.price.to_numpy()))
    return fitted.to_json()[0]


def test_a_damaged_state_of_a_built_in_feature_is_the_bundles_fault(record, raises):
    """A state is refused when it is opened, or it computes numbers."""
    refused = []
    for seed in range(100):
        state = mutate(record["state"], random.Random(f"{record['name']} {seed}"))
        if not isinstance(state, dict):
            continue  # refused before, see `Record`
        try:
            features = FittedFeatures.from_json([record | {"state": state}])
        except BundleError as error:
            refused.append(str(error))
        else:
            for rows in (ODD, ODD.take(np.arange(3))):
                assert np.isfinite(features.transform(rows)).all()
    assert len(refused) >= 20
    assert not any("\n" in message or len(message) > 1_000 for message in refused)
    with raises(BundleError):
        FittedFeatures.from_json([record | {"state": {}, "version": "0.0.1"}])


def test_hostile_options_and_columns_of_a_built_in_feature_are_the_bundles_fault(record, raises):
    for change in ({"options": {"columns": "x" * 50, "rounds": -1}}, {"columns": ["other"]}):
        for version in (record["version"], "0.0.1"):
            with raises(BundleError):
                FittedFeatures.from_json([record | change | {"version": version}])


def test_words_stand_for_names_of_columns_and_a_failing_plugin_is_named(raises):
    table = make_catalog(50)["catalog_content"].tolist()
    features, _ = fit_features(["fast15"], {}, table_of_texts(table))
    assert set(features.words) == set(features.names)
    (part,) = features.parts

    class Silent(type(part.plugin)):
        def describe(self, state):
            return {"nowhere": "x", "value": 1}

    class Failing(type(part.plugin)):
        def describe(self, state):
            return state["nowhere"]

    assert FittedFeatures((replace(part, plugin=Silent()),)).words == {"value": "1"}
    with raises(PluginError):
        _ = FittedFeatures((replace(part, plugin=Failing()),)).words
