"""The metric of the surest rows."""

from dataclasses import replace

import numpy as np
import pytest

import pricekit as pk
from pricekit.errors import DataError
from pricekit.metrics import METRICS
from pricekit.plots import SurestDisplay
from tests.answers.folders_of_leaderboard import write_run

PRICE = np.arange(1.0, 101.0)


def test_shares_by_hand():
    spread = np.roll(PRICE, 50)  # the dearer half is surer
    shown = SurestDisplay.from_predictions(
        PRICE, np.where(PRICE > 50, 1, 1.2) * PRICE, spread, metric="mape", currency="EUR"
    )
    assert shown.scores["share"].tolist() == pytest.approx(np.arange(1, 21) / 20)
    assert shown.scores["rows"].tolist() == list(range(5, 101, 5))
    values = shown.scores["mape"]
    assert values[:10].tolist() == pytest.approx([0] * 10)
    assert values.iloc[-1] == pytest.approx(10)
    line = shown.ax_.get_lines()[0]
    assert line.get_ydata().tolist() == values.tolist()
    assert shown.plot() is shown


def test_the_scores_are_those_of_evaluate(rows, tmp_path):
    held_out = rows(200)
    weight = np.where(np.arange(200) % 3, 1.0, 0.0)
    held_out = replace(held_out, weight=weight, spread=1 + np.arange(200) % 7)
    write_run(tmp_path / "run", held_out)
    shown, scores = (
        SurestDisplay.from_model(tmp_path / "run", metric="mae"),
        pk.load(tmp_path / "run").evaluate(metric="mae"),
    )
    assert shown.scores.equals(scores.surest)
    assert shown.scores["rows"].iloc[-1] == (weight > 0).sum()
    surest = held_out.take(np.flatnonzero((held_out.spread == 1) & (weight > 0)))
    first = shown.scores[shown.scores["rows"] <= len(surest)].iloc[-1]
    expected = METRICS["mae"](surest.predicted[: int(first["rows"])], surest.price[: int(first["rows"])])
    assert first["mae"] == pytest.approx(expected)
    assert scores.surest["mae"].iloc[-1] == pytest.approx(scores.metrics["mae"])


def test_rows_that_are_equally_sure_have_no_curve(raises, rows, tmp_path):
    with raises(DataError):
        SurestDisplay.from_predictions(PRICE, PRICE, np.ones(100))
    with raises(DataError, "price", "predicted"):
        SurestDisplay.from_predictions(PRICE, PRICE, PRICE[:50])
    write_run(tmp_path / "run", rows(100))
    assert pk.load(tmp_path / "run").evaluate().surest is None
