"""`pricekit compare`."""

import json
from dataclasses import replace

import numpy as np
import pytest

from conftest import write_judged


def moved(held_out, factor, seed=0):
    """The same rows with predictions further from the price, by a slightly different factor for each row."""
    shift = factor * np.abs(np.random.default_rng(seed).normal(1, 0.5, len(held_out)))
    error = np.log(held_out.predicted / held_out.price)
    return replace(held_out, predicted=held_out.price * np.exp(error + np.sign(error) * shift))


@pytest.fixture
def folders(tmp_path, rows):
    better = rows(300, folds=3)
    for name, held_out in {"old": moved(better, 0.1), "new": better, "part": rows(60, seed=8)}.items():
        (tmp_path / name).mkdir()
        write_judged(tmp_path / name, held_out)
    return tmp_path


def test_the_command_shows_which_is_better(pricekit, folders, monkeypatch):
    monkeypatch.chdir(folders)
    code, out, err = pricekit("compare", "old", "new", "part")
    assert (code, out) == (0, "")
    assert "only the 60 rows that all of them hold out are compared (old: 300, new: 300, part: 60)" in err
    assert "better" in err
    assert "±" in err
    assert max(map(len, err.splitlines()[2:])) <= 80


def test_the_command_gives_json(pricekit, folders):
    code, out, err = pricekit("compare", folders / "old", folders / "new", folders / "old", "--json")
    assert (code, err.count("\n")) == (0, 1)
    found = json.loads(out)
    assert found["rows"] == 300
    assert [run["verdict"] for run in found["runs"]] == [None, "better", "cannot tell"]
    assert found["runs"][2]["run"] == f"{folders / 'old'} (2)"
    assert found["runs"][1]["interval"][1] < 0


def test_the_command_rejects_what_it_cannot_compare(pricekit, folders):
    assert pricekit("compare", folders / "old")[0] == 2
    code, _, err = pricekit("compare", folders / "old", folders)
    assert (code, "has no held_out.parquet" in err) == (1, True)
