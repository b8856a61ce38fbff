"""Scores of held-out rows."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.evaluation.groups import find_errors
from pricekit.evaluation.scores import MIN_ROWS, fold_metrics, mean_and_sd, score_interval, scores_of
from pricekit.metrics import METRICS, SMAPE, price_metrics


def mean_interval(terms):
    return score_interval(SMAPE, np.ones(len(terms)), terms)


def test_scores_do_not_depend_on_the_order(rows):
    some = rows(150, folds=3, kind=["tea", "ink", "soap"] * 50)
    other = scores_of(some.take(np.random.default_rng(2).permutation(150)))
    found = scores_of(some)
    assert other.metrics == pytest.approx(found.metrics)
    assert other.interval == pytest.approx(found.interval)
    pd.testing.assert_frame_equal(other.groups, found.groups)
    pd.testing.assert_frame_equal(other.folds, found.folds)


def test_scores_as_json_and_text(rows):
    scores = scores_of(rows(120, folds=4, kind=["<b>tea</b>", "ink"] * 60))
    assert json.loads(scores.to_json()) == scores.to_dict()
    assert repr(scores).startswith("Scores(120 rows, 4 folds: SMAPE ")
    assert len(repr(scores)) < 120
    shown = scores._repr_html_()
    assert "smape" in shown
    assert "<b>" not in shown
    assert "<table" in scores_of(rows(1))._repr_html_()


def test_mean_and_sd_over_folds(rows):
    some = rows(90, folds=3)
    folds = fold_metrics(some)
    first = price_metrics(some.predicted[::3], some.price[::3])
    assert folds.loc[0].to_dict() == pytest.approx(first)
    mean, sd = mean_and_sd(folds)
    assert mean["smape"] == pytest.approx(folds["smape"].mean())
    assert sd["smape"] == pytest.approx(np.std(folds["smape"], ddof=1))
    equal_prices = replace(some, price=np.where(some.fold == 0, 5.0, some.price))
    assert "r2_log" not in mean_and_sd(fold_metrics(equal_prices))[0]


def test_the_interval_is_that_of_the_mean_of_normal_terms():
    terms = np.random.default_rng(3).normal(40, 20, 4000)
    low, high = mean_interval(terms)
    half = 1.96 * terms.std() / np.sqrt(len(terms))
    assert (low, high) == pytest.approx((terms.mean() - half, terms.mean() + half), abs=half / 8)


def test_the_interval_has_the_stated_coverage():
    random = np.random.default_rng(5)
    inside = [low <= 1 <= high for low, high in (mean_interval(random.gamma(1, 1, 60)) for _ in range(200))]
    assert 0.88 <= np.mean(inside) <= 0.99


def test_the_interval_is_repeatable_and_of_enough_rows(rows):
    terms = np.random.default_rng(0).gamma(1, 40, 300)
    assert mean_interval(terms) == mean_interval(terms[::-1].copy())
    assert mean_interval(np.full(20, 7.0)) == (7, 7)
    assert score_interval(METRICS["rmse"], np.ones(300), terms) == pytest.approx(
        np.sqrt(mean_interval(terms))
    )
    assert mean_interval(terms[: MIN_ROWS - 1]) is None
    assert scores_of(rows(1)).interval is None


@pytest.mark.parametrize("name", sorted(METRICS))
def test_scores_by_any_metric(rows, name):
    some, metric = rows(200, folds=2, kind=["tea", "ink"] * 100), METRICS[name]
    scores = scores_of(some, metric)
    value = metric(some.predicted, some.price)
    assert next(iter(scores.metrics.items())) == (name, value)
    assert scores.interval[0] < value < scores.interval[1]
    assert scores.to_dict()[f"{name}_interval"] == list(scores.interval)
    assert repr(scores).startswith(f"Scores(200 rows, 2 folds: {metric.title} {metric.write(value)} [")
    tea = scores.groups[(scores.groups["by"] == "kind") & (scores.groups["group"] == "tea")]
    assert tea[name].item() == pytest.approx(metric(some.predicted[::2], some.price[::2]))
    shares = scores.groups.groupby("by")["share"].sum()
    assert shares.tolist() == pytest.approx([100] * len(shares))


@pytest.mark.parametrize("name", ["smape", "rmse", "medae"])
def test_the_metrics_of_several_terms_are_averaged(name):
    rng = np.random.default_rng(4)
    weights, before = rng.random(40), rng.random(40)
    once = score_interval(METRICS[name], weights, before + 1, before)
    assert score_interval(METRICS[name], weights, np.stack([before + 1] * 3), before) == pytest.approx(once)
    if name == "smape":
        halves = np.stack([before, before + 2])
        assert score_interval(METRICS[name], weights, halves, before) == pytest.approx(once)


def test_the_worst_rows_are_a_part_of_scores(rows):
    some = rows(60, kind=["<b>tea</b>", "ink"] * 30)
    errors = find_errors(some)
    scores = replace(scores_of(some), worst=errors.rows.head(3), share_of_worst=errors.share_of_worst(3))
    page = json.loads(scores.to_json())
    assert (len(page["worst"]), page["share_of_worst"]) == (3, pytest.approx(scores.share_of_worst))
    assert "of the error in the worst 3" in repr(scores)
    assert "<b>" not in scores._repr_html_()
    assert "worst" not in scores_of(some).to_dict()
