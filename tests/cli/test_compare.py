"""`pricekit compare`."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.answers.folders_of_leaderboard import write_cv, write_run


def moved(held_out, factor, seed=0):
    """The same rows with predictions further from the price, by a slightly different factor for each row."""
    shift = factor * np.abs(np.random.default_rng(seed).normal(1, 0.5, len(held_out)))
    error = np.log(held_out.predicted / held_out.price)
    return replace(held_out, predicted=held_out.price * np.exp(error + np.sign(error) * shift))


@pytest.fixture
def folders(tmp_path, rows):
    better = rows(300, folds=3)
    write_cv(tmp_path / "old", moved(better, 0.1))
    write_cv(tmp_path / "new", better)
    return tmp_path


def test_the_second_is_compared_with_the_first(pricekit, folders, rows, monkeypatch):
    monkeypatch.chdir(folders)
    code, out, err = pricekit("compare", "old", "new")
    assert (code, out) == (0, "")
    for text in ("300 rows that none was trained on", "(the first)", "better", "±"):
        assert text in err
    assert max(map(len, err.splitlines()[2:])) <= 80
    write_run(folders / "part", rows(60, seed=8))
    code, _, err = pricekit("compare", "old", "part")
    assert "only the 60 rows that all of them hold out are compared (old: 300, part: 60)" in err


def test_a_difference_is_given_as_json(pricekit, folders):
    code, out, err = pricekit("compare", folders / "old", folders / "new", "--json")
    assert (code, err.count("\n")) == (0, 1)
    page = json.loads(out)
    assert page["rows"] == 300
    assert [one["verdict"] for one in page["runs"]] == [None, "better"]
    assert page["runs"][1]["interval"][1] < 0
    assert "rank" not in page["runs"][0]


def test_three_are_ranked(pricekit, folders, rows):
    write_cv(folders / "worst", moved(rows(300, folds=3), 0.5))
    code, out, _ = pricekit("compare", folders / "worst", folders / "old", folders / "new", "--json")
    assert code == 0
    assert [(one["rank"], one["run"]) for one in json.loads(out)["runs"]] == [
        (1, "new"),
        (2, "old"),
        (3, "worst"),
    ]


def test_the_command_rejects_what_it_cannot_compare(pricekit, folders, bundle):
    code, _, err = pricekit("compare", folders / "old")
    assert (code, "at least two models" in err) == (2, True)
    code, _, err = pricekit("compare", folders / "old", bundle)
    assert (code, "is a bundle, which contains no held-out rows" in " ".join(err.split())) == (1, True)
    (folders / "empty").mkdir()
    code, _, err = pricekit("compare", folders / "old", folders / "empty")
    assert (code, "contains no finished model" in err) == (1, True)
