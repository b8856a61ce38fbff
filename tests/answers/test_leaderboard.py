"""A leaderboard as frame, JSON, text and HTML."""

import json

import pytest

from pricekit.answers.leaderboard import rank_models
from tests.answers.folders_of_leaderboard import worse, write_ensemble, write_run


@pytest.fixture
def board(tmp_path):
    write_run(tmp_path / "<b>new", worse(1.0), {"seed": 1, "loss": "log-l1"})
    for number in range(3):
        write_run(tmp_path / f"old-{number}", worse(1.3 + number / 10))
    write_ensemble(tmp_path / "both", worse(1.2), {"seed": 2}, {"seed": 3})
    return rank_models([tmp_path])


def test_a_frame_has_a_row_for_each_model(board):
    frame = board.to_frame()
    assert frame.index.tolist() == ["<b>new", "both", "old-0", "old-1", "old-2"]
    assert frame.columns.tolist() == [
        *(
            "rank",
            "score",
            "difference",
            "low",
            "high",
            "verdict",
            "seconds",
            "seconds_per_row",
            "bytes",
            "kind",
        ),
        *("path", "loss", "seed"),
    ]
    old = frame.loc["old-0"]
    assert (old["rank"], old["verdict"], old["seed"], old["loss"]) == (3, "worse", 0, "smape")
    assert 0 < old["low"] < old["difference"] < old["high"]
    assert old["difference"] == pytest.approx(old["score"] - frame["score"].iloc[0])
    assert frame["seed"].isna().tolist() == [False, True, False, False, False]


def test_json_has_plain_values(board):
    found = json.loads(board.to_json())
    assert found == board.to_dict()
    assert (found["rows"], found["metric"]) == (100, "smape")
    first, second, *_ = found["runs"]
    assert (first["rank"], first["difference"], first["interval"], first["verdict"]) == (1, None, None, None)
    assert first["settings"] == {"seed": 1, "loss": "log-l1"}
    assert (second["kind"], second["parts"], second["seconds"]) == ("ensemble", 2, 20)
    assert second["settings"] == {"loss": "smape"}


def test_text_is_short_and_html_is_escaped(board):
    assert repr(board).startswith("Leaderboard(100 rows, SMAPE; <b>new: ")
    assert repr(board).endswith(", … 2 more)")
    assert "<b>" not in board._repr_html_()
    assert "seconds_per_row" not in board._repr_html_()
