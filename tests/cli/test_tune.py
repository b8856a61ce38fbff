"""The command `tune`."""

import os
import signal
from pathlib import Path

import pandas as pd
import pytest

from pricekit.datasets import make_catalog
from pricekit.runs import tuning

SMALL = [
    *("--features", "fast15", "--epochs", 2, "--max-length", 32, "--folds", 2, "--no-refit", "--quiet"),
    *("--set", "backbone.members=1", "--set", "backbone.width=24", "--set", "backbone.vocab_size=300"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "our products.csv"
    make_catalog(100, seed=4).to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def test_the_result_is_a_table_a_comparison_and_the_next_command(pricekit, table, tmp_path):
    code, out, err = pricekit("tune", table, "--trials", 3, *SMALL)
    assert (code, out) == (0, "")
    for words in ("setting", "default", "tuned", "importance", "training.learning_rate", "trials: "):
        assert words in err
    assert "15 rows that no trial saw: SMAPE " in err
    assert "the model is in runs/tune-1/run" in err
    assert "next: pricekit export runs/tune-1/run --out BUNDLE" in err
    assert len(pd.read_csv("runs/tune-1/trials.csv")) == 3
    assert pricekit("export", "runs/tune-1/run", "--out", "bundle", "--quiet")[0] == 0
    code, _, err = pricekit("tune", table, "--out", "runs/tune-1", *SMALL)
    assert code == 1
    assert "add --resume or --overwrite" in err.lower() or "--overwrite" in err


def test_the_printed_command_continues_an_interrupted_search(pricekit, table, monkeypatch):
    def train(source, config, folder, call=tuning.train, **given):
        if folder.name == "1-0":
            os.kill(os.getpid(), signal.SIGTERM)
        return call(source, config, folder, **given)

    with monkeypatch.context() as patch:
        patch.setattr(tuning, "train", train)
        code, _, err = pricekit("tune", table, "--out", "tuned", "--time-budget", "20m", *SMALL)
    assert code == 130
    assert f"continue with: pricekit tune '{table}' --out tuned --resume" in err
    assert "time_budget = 1200" in Path("tuned/tune.toml").read_text()  # which the next command keeps
    code, _, err = pricekit("tune", table, "--out", "tuned", "--resume", "--trials", 2, "--quiet")
    assert code == 0
    assert "1 unfinished" in err


def test_a_search_that_is_too_short_names_the_options_that_help(pricekit, table):
    code, out, err = pricekit("tune", table, "--out", "tuned", "--time-budget", "0.01s", *SMALL)
    assert (code, out) == (2, "")
    assert "the time budget of 1 s is too short for a search" in err
    assert "--time-budget" in err
    assert "--resume" in err


def test_an_ensemble_is_refused(pricekit, table):
    code, _, err = pricekit("tune", table, "--out", "tuned", "--policy", "best")
    assert code == 2
    assert "trains an ensemble" in err
    assert "--policy" in err


def test_json_has_the_scores(pricekit, table):
    code, _, err = pricekit("tune", table, "--trials", 1, *SMALL, "--log-format", "json")
    assert code == 0
    assert '"verdict": "cannot tell"' in err
    assert '"importance": ""' in err
