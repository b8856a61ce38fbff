"""Permutation importance of features, lines and columns, on models whose prices are formulas."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.answers.importance import (
    LEAST_ROWS,
    MOST_LINES,
    NO_LABEL,
    Lines,
    permutation,
    permute_features,
    permute_lines,
)
from pricekit.insight.parts import Cells
from pricekit.metrics import METRICS
from pricekit.table import Columns, table_of_texts
from tests.answers.models_of_importance import measured, member, share, sizes, table


def informed(weight=1.0):
    """A member whose price is that of the line Size."""
    return member(["size", "length"], sizes, lambda features, _: np.exp(features[:, 0]), weight)


def test_only_what_the_price_depends_on_has_an_increase():
    found = permute_features(measured(share(table(), informed())))
    assert found["feature"].tolist() == ["size", "length"]
    size, length = found.itertuples(index=False)
    assert 0 < size.low < size.increase < size.high
    assert (length.increase, length.low, length.high) == (0, 0, 0)


def test_the_increase_is_the_difference_of_the_metrics():
    shares = share(table(), informed())
    for metric in (METRICS["smape"], METRICS["medae"], METRICS["rmse"]):
        baseline = measured(shares, metric=metric, repeats=2)
        size = permute_features(baseline).set_index("feature").loc["size"]
        actual = shares.table.known_price
        expected = np.mean([metric(actual[permutation(60, repeat)], actual) for repeat in (0, 1)])
        assert size["increase"] == pytest.approx(expected - baseline.score, rel=1e-4)
        assert size["low"] <= size["increase"] <= size["high"]


def test_the_same_permutation_reaches_every_member_that_has_the_feature():
    """The second member undoes the first one: if both change in the same way, the price stays."""
    first = member(["size", "length"], sizes, lambda f, _: np.exp(f[:, 0]), 0.5)
    second = member(["length", "size"], lambda t: sizes(t)[:, ::-1], lambda f, _: np.exp(-f[:, 1]), 0.5)
    found = permute_features(measured(share(table(), first, second)))
    assert found["increase"].to_numpy() == pytest.approx([0, 0], abs=1e-4)
    without = member(["length"], lambda t: sizes(t)[:, 1:], lambda f, _: np.ones(len(f)), 0.5)
    found = permute_features(measured(share(table(), first, without))).set_index("feature")
    assert found["increase"]["size"] > 0.5
    assert found["increase"]["length"] == 0


def test_permuting_features_keeps_the_tokens():
    by_text = member(["size", "length"], sizes, lambda _, tokens: 1.0 + tokens)
    assert (permute_features(measured(share(table(), by_text)))["increase"] == 0).all()


def test_features_see_the_lines_that_change_rows():
    found = permute_lines(measured(share(table(), informed()))).set_index("line")
    assert found.index[0] == "Size"
    assert found["low"]["Size"] > 0
    assert found["increase"][["Item Name", NO_LABEL]].tolist() == [0, 0]
    assert (found["rows"] == 60).all()
    assert (found["kind"] == "line").all()


def test_rows_without_a_label_keep_their_lines():
    texts = ["Name: a\nSize: 1\nSize: 2", "Name: b", "Size: 3\n\nend", "Name: d\nSize: 4"]
    rows = table_of_texts(texts)
    lines = Lines(Cells(rows, Columns(("text",), None, None)), rows.text.tolist())
    assert lines.labels == ("Name", "Size", "")
    assert np.flatnonzero(lines.filled("Size")).tolist() == [0, 2, 3]
    found = lines.swapped("Size", np.array([2, 1, 3, 0]))
    expected = ["Name: a\nSize: 3", "Name: b", "Size: 4\n\nend", "Name: d\nSize: 1\nSize: 2"]
    assert found.text.tolist() == expected
    assert found.frame["text"].tolist() == expected
    assert lines.swapped("Size", np.arange(4)).text.tolist() == texts


def test_rare_and_many_labels_are_left_out():
    texts = [
        "\n".join(f"L{n}: {row}" for n in range(MOST_LINES + 5))
        + "\nRare: 1" * (row < LEAST_ROWS - 1)
        + "\nOften: 1" * (row < LEAST_ROWS)
        for row in range(40)
    ]
    frame = pd.DataFrame({"text": texts, "price": 1.0 + np.arange(40)})
    assert len(permute_lines(measured(share(frame, informed()), repeats=1))) == MOST_LINES
    few = frame.assign(text=frame["text"].str.replace(r"L[1-9]\d*: \d+\n?", "", regex=True))
    found = permute_lines(measured(share(few, informed()), repeats=1)).set_index("line")
    assert found["rows"].to_dict() == {"L0": 40, "Often": LEAST_ROWS}


def test_columns_are_measured_for_models_of_several_and_for_features_that_read_others():
    rng = np.random.default_rng(0)
    grams = rng.integers(1, 500, 50)
    notes = ["" if n % 3 else f"fine\n{n}" for n in range(50)]
    frame = pd.DataFrame(
        {"name": "tea", "notes": notes, "grams": grams, "shop": "north", "price": grams + 0.5}
    )

    def features(rows):
        return pd.to_numeric(rows.frame["grams"]).fillna(1).to_numpy(float)[:, None]

    columns = Columns(("name", "notes"), "price", None)
    model = member(["grams"], features, lambda f, _: f[:, 0] + 0.5, columns=columns)
    found = permute_lines(measured(share(frame, model, columns=columns))).set_index("line")
    assert found.index[0] == "grams"
    assert found["low"]["grams"] > 0
    assert (found["increase"][["name", "notes", "shop"]] == 0).all()
    assert found["rows"].to_dict() == {"name": 50, "notes": 17, "grams": 50, "shop": 50}
    assert (found["kind"] == "column").all()
    declared = replace(columns, others=("grams",))  # as an opened model has them
    found = permute_lines(measured(share(frame, model, columns=declared)))
    assert sorted(found["line"]) == ["grams", "name", "notes"]


def test_weights_count():
    frame = table()
    shares = share(frame, informed())
    heavy = np.where(np.arange(60) < 30, 1.0, 0.0)
    weighed = replace(shares, table=replace(shares.table, weight=heavy))
    all_rows, some = (permute_features(measured(each))["increase"][0] for each in (shares, weighed))
    assert some != pytest.approx(all_rows, rel=1e-3)


def test_the_result_repeats_and_folds_are_joined():
    one, other = share(table(30), informed()), share(table(40, seed=1), informed())
    first, again = (permute_features(measured(one, other)) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert first["increase"][0] > 0
    assert len(measured(one, other).terms) == 70


def test_few_rows_have_no_interval():
    found = permute_features(measured(share(table(5), informed())))
    assert found["increase"][0] > 0
    assert np.isnan(found["low"][0])
