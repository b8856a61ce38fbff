"""The share of a feature's own estimate in the price of a run."""

import numpy as np
import pytest

import pricekit as pk
from conftest import tiny_config
from pricekit.evaluation.held_out import read_held_out
from pricekit.metrics import smape
from pricekit.runs import train as finishing
from pricekit.runs.cross_validation import config_of_folds
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source, load_split
from pricekit.runs.train import train

TREES = {"features": ["fast15", "trees"], "feature_options": {"trees": {"rounds": 10, "words": 20}}}
WEAK = {"training": {"epochs": 1, "learning_rate": 1e-6, "embedding_learning_rate": 1e-6}}
"""The network learns nothing, so the estimate of the trees is the better price."""


@pytest.fixture(
    scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["one pass", "refit"]
)
def weak(request, catalog, tmp_path_factory):
    """A run of a weak network; read only."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(Source(catalog), tiny_config(TREES, WEAK, {"training": {"refit": request.param}}), out)
    return out


def test_a_weak_network_leaves_as_much_as_possible_to_the_estimate(weak, catalog):
    run = open_run(weak)
    assert run.facts["estimate_share"] == run.model.estimate_share == max(finishing.ESTIMATE_SHARES)
    held_out = read_held_out(weak)
    assert run.facts["metrics"]["smape"] == pytest.approx(smape(held_out.predicted, held_out.price), abs=1e-4)
    if "refit" not in run.facts:
        again = run.predictor().predict(load_split(Source(catalog), run.config).valid)
        assert np.allclose(again, held_out.predicted, rtol=1e-4)


def test_the_share_is_the_one_with_the_lowest_error_on_the_validation_rows(catalog, tmp_path, monkeypatch):
    scores = {}
    for share in (0.0, 0.3, 0.6):
        monkeypatch.setattr(finishing, "ESTIMATE_SHARES", (share,))
        facts = train(Source(catalog), tiny_config(TREES), tmp_path / str(share))
        scores[share] = facts["metrics"]["smape"]
        assert facts["estimate_share"] == share
    monkeypatch.setattr(finishing, "ESTIMATE_SHARES", tuple(scores))
    facts = train(Source(catalog), tiny_config(TREES), tmp_path / "all")
    assert len(set(scores.values())) == 3
    assert facts["estimate_share"] == min(scores, key=scores.get)
    assert facts["metrics"]["smape"] == min(scores.values())


@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.slow)])
def test_a_bundle_has_the_share_of_its_run(weak, tmp_path, catalog, precision):
    pk.load(weak).export(out=tmp_path / "bundle", precision=precision)
    texts = load_split(Source(catalog), open_run(weak).config).valid.text.tolist()
    found = pk.load(tmp_path / "bundle").predict(texts)
    assert np.allclose(found, pk.load(weak).predict(texts), rtol=1e-3 if precision == "fp32" else 1e-2)


def test_rows_that_score_a_run_with_its_last_weights_choose_no_share(catalog, tmp_path):
    config = config_of_folds({"settings": {"training.refit": False}})
    assert config.training.keep == "last"
    facts = train(Source(catalog), tiny_config(TREES, WEAK, {"training": {"keep": "last"}}), tmp_path / "run")
    assert facts["estimate_share"] == 0


def test_runs_without_an_estimate_have_no_share(run):
    assert open_run(run).facts["estimate_share"] == 0
