"""Ranking models."""

from dataclasses import replace

import numpy as np
import pytest

import pricekit as pk
from conftest import TINY
from pricekit.answers.leaderboard import rank_models
from pricekit.errors import ConfigError
from pricekit.evaluation.comparison import compare_folders
from pricekit.metrics import METRICS
from tests.answers.folders_of_leaderboard import part_of, worse, write_cv, write_run


def test_models_are_ranked_and_compared_with_the_best(tmp_path):
    for name, factor in {"b": 1.5, "a": 1.2, "c": 1.0}.items():
        write_run(tmp_path / name, worse(factor), {"seed": int(factor * 10)})
    board = rank_models([tmp_path])
    assert [(one.rank, one.name) for one in board.entries] == [(1, "c"), (2, "a"), (3, "b")]
    expected = compare_folders([tmp_path / name for name in "cab"])
    for one, other in zip(board.entries, expected.runs, strict=True):
        assert replace(one.compared, name="") == replace(other, name="")
    assert [one.settings for one in board.entries] == [{"seed": 10}, {"seed": 12}, {"seed": 15}]
    assert [one.seconds_per_row for one in board.entries] == [None] * 3
    assert (board.best.name, board.rows) == ("c", 100)


def test_only_common_rows_count(tmp_path):
    cv = worse(1.0)
    bad = replace(cv, predicted=np.where(cv.rows < 50, cv.predicted, 1e6))
    write_cv(tmp_path / "cv", bad)
    write_run(tmp_path / "run", part_of(worse(1.2), 0, 50))
    board = rank_models([tmp_path])
    assert ([one.name for one in board.entries], board.rows) == (["cv", "run"], 50)
    assert board.best.compared.score == pytest.approx(METRICS["smape"](cv.predicted[:50], cv.price[:50]))


def test_the_most_common_metric_counts(tmp_path, raises):
    for name, metric in {"a": "smape", "b": "rmsle", "c": "rmsle"}.items():
        write_run(tmp_path / name, worse(1.0), metric=metric)
    assert rank_models([tmp_path]).metric.name == "rmsle"
    assert rank_models([tmp_path], "mae").metric.name == "mae"
    with raises(ConfigError, "metric"):
        rank_models([tmp_path], "mea")


def test_names_are_paths_if_the_models_are_in_different_folders(tmp_path):
    one, other = write_run(tmp_path / "x" / "run", worse(1.0)), write_run(tmp_path / "y" / "run", worse(1.1))
    assert [each.name for each in rank_models([one, other]).entries] == [str(one), str(other)]


def test_one_model_alone_is_a_ranking(tmp_path, raises):
    board = rank_models([write_run(tmp_path / "run", worse(1.0))])
    assert (board.best.compared.difference, board.best.compared.verdict, board.best.settings) == (
        None,
        "",
        {},
    )
    with raises(ConfigError, "models"):
        rank_models([])


def test_trained_models_of_each_kind_are_ranked_with_their_latency(run, catalog, tmp_path):
    table = pk.read_table(catalog)
    other = pk.train(catalog, settings=TINY | {"loss": "log-l1"}, out=tmp_path / "other", overwrite=True)
    both = pk.ensemble([run, other], out=tmp_path / "both")
    cv = pk.cross_validate(catalog, settings=TINY, folds=2, out=tmp_path / "cv")
    board = pk.compare(run, other, both, cv, latency=True)
    assert {one.name: one.kind for one in board.entries} == {
        str(run): "run",
        str(other.path): "run",
        str(both.path): "ensemble",
        str(cv.path): "cross-validation",
    }
    assert all(one.seconds_per_row > 0 and one.seconds > 0 and one.bytes > 10_000 for one in board.entries)
    assert board.rows == len(pk.load(run).held_out) < len(table)
    assert {one.settings.get("loss") for one in board.entries} >= {"smape", "log-l1"}
