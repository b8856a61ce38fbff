"""Partial dependence of the price on an engineered feature."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, DataError
from pricekit.features.preprocess import Inputs
from pricekit.plots import FeatureEffectDisplay
from pricekit.plots.effects import measure_effect
from pricekit.predict.predictor import Predictor
from pricekit.table import Columns, table_of_texts
from pricekit.text.tokens import Tokens

WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NoTorch())
import pricekit as pk
shown = pk.plots.FeatureEffectDisplay.from_model(sys.argv[1], sys.argv[2], feature="value")
assert len(shown.values) > 2
pk.plots.DecileDisplay.from_model(sys.argv[1], sys.argv[2])
"""


def member(names, prices, weight):
    """A member whose inputs are the lengths of the texts times 1, 2, …."""

    def prepare(table):
        lengths = table.text.str.len().to_numpy(np.float32)
        tokens = Tokens(np.zeros(len(table), np.int32), np.arange(len(table) + 1))
        return Inputs(tokens, lengths[:, None] * np.arange(1, len(names) + 1, dtype=np.float32), 0)

    prepare.features = SimpleNamespace(names=names)
    prepare.columns = Columns(("text",), None, None)
    return SimpleNamespace(preprocessor=prepare, prices=lambda inputs: prices(inputs.features), weight=weight)


def table(lengths=range(1, 41)):
    return table_of_texts(["x" * n for n in lengths], "text")


def test_the_effect_is_the_mean_log_price_at_each_value():
    model = Predictor(
        (member(["size", "other"], lambda f: np.exp(0.1 * f[:, 0] + 0.01 * f[:, 1]), 1.0),), currency="EUR"
    )
    shown = measure_effect(model, table(), "size").plot()
    other = 2 * np.arange(1, 41)
    assert len(shown.values) == 20
    assert (shown.values[0], shown.values[-1]) == (1, 40)
    assert np.isin(shown.values, np.arange(1, 41)).all()
    assert shown.log_price.shape == (20, 40)
    assert shown.price == pytest.approx(np.exp(0.1 * shown.values + 0.01 * other.mean()))
    assert shown.ax_.get_ylabel() == "geometric mean of predicted prices (EUR)"


def test_members_without_the_feature_keep_their_inputs():
    first = member(["size"], lambda f: np.exp(0.1 * f[:, 0]), 0.25)
    second = member(["length", "size"], lambda f: np.exp(f[:, 1] - f[:, 0]), 0.25)
    third = member(["width"], lambda f: np.exp(0.2 * f[:, 0]), 0.5)
    shown = measure_effect(Predictor((first, second, third)), table(), "size")
    mean = np.arange(1, 41).mean()
    logs = 0.25 * 0.1 * shown.values + 0.25 * (shown.values - mean) + 0.5 * 0.2 * mean
    assert np.log(shown.price) == pytest.approx(logs, rel=1e-4)


def test_a_run_has_a_sample_and_a_bundle_needs_a_table(run, bundle, catalog, raises):
    by_run = FeatureEffectDisplay.from_model(run, feature="value")
    assert by_run.log_price.shape[1] == len(pd.read_parquet(run / "sample.parquet"))
    frame = pd.read_csv(catalog).drop(columns="price")[:50]
    by_bundle, again = (
        FeatureEffectDisplay.from_model(model, frame, feature="value") for model in (bundle, run)
    )
    assert by_bundle.log_price == pytest.approx(again.log_price, abs=1e-4)
    with raises(DataError, "table"):
        FeatureEffectDisplay.from_model(bundle, feature="value")
    with raises(DataError, "table"):
        FeatureEffectDisplay.from_model(pk.load(bundle, "ort-cpu"), feature="value")


def test_bundles_need_no_torch(bundle, catalog):
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, str(bundle), str(catalog)], check=True)


def test_unknown_and_constant_features_are_refused(raises):
    model = Predictor((member(["size", "$weight$"], lambda f: 1 + f[:, 0], 1.0),))
    with raises(ConfigError, "feature", feature="sizes", candidates=["size", "$weight$"]):
        measure_effect(model, table(), "sizes")
    with raises(DataError, "table", feature="size"):
        measure_effect(model, table([5] * 30), "size")


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 3], "linear"),
        ([-1, 0, 1000], "linear"),
        ([1, 5, 900], "log"),
        ([0, 1, 5, 900], "symlog"),
        ([0, 1], "linear"),
    ],
)
def test_the_scale_suits_the_values(values, scale):
    logs = np.log(np.arange(1.0, 1 + len(values)))[:, None] * np.ones(30)
    shown = FeatureEffectDisplay(
        "$x_$", np.array(values, float), logs, np.resize(values, 30).astype(float)
    ).plot()
    assert shown.ax_.get_xscale() == scale
    assert shown.ax_.get_xlabel().startswith("$x_$ ")
    assert shown._repr_png_() is not None
