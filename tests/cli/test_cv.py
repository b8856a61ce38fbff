import os
import signal

import pytest

from pricekit.datasets import make_catalog
from pricekit.evaluation.held_out import read_held_out
from pricekit.training.step import Objective

SMALL = [
    "--set",
    "backbone.members=1",
    "--set",
    "backbone.width=4",
    "--set",
    "backbone.vocab_size=300",
    "--no-refit",
    "--quiet",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "our products.csv"
    make_catalog(60, seed=4).to_csv(path, index=False)
    return path


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_the_printed_command_continues_an_interrupted_cross_validation(
    pricekit, table, tmp_path, monkeypatch, wide
):
    out, calls = tmp_path / "cv", []

    def forward(self, batch, call=Objective.forward):
        calls.append(batch)
        if len(calls) == 3:  # in the second fold: an epoch of a batch each
            os.kill(os.getpid(), signal.SIGINT)
        return call(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Objective, "forward", forward)
        code, _, err = pricekit("cv", table, "--out", out, "--folds", 2, "--epochs", 2, *SMALL)
    assert code == 130
    assert f"continue with: pricekit cv '{table}' --out {out} --resume" in err
    assert not (out / "cv.json").exists()
    code, _, err = pricekit("cv", table, "--out", out, "--resume")
    assert code == 0
    assert "mean ± sd of 2 folds" in err
    for shown in ("SMAPE, %", "median error, %", "RMSLE", "mean absolute error", "R² of the log price"):
        assert shown in err
    assert "text length" in err
    assert "SMAPE of a constant price" in err
    assert len(read_held_out(out)) == 60
    code, _, err = pricekit("evaluate", out, table)
    assert (code, "an ensemble" in err) == (1, True)
    code, _, err = pricekit("evaluate", out / "fold-0", table, "--out", table)
    assert (code, "the table itself" in err) == (1, True)
    code, _, err = pricekit("cv", table, "--out", out, "--folds", 2, *SMALL)
    assert (code, "resume it, overwrite it, or choose another folder" in err) == (1, True)
    code, _, err = pricekit("cv", table, "--out", out, "--resume", "--folds", 3)
    assert (code, "Check --folds." in err) == (2, True)
    code, _, err = pricekit("cv", table, "--out", out, "--resume", "--seed", 3)
    assert (code, "Check --seed." in err) == (2, True)
    assert pricekit("evaluate", out)[0] == 0
    assert pricekit("evaluate", out / "fold-0", table)[0] == 0


@pytest.mark.parametrize(
    ("flags", "message", "expected"),
    [
        (["--folds", 1], "'--folds': folds is 1; expected a whole number, at least 2", 2),
        (["--folds", 61], "cannot be divided into 61 folds", 2),
        (["--limit", 9], "9 usable rows", 1),
        (["--price", "cost"], "no column 'cost'", 1),
    ],
)
def test_invalid_folds_and_folders_are_reported(pricekit, table, tmp_path, flags, message, expected):
    code, out, err = pricekit("cv", table, "--out", tmp_path / "cv", *flags)
    assert (code, out) == (expected, "")
    assert message in " ".join(err.split())
    assert not (tmp_path / "cv").exists()


def test_a_leak_needs_the_flag(pricekit, tmp_path):
    frame = make_catalog(40, seed=1)
    frame.assign(market=(frame["price"] * 1.2).round(1)).to_csv(tmp_path / "t.csv", index=False)
    given = [tmp_path / "t.csv", "--out", tmp_path / "run", "--text", "catalog_content,market"]
    code, _, err = pricekit("train", *given, "--dry-run")
    assert (code, "'market' (is 1.2 times" in err, "--allow-leak" in err) == (1, True, True)
    assert pricekit("train", *given, "--dry-run", "--allow-leak")[0] == 0
