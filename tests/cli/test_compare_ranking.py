"""`pricekit compare` of more than two models, or of folders that contain them: a ranking."""

import json

import pytest

from tests.answers.folders_of_leaderboard import part_of, worse, write_cv, write_ensemble, write_run


@pytest.fixture
def folders(tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    write_run(
        runs / "good", worse(1.0), {"features": ["fast15"], "columns": {"text": ["name", "description"]}}
    )
    write_run(runs / "a-run-with-quite-a-long-name-that-says-all-about-it", worse(1.3), {"loss": "log-l1"})
    write_cv(runs / "cv", worse(1.2))
    write_ensemble(runs / "both", worse(1.1), {"seed": 2}, {"seed": 3})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_tables_fit_the_terminal(pricekit, folders, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, err = pricekit("compare", "runs")
    assert (code, out) == (0, "")
    tables = [line for line in err.splitlines() if line and line[0] in "┏┃┡│└"]
    assert max(map(len, tables)) <= width
    assert sum(line.startswith("┏") for line in tables) == 2
    ranks = [line.split("│")[1].strip() for line in tables if line.startswith("│")]
    assert [rank for rank in ranks if rank] == [*"1234", *"1234"]
    for text in (
        "good",
        "both (2 members)",
        "cv (2 folds)",
        "(the best)",
        "worse",
        "loss=log-l1",
        "training",
        "MB",
    ):
        assert text in err
    assert 'features=["fast15"]' in err
    assert ("a-run-with-quite-a-long-name-that-says-all-about-it" in err) == (width == 140)
    assert "one row" not in err


def test_runs_is_the_default(pricekit, folders, monkeypatch):
    code, out, err = pricekit("compare", "--json", "--metric", "rmsle")
    assert (code, err) == (0, "reading runs\n")
    found = json.loads(out)
    assert found["runs"][0]["path"] == "runs/good"
    assert found["metric"] == "rmsle"
    (folders / "elsewhere").mkdir()
    monkeypatch.chdir(folders / "elsewhere")
    code, _, err = pricekit("compare")
    assert (code, "there is no folder runs/" in err) == (2, True)


def test_odd_models_are_named_and_left_out(pricekit, folders):
    write_run(folders / "odd", part_of(worse(1.0, 200), 100, 200))
    code, _, err = pricekit("compare", "runs", "odd")
    assert code == 0
    assert "does not hold out the rows that the other 4 share: odd (another table or another seed)" in err


def test_one_model_has_no_differences(pricekit, folders):
    write_run(folders / "alone" / "good", worse(1.0))
    code, _, err = pricekit("compare", "alone")
    assert code == 0
    assert "verdict" not in err
    assert "settings" not in err


def test_wrong_input_is_one_sentence(pricekit, folders):
    write_run(folders / "begun", worse(1.0), finished=False)
    (folders / "empty").mkdir()
    for argument, said in {
        "nothing": "does not exist",
        "empty": "contains no finished model",
        "begun": "is not a finished run",
    }.items():
        code, out, err = pricekit("compare", "runs", argument)
        assert (code, out, err.count("pricekit: ")) == (1, "", 1)
        assert said in err
    assert pricekit("compare", "runs", "--metric", "smap")[0] == 2


def test_the_latency_of_a_run_is_shown(pricekit, run):
    code, _, err = pricekit("compare", run, "--latency")
    assert code == 0
    assert "one row" in err
    assert " ms " in err
