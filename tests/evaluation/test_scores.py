import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pricekit.cli.show_scores import direction, room_for_text, shorten
from pricekit.evaluation.bootstrap import MIN_ROWS, mean_interval
from pricekit.evaluation.groups import (
    BLANK,
    MAX_GROUPS,
    OTHER,
    Grouping,
    Quantities,
    amount,
    by_category,
    by_length,
    by_price,
    by_quantity,
    by_unit,
    group_scores,
    groupings_of,
    quantities_of,
)
from pricekit.evaluation.held_out import write_held_out
from pricekit.evaluation.scores import fold_metrics, mean_and_sd, scores_of
from pricekit.metrics import price_metrics, smape

PRICES = st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)), min_size=1, max_size=60)


def test_scores_of_groups_by_hand():
    grouping = Grouping("shelf", np.array([1, 0, 1, 1]), ["low", "high"])
    found = group_scores([grouping], np.array([3.0, 2, 6, 1]), np.array([1.0, 2, 2, 1]))
    # SMAPE terms 100, 0, 100, 0; |p - a| / a 2, 0, 2, 0; p / a 3, 1, 3, 1
    assert found["group"].tolist() == ["low", "high"]
    assert found["rows"].tolist() == [1, 3]
    assert found["smape"].tolist() == pytest.approx([0, 200 / 3])
    assert found["mdape"].tolist() == pytest.approx([0, 200])
    assert found["bias"].tolist() == pytest.approx([0, 200])
    assert found["share"].tolist() == pytest.approx([0, 100])


@settings(max_examples=25, deadline=None)
@given(PRICES, st.integers(0, 3))
def test_every_row_is_in_one_group_and_the_groups_make_up_the_whole(pairs, kinds):
    predicted, price = np.array(pairs).T
    column = pd.Series([f"k{n % (kinds + 1)}" for n in range(len(price))], name="kind", dtype="str")
    text = pd.Series(["word" * (n % 5 + 1) for n in range(len(price))], dtype="str")
    value = np.arange(len(price)) % 3
    quantities = Quantities(value, value + 1, value)
    groupings = [
        by_price(price),
        by_length(text),
        by_category(column, 2),
        by_unit(quantities),
        by_quantity(quantities),
    ]
    found = group_scores(groupings, predicted, price)
    for _, part in found.groupby("by"):
        assert part["rows"].sum() == len(price)
        assert (part["rows"] > 0).all()
        whole = (part["smape"] * part["rows"]).sum() / len(price)
        assert whole == pytest.approx(smape(predicted, price), rel=1e-9, abs=1e-9)
        assert part["share"].sum() == pytest.approx(100 if whole else 0, abs=1e-6)


def test_prices_are_cut_into_tenths_and_equal_ones_stay_together():
    grouping = by_price(np.arange(1.0, 201.0))
    assert np.bincount(grouping.codes).tolist() == [20] * 10
    assert (grouping.labels[0], grouping.labels[-1]) == ("1.00 to 20.00", "181.00 to 200.00")
    tied = np.array([5.0] * 90 + [7.0] * 10)
    grouping = by_price(tied)
    assert len({*zip(tied, grouping.codes, strict=True)}) == len(set(tied))
    assert by_price(np.full(500, 3.0)).labels == ["3.00 to 3.00"]
    assert len(by_price(np.arange(1.0, 26.0)).labels) == 2  # ten rows a group at least


def test_large_categories_stand_alone_and_small_ones_are_joined():
    values = ["tea"] * 30 + [""] * 20 + ["ink"] * 9 + ["soap"] * 20
    grouping = by_category(pd.Series(values, name="kind", dtype="str"), 10)
    assert grouping.labels == ["tea", BLANK, "soap", OTHER]
    assert np.bincount(grouping.codes).tolist() == [30, 20, 20, 9]
    many = pd.Series([f"k{n % 15:02}" for n in range(300)], name="unit", dtype="str")
    grouping = by_category(many, MAX_GROUPS)
    assert grouping.labels == [*(f"k{n:02}" for n in range(10)), OTHER]
    assert grouping.by == "unit_"  # not to be taken for the units that the texts state


def test_units_are_read_from_the_texts():
    texts = ["Tea, 12 oz"] * 12 + ["Oil\nValue: 2\nUnit: Liter"] * 11 + ["A chair"] * 13 + ["Bags, 20 count"]
    quantities = quantities_of(pd.Series(texts, dtype="str"))
    grouping = by_unit(quantities)
    assert grouping.labels == ["none", "weight", "volume", OTHER]
    assert np.bincount(grouping.codes).tolist() == [13, 12, 11, 1]
    assert quantities.total[[0, 12, 23, -1]].tolist() == pytest.approx([340.194, 2000, 0, 20], rel=1e-4)
    grouping = by_quantity(quantities)
    assert (grouping.labels, np.bincount(grouping.codes).tolist()) == (["missing", "found"], [13, 24])


def test_units_stand_in_for_categories_that_a_table_lacks(rows):
    assert [grouping.by for grouping in groupings_of(rows(100))] == [
        "price",
        "text length",
    ]  # all are in ounces
    some = rows(100)
    some.text[:30] = "A chair"
    assert [grouping.by for grouping in groupings_of(some)] == ["price", "text length", "unit"]
    kinds = replace(some, groups=pd.DataFrame({"kind": ["tea", "ink"] * 50}, dtype="str"))
    assert [grouping.by for grouping in groupings_of(kinds)] == ["price", "text length", "kind"]
    assert groupings_of(rows(9)) == []


