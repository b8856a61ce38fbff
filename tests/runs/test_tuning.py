"""A whole search: its rows, trials, choice and files; resuming it after a kill; searches that cannot work."""

import json
import os
import signal
import sys

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, TrainingError
from pricekit.io.files import read_json
from pricekit.io.record import state_of
from pricekit.metrics import SMAPE
from pricekit.runs import study, tuning
from pricekit.runs.opened import open_run
from pricekit.runs.tuning import WORK
from pricekit.table import read_usable

SMALL = {
    "features": "fast15",
    "epochs": 2,
    "max_length": 32,
    "refit": False,
    "settings": {
        "backbone.vocab_size": 300,
        "backbone.buckets": 64,
        "backbone.width": 24,
        "backbone.members": 1,
    },
}


@pytest.fixture(scope="module")
def frame():
    return pk.make_catalog(120, seed=4)


@pytest.fixture(scope="module")
def done(frame, tmp_path_factory):
    """A finished search of four trials, and the ids of the rows that each run was trained and validated on."""
    out, seen = tmp_path_factory.mktemp("tune") / "tuned", []

    def train(source, config, folder, *, call=tuning.train, **given):
        seen.append({*source.split.train.ids, *source.split.valid.ids})
        return call(source, config, folder, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "train", train)
        found = pk.tune(frame, out=out, trials=4, folds=2, **SMALL)
    return found, seen


def _search(frame, out, trials=2, **more):
    return pk.tune(frame, out=out, trials=trials, folds=2, **SMALL, **more)


def test_no_trial_sees_the_rows_that_score_the_result(done, frame):
    found, seen = done
    final = pd.read_parquet(found.path / "final.parquet")
    ids = set(frame["sample_id"])
    assert len(final) == read_json(found.path / "tune.json")["rows"]["final"] > 10
    assert all(rows == ids - set(final["id"].astype(int)) for rows in seen)
    assert len(seen) >= 4
    run = pd.read_parquet(found.path / "run" / "split.parquet")
    assert not set(run["id"]) & set(final["id"])
    price = final["price"].to_numpy()
    assert found.scores == {
        name: pytest.approx(pk.smape(final[name].to_numpy(), price)) for name in ("tuned", "default")
    }
    predicted = found.model.predict(frame.set_index("sample_id").loc[final["id"].astype(int)].reset_index())
    assert predicted == pytest.approx(final["tuned"].to_numpy(), rel=1e-4)


def test_the_first_trial_is_the_configuration_itself(done):
    found, _ = done
    trials = found.trials
    assert trials["trial"].tolist() == [0, 1, 2, 3]
    assert set(trials["state"]) <= {"finished", "stopped early"}
    assert (trials["seconds"] > 0).all()
    settings = found.settings
    assert trials.iloc[0][settings.index].tolist() == pytest.approx(settings["default"].tolist())
    assert settings.loc["backbone.width", "default"] == 24
    changed = (trials[settings.index] != trials.iloc[0][settings.index]).any(axis=0)
    assert changed.sum() >= 4
    assert read_json(found.path / "tune.json")["default_score"] == trials["score"][0]
    assert read_json(found.path / "tune.json")["best_score"] == trials["score"].min()


def test_a_trial_changes_one_part_of_the_model(done):
    found, _ = done
    trials = found.trials
    rows = trials.drop(columns=["trial", "state", "score", "seconds", "error"]).to_dict("records")
    for number in (1, 2, 3):
        best = trials["score"][:number].idxmin()
        changed = {name.partition(".")[0] for name in rows[0] if rows[number][name] != rows[best][name]}
        assert changed in ({"backbone"}, {"training"}, {"head", "training"}, {"head"})


def test_the_folder_has_the_result_and_nothing_of_the_trials(done):
    found, _ = done
    names = {path.name for path in found.path.iterdir()}
    assert not names & set(WORK)
    wanted = {"config.toml", "importance.csv", "trials.csv", "tune.json", "final.parquet", "run", "study.log"}
    assert wanted <= names
    assert found.importance["importance"].sum() == pytest.approx(1)
    assert set(found.importance["setting"]) == set(found.settings.index)
    assert found.verdict in ("better", "worse", "cannot tell")
    assert repr(pk.Tuning(found.path)) == repr(found)
    assert "<table" in found._repr_html_()


def test_the_configuration_trains_the_same_model(done, frame, tmp_path):
    found, _ = done
    run = pk.train(frame, out=tmp_path / "run", config=found.path / "config.toml")
    config = open_run(run.path).config
    assert config == found.config.for_rows(100)
    assert config.training.time_budget is None


