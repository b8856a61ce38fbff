"""Comparing models."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import write_judged
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.comparison import common_rows, compare, compare_folders, verdict_of
from pricekit.evaluation.scores import held_out_interval
from pricekit.metrics import METRICS, SMAPE, smape


def moved(held_out, factor, seed=0):
    """The same rows with predictions further from the price, by a slightly different factor for each row."""
    shift = factor * np.abs(np.random.default_rng(seed).normal(1, 0.5, len(held_out)))
    error = np.log(held_out.predicted / held_out.price)
    return replace(held_out, predicted=held_out.price * np.exp(error + np.sign(error) * shift))


def test_differences_by_hand(rows):
    first, second = rows(40), rows(40, seed=9)
    one, other = compare({"a": first, "b": second}).runs
    assert (one.name, one.difference, one.interval, one.verdict) == ("a", None, None, "")
    assert one.score == pytest.approx(smape(first.predicted, first.price))
    expected = smape(second.predicted, second.price) - smape(first.predicted, first.price)
    assert other.difference == pytest.approx(expected)
    assert other.interval[0] < other.difference < other.interval[1]


def test_a_true_difference_is_found_in_either_direction(rows):
    better = rows(400)
    worse = moved(better, 0.03)
    assert [c.verdict for c in compare({"a": better, "b": worse}).runs] == ["", "worse"]
    assert [c.verdict for c in compare({"a": worse, "b": better}).runs] == ["", "better"]


def test_pairing_detects_differences_that_two_intervals_miss(rows):
    better = rows(400)
    worse = moved(better, 0.03)
    assert held_out_interval(better, SMAPE)[1] > held_out_interval(worse, SMAPE)[0]  # they overlap
    assert compare({"a": better, "b": worse}).runs[1].verdict == "worse"


@pytest.mark.parametrize("name", sorted(METRICS))
def test_any_metric_decides(rows, name):
    better, metric = rows(400, seed=3), METRICS[name]
    worse = moved(better, 0.3)
    found = compare({"a": better, "b": worse}, metric)
    assert found.metric is metric
    expected = metric(worse.predicted, worse.price) - metric(better.predicted, better.price)
    assert found.runs[1].difference == pytest.approx(expected)
    assert found.runs[1].interval[0] < expected < found.runs[1].interval[1]
    assert found.runs[1].verdict == "worse"
    assert metric.title in repr(found)
    assert found.to_dict()["metric"] == name


def test_the_first_model_names_the_metric(rows, tmp_path, raises):
    for name, metric in (("a", "rmsle"), ("b", "mae")):
        (tmp_path / name).mkdir()
        write_judged(tmp_path / name, rows(50))
        (tmp_path / name / "run.json").write_text(json.dumps({"metric": metric}))
    folders = [tmp_path / "a", tmp_path / "b"]
    assert compare_folders(folders).metric.name == "rmsle"
    assert compare_folders(folders, "wape").metric.name == "wape"
    with raises(ConfigError, "metric"):
        compare_folders(folders, "rmsl")


def test_noise_is_rarely_taken_for_a_difference(rows):
    verdicts = [
        compare({"a": rows(100, seed=2 * n), "b": rows(100, seed=2 * n + 1)}).runs[1].verdict
        for n in range(60)
    ]
    assert verdicts.count("cannot tell") >= 52  # 57 on average


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_a_run_does_not_differ_from_itself_in_any_order(rows, seed):
    some = rows(30, seed=seed)
    shuffled = some.take(np.random.default_rng(seed).permutation(30))
    found = compare(common_rows({"a": some, "b": shuffled})).runs[1]
    assert (found.difference, found.interval, found.verdict) == (0, (0, 0), "cannot tell")


def test_the_order_of_rows_changes_nothing(rows):
    a, b = rows(80), rows(80, seed=4)
    order = np.random.default_rng(1).permutation(80)
    found = compare({"a": a, "b": b}).runs[1]
    other = compare(common_rows({"a": a.take(order), "b": b.take(order[::-1])})).runs[1]
    assert other.difference == pytest.approx(found.difference)
    assert other.interval == pytest.approx(found.interval)


def test_only_common_held_out_rows_are_scored(rows):
    a, b = rows(100, folds=5), rows(100, seed=1)
    part = b.take(np.arange(90, 40, -1))
    found = common_rows({"a": a, "b": part})
    assert found["a"].rows.tolist() == found["b"].rows.tolist() == list(range(41, 91))
    assert compare(found).runs[0].score == pytest.approx(smape(a.predicted[41:91], a.price[41:91]))
    assert compare(found).runs[1].folds is None
    assert compare(found).runs[0].folds is not None


def test_runs_without_common_rows_are_explained(rows, raises):
    some = rows(100)
    with raises(DataError, "seed", held_out={"a": 50, "b": 50}):
        common_rows({"a": some.take(np.arange(50)), "b": some.take(np.arange(50, 100))})
    with raises(DataError, "seed", held_out={"a": 100, "b": 100}):
        common_rows({"a": some, "b": replace(some, price=some.price * 2)})
    with raises(DataError, "seed", held_out={"a": 100, "b": 100}):
        common_rows({"a": some, "b": replace(some, ids="x" + some.ids)})


def test_few_rows_give_no_verdict(rows):
    better = rows(9)
    assert compare({"a": better, "b": moved(better, 1)}).runs[1].verdict == "cannot tell"


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((-2, -1), "better"),
        ((1, 2), "worse"),
        ((-1, 1), "cannot tell"),
        ((0, 1), "cannot tell"),
        (None, "cannot tell"),
    ],
)
def test_verdicts(interval, verdict):
    assert verdict_of(interval) == verdict


def test_a_comparison_as_frame_json_and_text(rows):
    better = rows(300, folds=3)
    found = compare({"<b>new</b>": better, "old": moved(better, 0.1)})
    assert (found.rows, found.verdicts) == (300, {"old": "worse"})
    frame = found.to_frame()
    assert list(frame.columns) == ["score", "folds_mean", "folds_sd", "difference", "low", "high", "verdict"]
    assert frame.loc["old", "difference"] == found.runs[1].difference
    assert json.loads(found.to_json()) == found.to_dict()
    assert len(repr(found)) < 120
    assert "(worse)" in repr(found)
    assert "<b>" not in found._repr_html_()
