"""The measurement as a whole: runs and bundles, with and without optional libraries."""

import subprocess
import sys

import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError

WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("torch", "scipy"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Without())
import pricekit as pk
found = pk.load(sys.argv[1]).importance(sys.argv[2], repeats=1, limit=40)
assert found.rows == 40
assert found.features.increase.max() > 0
assert found.features.low.isna().any()
"""


@pytest.fixture(scope="module")
def found(run):
    return pk.Model(run).importance(repeats=2)


def test_the_score_is_that_of_evaluate(found, run):
    assert found.score == pytest.approx(pk.load(run).evaluate().metrics["smape"], rel=1e-4)
    assert found.rows == pk.load(run).evaluate().rows


def test_frames_are_sorted_and_complete(found):
    assert found.features["increase"].is_monotonic_decreasing
    assert found.lines["increase"].is_monotonic_decreasing
    assert (found.words["rows"] * found.words["size"]).is_monotonic_decreasing
    assert {"Item Name", "Value", "Unit"} <= set(found.lines["line"])
    assert len(found.features) >= 22
    assert found.features[["low", "high"]].notna().all().all()


def test_the_same_call_gives_the_same_numbers(found, run):
    again = pk.Model(run).importance(repeats=2)
    for name in ("features", "lines", "words"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(again, name), rtol=1e-5)


def test_bundles_need_neither_torch_nor_scipy(bundle, catalog):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(bundle), str(catalog)], check=True, capture_output=True, text=True
    )
    assert "the intervals are omitted: they need scipy (pip install scipy)" in done.stderr


def test_an_ensemble_is_measured_as_one_model(run, catalog, tmp_path):
    other = pk.train(catalog, features="fast15", epochs=1, max_length=16, refit=False, out=tmp_path / "other")
    both = pk.ensemble([run, other], out=tmp_path / "both")
    found = pk.Model(both.path).importance(metric="mae", repeats=1)
    assert found.metric.name == "mae"
    assert found.features["feature"].is_unique


@pytest.mark.parametrize("repeats", [0, 1.5, True])
def test_repeats_is_a_number_of_permutations(run, repeats, raises):
    with raises(ConfigError, "repeats"):
        pk.Model(run).importance(repeats=repeats)


def test_an_unknown_metric_is_named(run, raises):
    with raises(ConfigError, "metric"):
        pk.Model(run).importance(metric="smap")
