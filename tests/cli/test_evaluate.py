"""`pricekit evaluate`."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from conftest import write_judged
from pricekit.metrics import smape
from tests.answers.folders_of_leaderboard import write_run


def test_evaluate_shows_a_run(pricekit, tmp_path, rows):
    folder = write_run(tmp_path / "run", rows(100, **{"[red]kind[/red]": ["[bold]tea[/bold]", "ink"] * 50}))
    code, out, err = pricekit("evaluate", folder)
    assert (code, out) == (0, "")
    for words in ("SMAPE, %", "95% interval", "R² of the log price", "[red]kind[/red]", "[bold]tea[/bold]"):
        assert words in err
    assert "characters" in err
    assert "mean ± sd" not in err
    assert max(map(len, err.splitlines())) <= 80


def test_evaluate_prints_everything_as_json(pricekit, tmp_path, rows):
    some = rows(120, folds=4, kind=["tea", "ink"] * 60)
    folder = write_run(tmp_path / "run", some)
    code, out, err = pricekit("evaluate", folder, "--json")
    assert (code, err.count("\n")) == (0, 1)
    found = json.loads(out)
    assert found["smape"] == pytest.approx(smape(some.predicted, some.price))
    assert found["smape_interval"][0] < found["smape"] < found["smape_interval"][1]
    assert (found["rows"], found["folds"]) == (120, 4)
    assert {group["by"] for group in found["groups"]} == {"price", "text length", "kind"}
    code, _, err = pricekit("evaluate", folder)
    assert f"{found['mean']['smape']:.2f} ± {found['sd']['smape']:.2f}" in err


def test_evaluate_without_scipy_omits_only_the_interval(pricekit, tmp_path, rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    folder = write_run(tmp_path / "run", rows(100))
    code, out, err = pricekit("evaluate", folder, "--json")
    assert code == 0
    assert err.count("pip install scipy") == 1
    assert {"smape", "groups"} <= json.loads(out).keys()
    assert "smape_interval" not in out


def test_evaluate_of_one_row(pricekit, tmp_path, rows):
    folder = write_run(tmp_path / "run", rows(1))
    code, _, err = pricekit("evaluate", folder)
    assert code == 0, err
    assert "interval" not in err
    assert json.loads(pricekit("evaluate", folder, "--json")[1])["groups"] == []


def test_evaluate_rejects_what_it_cannot_score(pricekit, tmp_path, rows):
    code, _, err = pricekit("evaluate", tmp_path)
    assert (code, "contains no model" in err) == (1, True)
    folder = write_run(tmp_path / "run", rows(20))
    code, _, err = pricekit("evaluate", folder, "--text", "title")
    assert (code, "Check --text." in err) == (2, True)


def test_evaluating_the_training_table_causes_a_warning(pricekit, run, catalog, tmp_path, rows):
    folder = shutil.copytree(run, tmp_path / "model")
    (folder / "files.json").unlink()
    frame = pd.read_csv(catalog).head(100)
    write_judged(folder, replace(rows(100), text=frame["catalog_content"], price=frame["price"].to_numpy()))
    code, _, err = pricekit("evaluate", folder, catalog)
    assert code == 0, err
    assert "contains 100 of the 100 held-out rows" in " ".join(err.split())
    write_judged(folder, rows(100))
    code, _, err = pricekit("evaluate", folder, catalog)
    assert (code, "of the 100 held-out rows" in err) == (0, False)


def test_evaluate_says_which_prices_may_go_out(pricekit, tmp_path, rows):
    """The surer half of the rows is exact."""
    sure = np.arange(400) % 2 == 0
    some = rows(400)
    some = replace(some, spread=np.where(sure, 0.1, 1), predicted=np.where(sure, some.price, 3 * some.price))
    folder = write_run(tmp_path / "run", some)
    code, out, err = pricekit("evaluate", folder)
    assert (code, out) == (0, "")
    for words in ("surest rows", "may go out", "within a factor of 1.2", "50.0%"):
        assert words in err
    found = json.loads(pricekit("evaluate", folder, "--json")[1])
    assert [line["smape"] for line in found["surest"]][:10] == [0] * 10
    assert found["surest"][-1] == {"share": 1, "rows": 400, "smape": pytest.approx(found["smape"])}
    assert [(line["within"], line["confidence"]) for line in found["released"]] == [
        (within, confidence) for within in (1.2, 1.5, 2) for confidence in (0.9, 0.95)
    ]
    assert all(line["share"] == 0.5 and line["held"] is None for line in found["released"])


@pytest.mark.parametrize(("count", "words"), [(200, "none"), (12, "too few rows")])
def test_evaluate_says_that_no_price_may_go_out(pricekit, tmp_path, rows, count, words):
    some = rows(count)
    folder = write_run(tmp_path / "run", replace(some, predicted=3 * some.price))
    err = pricekit("evaluate", folder)[2]
    assert words in err
    assert "at these tolerances no price may go out without a person" in err
    assert "surest rows" not in err


def test_evaluate_counts_how_many_released_prices_hold(bundle, catalog, pricekit):
    found = json.loads(pricekit("evaluate", bundle, catalog, "--json")[1])["released"]
    frame = pk.load(bundle).predict(pk.read_table(catalog), within=2, confidence=0.9)
    line = next(line for line in found if (line["within"], line["confidence"]) == (2, 0.9))
    assert line["share"] == pytest.approx(frame["release"].mean())
