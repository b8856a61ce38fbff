"""The metric by price and by the groups of a column."""

import io
import warnings
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from conftest import write_judged
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.groups import OTHER, by_price
from pricekit.evaluation.scores import held_out_interval
from pricekit.metrics import METRICS, SMAPE
from pricekit.plots import DecileDisplay, GroupDisplay

PRICE = np.exp(np.random.default_rng(0).normal(3, 1, 240))
PREDICTED = PRICE * np.exp(np.random.default_rng(1).normal(0, 0.4, 240))

HOSTILE = [
    *("$x$", "_^{", r"\frac{", "$", "_hidden", "שלום עולם", "مرحبا", "\N{GRINNING FACE} face"),
    *(
        "two\nlines",
        "word" * 12_500,
        "\x1b[2J",
        "茶",
        "\u202ereversed",
        "e" + "\N{COMBINING ACUTE ACCENT}" * 9,
    ),
]


def test_the_scores_are_those_of_evaluate(run):
    shown, scores = DecileDisplay.from_model(run), pk.load(run).evaluate()
    assert shown.overall == scores.metrics["smape"]
    by_price_ = scores.groups[scores.groups["by"] == "price"]
    assert shown.scores["value"].tolist() == by_price_["smape"].tolist()
    assert shown.scores["rows"].tolist() == by_price_["rows"].tolist()


def test_each_group_has_its_range_and_the_interval_of_its_rows(rows):
    held_out = rows(200)
    shown = DecileDisplay.from_predictions(held_out.price, held_out.predicted, metric="mae", currency="EUR")
    codes = by_price(held_out.price).codes
    inside = np.flatnonzero(codes == 3)
    line = shown.scores.loc[3]
    assert (line["least"], line["most"]) == (held_out.price[inside].min(), held_out.price[inside].max())
    assert (line["low"], line["high"]) == held_out_interval(held_out.take(inside), METRICS["mae"])
    assert line["low"] < line["value"] < line["high"]
    assert shown.ax_.get_ylabel() == "MAE (EUR)"


def test_groups_without_weight_are_left_out(rows, tmp_path):
    held_out = rows(200)
    codes = by_price(held_out.price).codes
    write_judged(tmp_path, replace(held_out, weight=np.where(codes == 2, 0.0, 1.0)))
    shown = DecileDisplay.from_model(tmp_path)
    assert shown.scores.index.tolist() == [0, 1, *range(3, 10)]
    inside = codes == 4
    assert shown.scores.loc[4, "value"] == pytest.approx(
        SMAPE(held_out.predicted[inside], held_out.price[inside])
    )
    assert shown.scores.loc[4, "least"] == held_out.price[inside].min()


def test_equal_prices_are_refused(raises):
    with raises(DataError):
        DecileDisplay.from_predictions(np.full(240, 5.0), PREDICTED)


def test_an_unknown_metric_is_refused(run, raises):
    for call in (
        lambda: DecileDisplay.from_model(run, metric="smap"),
        lambda: DecileDisplay.from_predictions(PRICE, PREDICTED, metric="smap"),
    ):
        with raises(ConfigError, "metric"):
            call()


def test_the_largest_groups_come_first_with_their_rows(rows, tmp_path):
    write_judged(tmp_path, rows(200, shelf=["a"] * 50 + ["b"] * 145 + ["c"] * 5))
    shown = GroupDisplay.from_model(tmp_path, by="shelf")
    assert shown.scores["group"].tolist() == ["b", "a", OTHER]
    assert [t.get_text() for t in shown.ax_.get_yticklabels()] == ["b  (145)", "a  (50)", "(other)  (5)"]
    assert shown.scores["low"].isna().tolist() == [False, False, True]
    low, high = shown.ax_.get_ylim()
    assert low > high  # the first group is at the top
    assert repr(shown).startswith("GroupDisplay(by shelf: 3 groups of 200 rows, SMAPE ")


def test_unknown_and_single_groups_are_refused(rows, tmp_path, raises):
    write_judged(tmp_path, rows(200, shelf=["a", "b"] * 100, brand=["x", "y"] + ["z", "z"] * 99))
    with raises(DataError, "by", column="shelves", candidates=["shelf", "brand"]):
        GroupDisplay.from_model(tmp_path, by="shelves")
    with raises(DataError, "groups"):
        GroupDisplay.from_predictions(PRICE[:30], PREDICTED[:30], ["a", "b"])
    with raises(DataError, "by", column="group"):
        GroupDisplay.from_predictions(PRICE[:30], PREDICTED[:30], ["a"] * 30)


@pytest.mark.parametrize("family", ["sans-serif", "DejaVu Serif"])
def test_hostile_names_are_plain_text(family):
    names = np.repeat(HOSTILE, 12)
    price, predicted = np.resize(PRICE, len(names)), np.resize(PREDICTED, len(names))
    with mpl.rc_context({"font.family": family, "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = GroupDisplay.from_predictions(
            price, predicted, names, by="$\\frac{" * 99, currency="$_^$", metric="mae"
        )
        assert len(shown.scores) == len(HOSTILE)
        shown._repr_png_()
        buffer = io.StringIO()
        shown.figure_.savefig(buffer, format="svg")
    assert "$x$  (12)" in buffer.getvalue()
    assert "MAE ($_^$)" in buffer.getvalue()
    for text in shown.ax_.get_yticklabels():
        assert not text.get_parse_math()
        assert len(text.get_text()) < 40
        assert "\n" not in text.get_text()


def test_missing_values_are_a_group():
    names = pd.Series(["a", None] * 120)
    shown = GroupDisplay.from_predictions(PRICE, PREDICTED, names)
    assert sorted(shown.scores["group"]) == ["(blank)", "a"]