def test_a_finished_search_is_only_read_again(done, frame, monkeypatch, logged, raises):
    found, _ = done
    monkeypatch.setattr(tuning, "train", None)
    again = pk.tune(frame, out=found.path, resume=True, trials=9)
    assert read_json(again.path / "tune.json") == read_json(found.path / "tune.json")
    assert "is finished" in logged()
    with raises(TrainingError, "resume", "overwrite", "out"):
        _search(frame, found.path)


def test_a_killed_search_continues_with_its_trials(frame, tmp_path, monkeypatch):
    """It is killed in the third trial, while a line of the study is written."""
    out, calls = tmp_path / "tuned", []

    def train(*args, call=tuning.train, **given):
        calls.append(args)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return call(*args, **given)

    monkeypatch.setattr(tuning, "train", train)
    with pytest.raises(KeyboardInterrupt):
        _search(frame, out, 4)
    assert state_of(out).kind == "search"
    assert not list((out / "trials").iterdir())
    before = study.open_study(out, 0)
    before.ask()  # of a process that was killed
    kept = [each.params for each in study.finished_trials(before)]
    with (out / "study.log").open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    (out / "trials" / "3-0").mkdir()
    found = pk.tune(frame, out=out, resume=True, trials=4)
    states = found.trials["state"].tolist()
    assert states.count("unfinished") == 2
    assert len(states) == 6
    for each in kept:
        same = (found.trials[list(each)] == pd.Series(each)).all(axis=1)
        assert same.any()
    assert not (out / "trials").exists()


def test_a_resumed_search_keeps_its_settings_folds_and_rows(frame, tmp_path, monkeypatch, raises):
    out = tmp_path / "tuned"
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            _search(frame, out)
    with raises(ConfigError, "epochs"):
        pk.tune(frame, out=out, resume=True, epochs=3)
    with raises(ConfigError, "folds"):
        pk.tune(frame, out=out, resume=True, folds=3)
    with raises(TrainingError, "table", "valid", "encoding", "decimal", "out"):
        pk.tune(frame.head(100), out=out, resume=True)
    found = pk.tune(frame, out=out, resume=True, trials=2, time_budget="30m")
    assert len(found.trials) == 2


def test_a_trial_that_is_stopped_early_leaves_nothing(frame, tmp_path, monkeypatch):
    out, during, after = tmp_path / "tuned", [], []

    def falls_behind(*args):
        during.append([path.name for path in (out / "trials").iterdir() if not path.name.startswith(".")])
        return True

    def finish(*args, call=tuning.finish):
        after.extend((out / "trials").iterdir())
        return call(*args)

    monkeypatch.setattr(tuning, "falls_behind", falls_behind)
    monkeypatch.setattr(tuning, "finish", finish)
    found = _search(frame, out, 3)
    assert during == [["1-0"], ["2-0"]]
    assert after == []
    assert found.trials["state"].tolist() == ["finished", "stopped early", "stopped early"]
    assert (found.trials["score"] > 0).all()


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failing_trial_does_not_count(frame, tmp_path, monkeypatch, failing, logged, raises):
    def train(source, config, folder, call=tuning.train, **given):
        if folder.name.startswith(f"{failing}-"):
            raise TrainingError("a weight is not finite")
        return call(source, config, folder, **given)

    monkeypatch.setattr(tuning, "train", train)
    if failing == 0:
        with raises(TrainingError):
            _search(frame, tmp_path / "tuned")
        return
    found = _search(frame, tmp_path / "tuned")
    assert found.trials["state"].tolist() == ["finished", "failed", "finished"]
    assert found.trials["error"][1] == "a weight is not finite"
    lines = logged()
    for line in ("trial 0: SMAPE ", "trial 1 failed: a weight is not finite", "trial 2: SMAPE "):
        assert line in lines


def test_a_time_budget_that_is_too_short_is_one_clear_error(frame, tmp_path):
    out = tmp_path / "tuned"
    with pytest.raises(ConfigError) as raised:  # its message says how long a trial took
        pk.tune(frame, out=out, folds=2, time_budget=0.01, **SMALL)
    assert raised.value.parameters == ("time_budget", "limit", "folds", "resume")
    assert state_of(out).kind == "search"
    found = pk.tune(frame, out=out, resume=True, trials=2, time_budget=600)
    assert len(found.trials) >= 2


