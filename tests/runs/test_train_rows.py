"""Training with row weights, groups and times."""

import json

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.held_out import read_held_out
from pricekit.evaluation.scores import facts_of
from pricekit.metrics import METRICS
from pricekit.runs.load import load_model

SMALL = {"backbone.members": 1, "backbone.buckets": 256, "backbone.width": 8}
TINY = {"epochs": 2, "features": ["optimized22"], "settings": SMALL}
WITH_TREES = {
    "epochs": 2,
    "features": ["optimized22", "trees"],
    "settings": SMALL | {"feature_options.trees.rounds": 10},
}


def catalog(rows=240, **columns):
    frame = pk.make_catalog(rows, seed=4).drop(columns="sample_id")
    return frame.assign(**columns)


@pytest.fixture(scope="module")
def weighted():
    frame = catalog(weight=np.random.default_rng(0).integers(0, 4, 240))
    return frame, pk.train(frame, weight="weight", **WITH_TREES)


def test_held_out_rows_and_metrics_have_the_weights(weighted):
    frame, run = weighted
    held = run.held_out
    assert held["sample_weight"].tolist() == frame["weight"].iloc[held["row"]].tolist()
    expected = METRICS["smape"](held["predicted"], held["price"], held["sample_weight"])
    assert run.metrics["smape"] == pytest.approx(expected)
    assert pk.load(run).evaluate().metrics["smape"] == pytest.approx(expected)
    assert run.evaluate(worst=1).metrics["smape"] == pytest.approx(expected)
    assert pk.compare(run, run).runs[0].score == pytest.approx(expected)
    assert expected != pytest.approx(METRICS["smape"](held["predicted"], held["price"]))


def test_a_table_is_scored_with_its_weights(weighted, raises):
    _, run = weighted
    other = pk.make_catalog(60, seed=9).assign(w=np.arange(60) % 3)
    scores, predicted = pk.load(run).evaluate(other, weight="w"), run.predict(other)
    assert scores.metrics["smape"] == pytest.approx(METRICS["smape"](predicted, other["price"], other["w"]))
    with raises(ConfigError, "weight"):
        pk.load(run).evaluate(weight="w")


def test_equal_weights_change_nothing_but_the_column():
    frame = catalog(weight=3.0)
    one, other = pk.train(frame, **TINY), pk.train(frame, weight="weight", **TINY)
    assert other.held_out["predicted"].tolist() == pytest.approx(one.held_out["predicted"].tolist(), rel=1e-4)
    assert "sample_weight" not in one.held_out


def test_weights_move_the_prices_towards_rows_that_count():
    """Two kinds of rows have the same texts, at the prices 10 and 40; the second kind counts nine times as much."""
    frame = pd.DataFrame(
        {
            "title": [
                f"{('green', 'black', 'white', 'red')[i // 2 % 4]} tea {i // 2 % 5}" for i in range(400)
            ],
            "price": np.where(np.arange(400) % 2, 40.0, 10.0) * np.linspace(0.99, 1.01, 400),
            "weight": np.where(np.arange(400) % 2, 9.0, 1.0),
        }
    )
    given = {"text": "title", "loss": "log-l1", "metric": "mae", "epochs": 15, "allow_leak": True}
    for features, more in (["optimized22"], {}), (["trees"], {"feature_options.trees.rounds": 60}):
        settings = {"backbone.members": 1, **more}
        one = pk.train(frame, features=features, settings=settings, **given)
        other = pk.train(frame, features=features, settings=settings, weight="weight", **given)
        middle = [run.held_out["predicted"].median() for run in (one, other)]
        assert middle[1] > 38
        assert middle[0] < 30


def test_an_interval_contains_its_share_of_the_weight(weighted):
    _, run = weighted
    held = read_held_out(run.path)
    low, high = load_model(run.path).intervals.bounds(held.predicted, held.spread, 0.5)
    inside = (held.price >= low) & (held.price <= high)
    assert 0.4 <= np.average(inside, weights=held.weight) <= 0.65