def test_the_interval_is_that_of_the_mean_of_normal_terms():
    terms = np.random.default_rng(3).normal(40, 20, 4000)
    low, high = mean_interval(terms)
    half = 1.96 * terms.std() / np.sqrt(len(terms))
    assert (low, high) == pytest.approx((terms.mean() - half, terms.mean() + half), abs=half / 8)


def test_the_interval_covers_as_often_as_it_says():
    random = np.random.default_rng(5)
    inside = [low <= 1 <= high for low, high in (mean_interval(random.gamma(1, 1, 60)) for _ in range(200))]
    assert 0.88 <= np.mean(inside) <= 0.99


def test_the_interval_is_repeatable_and_of_enough_rows(rows):
    terms = np.random.default_rng(0).gamma(1, 40, 300)
    assert mean_interval(terms) == mean_interval(terms[::-1].copy())
    assert mean_interval(np.full(20, 7.0)) == (7, 7)
    assert mean_interval(terms[: MIN_ROWS - 1]) is None
    assert scores_of(rows(1)).interval is None


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


def test_amounts_and_texts_are_short():
    assert [amount(price) for price in (0.001234, 0.5, 999.994, 1234567.8)] == [
        "0.00123",
        "0.50",
        "999.99",
        "1,234,568",
    ]
    assert [direction(bias) for bias in (0.9, 12.4, -61)] == ["level", "12% too high", "61% too low"]
    assert shorten("two\r\nlines\x1b[31m and\u202e more", 80) == "two lines [31m and more"
    assert shorten("a" * 30, 10) == "a" * 9 + "…"
    assert shorten("茶" * 8, 10) == "茶" * 4 + "…"  # a wide character takes two columns


def test_evaluate_shows_a_run(pricekit, tmp_path, rows):
    write_held_out(tmp_path, rows(100, **{"[red]kind[/red]": ["[bold]tea[/bold]", "ink"] * 50}))
    code, out, err = pricekit("evaluate", tmp_path)
    assert (code, out) == (0, "")
    for words in ("SMAPE, %", "95% interval", "R² of the log price", "[red]kind[/red]", "[bold]tea[/bold]"):
        assert words in err
    assert "characters" in err
    assert "mean ± sd" not in err
    assert max(map(len, err.splitlines())) <= 80


def test_evaluate_gives_all_of_it_as_json(pricekit, tmp_path, rows):
    some = rows(120, folds=4, kind=["tea", "ink"] * 60)
    write_held_out(tmp_path, some)
    code, out, err = pricekit("evaluate", tmp_path, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["smape"] == pytest.approx(smape(some.predicted, some.price))
    assert found["smape_interval"][0] < found["smape"] < found["smape_interval"][1]
    assert (found["rows"], found["folds"]) == (120, 4)
    assert {group["by"] for group in found["groups"]} == {"price", "text length", "kind"}
    code, _, err = pricekit("evaluate", tmp_path)
    assert f"{found['mean']['smape']:.2f} ± {found['sd']['smape']:.2f}" in err


def test_evaluate_works_without_scipy_but_for_the_interval(pricekit, tmp_path, rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    write_held_out(tmp_path, rows(100))
    code, out, err = pricekit("evaluate", tmp_path, "--json")
    assert code == 0
    assert err.count("pip install scipy") == 1
    assert {"smape", "groups"} <= json.loads(out).keys()
    assert "smape_interval" not in out


def test_evaluate_of_one_row(pricekit, tmp_path, rows):
    write_held_out(tmp_path, rows(1))
    code, _, err = pricekit("evaluate", tmp_path)
    assert code == 0, err
    assert "interval" not in err
    assert json.loads(pricekit("evaluate", tmp_path, "--json")[1])["groups"] == []


def test_evaluate_refuses_what_it_cannot_judge(pricekit, tmp_path, rows):
    code, _, err = pricekit("evaluate", tmp_path)
    assert (code, "held_out.parquet" in err) == (1, True)
    write_held_out(tmp_path, rows(20))
    code, _, err = pricekit("evaluate", tmp_path, "--text", "title")
    assert (code, "--text says how to read TABLE" in err) == (2, True)


def test_a_table_that_was_trained_on_is_told(pricekit, bundle, catalog, tmp_path, rows):
    folder = shutil.copytree(bundle, tmp_path / "model")
    frame = pd.read_csv(catalog).head(100)
    write_held_out(folder, replace(rows(100), text=frame["catalog_content"], price=frame["price"].to_numpy()))
    code, _, err = pricekit("evaluate", folder, catalog)
    assert code == 0, err
    assert "has 100 of the 100 rows" in " ".join(err.split())
    write_held_out(folder, rows(100))
    code, _, err = pricekit("evaluate", folder, catalog)
    assert (code, "of the 100 rows" in err) == (0, False)


def test_wide_terminals_are_used(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert room_for_text([["price", "1.00"]]) == Console(stderr=True).width - 12
