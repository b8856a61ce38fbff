"""Training by another metric than SMAPE."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

import pricekit as pk
from pricekit.config import RunConfig
from pricekit.config.resolve import configure, explain
from pricekit.evaluation.scores import facts_of, goal_of
from pricekit.metrics import METRICS

TINY = {
    "epochs": 3,
    "features": ["optimized22"],
    "refit": False,
    "settings": {"backbone.members": 1, "backbone.buckets": 64, "backbone.width": 8},
}


def test_the_setting_accepts_every_metric_and_nothing_else():
    assert RunConfig().metric == "smape"
    for name in METRICS:
        assert RunConfig(metric=name).metric == name
    with pytest.raises(ValidationError):
        RunConfig(metric="accuracy")
    assert RunConfig.model_json_schema()["properties"]["metric"]["enum"] == list(METRICS)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_metric_brings_its_loss(name):
    assert configure([{"metric": name}]).loss.name == METRICS[name].loss


@pytest.mark.parametrize(
    ("layers", "loss"),
    [
        ([{"metric": "mape", "loss": "log-l1"}], "log-l1"),
        ([{"loss": "log-l1"}, {"metric": "mape"}], "log-l1"),
        ([{"metric": "mape"}, {"loss": {"name": "log-huber"}}], "log-huber"),
        ([{"policy": "optimized"}], "focal-smape"),
        ([{"policy": "optimized", "metric": "smape"}], "focal-smape"),
        ([{"policy": "optimized", "metric": "rmsle"}], "log-l2"),
    ],
)
def test_a_named_loss_stays(layers, loss):
    assert configure(layers).loss.name == loss


def test_the_source_of_the_loss_is_the_metric():
    settings = explain([("flag", {"metric": "mape"})])
    assert {s.name: s.source for s in settings}["loss.name"] == "metric mape"


def test_members_of_an_ensemble_have_the_metric_and_its_loss():
    config = configure([{"policy": "best", "metric": "mae"}])
    assert {(m["metric"], m["loss"]["name"]) for m in config.members.values()} == {("mae", "log-l1")}


@pytest.fixture(scope="module")
def run():
    return pk.train(pk.make_catalog(200, seed=1), metric="rmsle", **TINY)


def test_the_metric_chooses_the_epoch(run):
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    best = min(lines, key=lambda line: line["valid_rmsle"])
    assert facts_of(run.path)["best_epoch"] == best["epoch"]
    held = run.held_out
    assert run.metrics["rmsle"] == pytest.approx(METRICS["rmsle"](held["predicted"], held["price"]))
    assert run.metrics["rmsle"] == pytest.approx(best["valid_rmsle"], rel=1e-4)
    assert next(iter(run.metrics)) == "rmsle"


def test_the_goal_is_compared_with_a_constant(run):
    goal, held = goal_of(facts_of(run.path)), run.held_out["price"]
    assert goal.metric.name == "rmsle"
    constants = [METRICS["rmsle"](np.full(len(held), c), held) for c in np.geomspace(1, 100, 50)]
    assert min(constants) - 1e-3 <= goal.constant <= max(constants)


def test_reports_use_the_metric_of_the_model(run):
    assert pk.load(run).evaluate().metric.name == "rmsle"
    assert pk.load(run).evaluate(metric="mae").metric.name == "mae"
    assert run.evaluate(worst=1).metrics["rmsle"] == pytest.approx(run.metrics["rmsle"])
    assert "rmsle=" in repr(run)


def test_the_bundle_knows_the_metric(run, tmp_path):
    run.export(tmp_path / "bundle")
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert manifest["metric"] == "rmsle"
    assert manifest["constant_score"] == facts_of(run.path)["constant_score"]
    assert "| RMSLE |" in (tmp_path / "bundle" / "README.md").read_text()
    assert pk.load(tmp_path / "bundle").evaluate(pk.make_catalog(50, seed=3)).metric.name == "rmsle"


def test_an_ensemble_minimises_the_metric(run, tmp_path):
    other = pk.train(pk.make_catalog(200, seed=1), metric="rmsle", loss="smape", **TINY)
    both = pk.ensemble([run, other])
    assert facts_of(both.path)["metric"] == "rmsle"
    assert both.metrics["rmsle"] <= max(run.metrics["rmsle"], other.metrics["rmsle"])
    assert facts_of(pk.ensemble([run, other], out=tmp_path / "mae", metric="mae").path)["metric"] == "mae"


def test_a_cross_validation_is_scored_by_the_metric():
    cv = pk.cross_validate(pk.make_catalog(120), folds=2, metric="wape", **TINY)
    assert facts_of(cv.path)["metric"] == "wape"
    assert cv.metrics["wape"] == pytest.approx(
        METRICS["wape"](cv.held_out["predicted"], cv.held_out["price"])
    )
    assert pk.compare(cv, cv).metric.name == "wape"


def test_a_quantile_mixes_in_no_median():
    settings = TINY["settings"] | {"feature_options.trees.rounds": 40}
    given = {**TINY, "features": ["optimized22", "trees"], "loss": "pinball", "settings": settings}
    table = pk.make_catalog(240, seed=1)
    median = pk.train(table, **given)
    high = pk.train(table, **{**given, "settings": {**settings, "loss.quantile": 0.9}})
    assert facts_of(median.path)["estimate_share"] > 0 == facts_of(high.path)["estimate_share"]
    shares = [np.mean(run.held_out["price"] < run.held_out["predicted"]) for run in (median, high)]
    assert shares[1] > max(0.6, shares[0])


def test_an_unknown_metric_is_one_message(raises):
    with raises(pk.PricekitError, "metric", "settings", setting="metric"):
        pk.train(pk.make_catalog(60), metric="rmlse", **TINY)