def test_time_for_the_first_trial_alone_is_too_short(frame, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "FIRST_PASS", 1e9)  # so that no time is left
    with pytest.raises(ConfigError) as raised:
        pk.tune(frame, out=tmp_path / "tuned", folds=2, **SMALL)
    assert raised.value.facts["seconds_of_a_trial"] > 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"time_budget": "soon"}, ("time_budget", "settings")),
        ({"time_budget": -1}, ("time_budget", "settings")),
        ({"trials": 0}, ("trials",)),
        ({"processes": 1.5}, ("processes",)),
        ({"folds": 1}, ("folds",)),
    ],
)
def test_an_option_that_makes_no_sense_is_named(frame, tmp_path, options, named):
    with pytest.raises(ConfigError) as raised:
        pk.tune(frame, out=tmp_path / "tuned", **options)
    assert raised.value.parameters == named
    assert not (tmp_path / "tuned").exists()


def test_a_search_without_optuna_says_what_to_install(frame, tmp_path, monkeypatch, raises):
    monkeypatch.setitem(sys.modules, "optuna", None)
    study.optuna.cache_clear()
    with raises(ConfigError):
        pk.tune(frame, out=tmp_path / "tuned")
    monkeypatch.undo()
    study.optuna.cache_clear()


@pytest.mark.parametrize("verdict", ["better", "cannot tell"])
def test_the_best_trial_is_chosen_only_if_it_is_better_beyond_chance(frame, tmp_path, monkeypatch, verdict):
    def score(task, study_, trial_, values, check):
        price = task.rows.plan.table.known_price
        even = np.arange(len(price)) % 2 == 0
        start, other = np.where(even, 1.3, 1.2), np.where(even, 1.2, 1.29)
        found = {"better": 1 + 0.3 / (1 + trial_.number), "cannot tell": other if trial_.number else start}
        return pk.smape(price * found[verdict], price), price * found[verdict]

    monkeypatch.setattr(tuning, "_score", score)
    found = _search(frame, tmp_path / "tuned", 3)
    chosen, folder = read_json(found.path / "tune.json")["chosen"], tmp_path / "tuned" / "default"
    assert read_json(found.path / "tune.json")["on_folds"]["verdict"] == verdict
    if verdict == "better":
        assert chosen == 2
        assert (folder / "run.json").is_file()
        assert (found.settings["default"] != found.settings["tuned"]).any()
        tuned = found.trials.set_index("trial").loc[2, found.settings.index]
        assert found.settings["tuned"].tolist() == pytest.approx(tuned.tolist())
    else:
        assert chosen == 0
        assert not folder.exists()
        assert found.settings["default"].tolist() == found.settings["tuned"].tolist()
        assert found.scores["tuned"] == found.scores["default"]


@pytest.mark.slow
def test_an_overwritten_search_stays_until_the_new_one_is_complete(frame, tmp_path, monkeypatch):
    out = tmp_path / "tuned"
    first = _search(frame, out)
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            _search(frame, out, overwrite=True, seed=1)
    assert read_json(pk.load(out).path / "tune.json") == read_json(first.path / "tune.json")
    second = pk.tune(frame, out=out, resume=True, trials=2)
    assert second.config.seed == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]


@pytest.mark.slow
def test_several_processes_share_the_trials(frame, tmp_path, monkeypatch):
    """Both take part, and a limit holds for all of them."""
    frame.to_csv(tmp_path / "products.csv", index=False)
    found = _search(tmp_path / "products.csv", tmp_path / "tuned", 5, processes=2)
    assert 5 <= len(found.trials) <= 6
    assert set(found.trials["state"]) <= {"finished", "stopped early"}
    log = (found.path / "study.log").read_text().splitlines()
    assert len({json.loads(line)["worker_id"] for line in log}) >= 3


def test_a_search_is_interrupted_by_a_signal(frame, tmp_path, monkeypatch):
    def train(*args, call=tuning.train, **given):
        os.kill(os.getpid(), signal.SIGINT)
        return call(*args, **given)

    monkeypatch.setattr(tuning, "train", train)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores the signal
    try:
        with pytest.raises(KeyboardInterrupt):
            _search(frame, tmp_path / "tuned")
    finally:
        signal.signal(signal.SIGINT, before)
    assert state_of(tmp_path / "tuned").kind == "search"


def test_few_rows_have_no_interval():
    table = read_usable(pk.make_catalog(30))[0].take(np.arange(5))
    found = tuning.difference(SMAPE, table, table.known_price, 2 * table.known_price)
    assert (found["interval"], found["verdict"]) == (None, "cannot tell")
    assert found["tuned"] < found["default"]