def test_a_weighted_run_resumes_and_refits(tmp_path, weighted, raises):
    frame, _ = weighted
    run = pk.train(frame, weight="weight", refit=True, out=tmp_path / "run", **TINY)
    assert facts_of(run.path)["refit"]["rows"] == 240
    (tmp_path / "run" / "run.json").unlink()
    again = pk.train(frame, weight="weight", refit=True, out=tmp_path / "run", resume=True, **TINY)
    assert again.metrics == pytest.approx(run.metrics)
    other = frame.assign(weight=frame["weight"] + 1)
    (tmp_path / "run" / "run.json").unlink()
    with raises(pk.PricekitError, "table", "valid", "encoding", "decimal", "out"):
        pk.train(other, weight="weight", refit=True, out=tmp_path / "run", resume=True, **TINY)


def test_a_loss_without_terms_cannot_weigh_rows(tmp_path, raises):
    plugin = tmp_path / "losses.py"
    plugin.write_text(
        "import pricekit\nfrom pricekit.nets.losses import LogPrice\n\n\n"
        "class Plain(LogPrice):\n"
        "    def forward(self, raw, price):\n        return (self.log_price(raw) - price.log()).abs().mean()\n\n"
        "    def to_price(self, raw):\n        return self.log_price(raw).exp()\n\n\n"
        "@pricekit.plugin.hookimpl\ndef pricekit_register_losses(register):\n"
        '    register("plain", f"{__name__}:Plain", "without terms")\n'
    )
    from pricekit.core.loader import registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRICEKIT_PLUGIN_FILES", str(plugin))
        registry.cache_clear()
        with raises(ConfigError, "weight", "loss"):
            pk.train(catalog(weight=1.0), weight="weight", loss="plain", **TINY)
    registry.cache_clear()


def groups_of(rows, frame):
    return set(frame["shop"].iloc[rows])


def test_a_group_is_on_one_side():
    frame = catalog(shop=[f"shop {i % 12}" for i in range(240)])
    run = pk.train(frame, group="shop", refit=False, **TINY)
    held = run.held_out["row"]
    others = sorted(set(range(240)) - set(held))
    assert not groups_of(held, frame) & groups_of(others, frame)
    assert 0.08 < len(held) / 240 < 0.25


def test_large_groups_are_held_out_too():
    frame = catalog(shop=["a"] * 120 + ["b"] * 120)
    run = pk.train(frame, group="shop", refit=False, **TINY)
    assert len(run.held_out) == 120


def test_folds_keep_groups_together():
    frame = catalog(shop=[f"shop {i % 9}" for i in range(240)])
    held = pk.cross_validate(frame, folds=3, group="shop", refit=False, **WITH_TREES).held_out
    folds = held.groupby(frame["shop"].iloc[held["row"]].to_numpy())["fold"].nunique()
    assert folds.max() == 1
    assert len(held) == 240


def test_later_rows_are_held_out():
    days = pd.date_range("2024-01-01", periods=240).strftime("%Y-%m-%d").to_numpy()
    frame = catalog(day=np.random.default_rng(1).permutation(days))
    run = pk.train(frame, time="day", refit=False, **WITH_TREES)
    held = run.held_out["row"]
    others = sorted(set(range(240)) - set(held))
    assert frame["day"].iloc[held].min() > frame["day"].iloc[others].max()
    assert len(held) == 36


def test_rolling_folds_are_scored_by_models_of_earlier_rows(tmp_path):
    frame = catalog(year=np.repeat(np.arange(2000, 2024), 10))
    cv = pk.cross_validate(frame, folds=3, time="year", out=tmp_path / "cv", **TINY)
    held = cv.held_out
    assert len(held) == 180
    assert held["row"].min() == 60
    for fold, run in enumerate(cv.runs):
        facts = json.loads((run.path / "run.json").read_text())
        trained = facts["refit"]["rows"] if "refit" in facts else facts["rows"]["train"]
        assert trained == 60 * (fold + 1)
        assert held[held["fold"] == fold]["row"].min() == 60 * (fold + 1)
    (tmp_path / "cv" / "cv.json").unlink()
    again = pk.cross_validate(frame, out=tmp_path / "cv", resume=True)
    assert again.held_out["predicted"].tolist() == held["predicted"].tolist()


def test_too_few_times_for_the_folds(raises):
    with raises(DataError, "folds", "time", times=2):
        pk.cross_validate(catalog(year=[2000, 2001] * 120), folds=3, time="year", **TINY)


def test_group_and_time_exclude_each_other(raises):
    with raises(ConfigError, "group", "time"):
        pk.train(catalog(a=1, b=2), group="a", time="b", **TINY)
