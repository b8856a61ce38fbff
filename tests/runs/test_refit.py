"""The second pass of a run, on all rows."""

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import pricekit as pk
from conftest import tiny_config
from pricekit.core.loader import registry
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, TrainingError
from pricekit.evaluation.held_out import read_held_out
from pricekit.io.progress import use_reporter
from pricekit.io.record import REFIT, check_intact, is_own, staging_of, state_of
from pricekit.metrics import smape
from pricekit.options import config_of
from pricekit.predict.intervals import intervals_in
from pricekit.runs.folder import read_out_of_fold
from pricekit.runs.opened import open_run
from pricekit.runs.refit import all_rows, other_folds
from pricekit.runs.split import Source, Split, load_rows, load_split
from pricekit.runs.train import train
from pricekit.table.row_info import with_row_info
from pricekit.training import loop
from pricekit.training.loop import Session, start_session
from pricekit.training.machine import Monitor
from pricekit.training.time_budget import TimeBudget

SLOW = pytest.mark.slow  # more moments of the same kind
REFITTED = {"training": {"refit": True, "epochs": 4, "save_steps": 4}}
FIRST_PASS_FILES = ("held_out.parquet", "intervals.json")


def _weights(run):
    return open_run(run).model.state_dict()


def assert_same(one, other):
    first, second = _weights(one), _weights(other)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    for name in ("metrics", "best_epoch", "rows", "refit"):
        assert open_run(one).facts[name] == open_run(other).facts[name], name
    for name in ("held_out.parquet", "intervals.json", "split.parquet", "tokenizer.json", "preprocess.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.fixture(scope="module")
def refitted(catalog, tmp_path_factory):
    """A finished run with a refit; read only."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(Source(catalog), tiny_config(REFITTED), out)
    return out


@pytest.fixture(scope="module")
def single(catalog, tmp_path_factory):
    """The same run without one; read only."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(Source(catalog), tiny_config(REFITTED, {"training": {"refit": False}}), out)
    return out


def test_the_policy_quick_refits_and_the_others_say_what_it_costs():
    assert tiny_config({"training": {"refit": True}}).training.refit
    assert config_of({}).training.refit
    for name in ("ultra", "fast", "blazing", "optimized"):
        assert not config_of({"policy": name}).training.refit
        assert "training.refit is off" in registry().create("policy", name, {}).notes


def test_only_the_first_pass_says_that_the_gpu_was_idle(catalog, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "pricekit")
    monkeypatch.setattr(Monitor, "advice", lambda self: "the GPU was busy 5% of the time")
    train(Source(catalog), tiny_config(REFITTED, {"training": {"epochs": 1}}), tmp_path / "run")
    assert caplog.text.count("refit: the second pass") == caplog.text.count("the GPU was busy") == 1


def test_a_refit_keeps_the_out_of_fold_values_of_the_first_pass(catalog, tmp_path):
    trees = {"features": ["optimized22", "trees"], "feature_options": {"trees": {"rounds": 5, "words": 0}}}
    found = {}
    for refit in (False, True):
        config = tiny_config(trees, {"training": {"refit": refit, "epochs": 1}})
        train(Source(catalog), config, tmp_path / str(refit))
        found[refit] = read_out_of_fold(tmp_path / str(refit))["trees_log_price"]
    single = open_run(tmp_path / "False")
    split = load_split(Source(catalog), single.config)
    valid = single.preprocessor.features.transform(split.valid)[:, -1]
    assert np.array_equal(found[True], np.concatenate([valid, found[False]]))
    last = open_run(tmp_path / "True").preprocessor.features
    assert not np.array_equal(last.transform(split.valid)[:, -1], valid)  # the trees themselves are new


def test_results_are_those_of_the_first_pass_and_weights_those_of_the_second(refitted, single):
    one, two = open_run(single).facts, open_run(refitted).facts
    assert two["refit"] == {"rows": 400, "epochs": one["best_epoch"]}
    assert "refit" not in one
    for name in ("metrics", "best_epoch", "constant_score", "rows", "plugins", "table"):
        assert one[name] == two[name], name
    for name in (*FIRST_PASS_FILES, "split.parquet", "sample.parquet"):
        assert (single / name).read_bytes() == (refitted / name).read_bytes(), name
    lines = [
        [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (single, refitted)
    ]
    assert [line["valid_smape"] for line in lines[0]] == [line["valid_smape"] for line in lines[1]]
    changed = [
        name for name, tensor in _weights(single).items() if not torch.equal(tensor, _weights(refitted)[name])
    ]
    assert "encoder.embedding.weight" in changed


FOLDS = {"training": {"refit": True, "epochs": 4, "folds": 3}}


@pytest.fixture(scope="module")
def in_folds(catalog, tmp_path_factory):
    """A finished run of few rows, all of which validate; read only."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(Source(catalog), tiny_config(FOLDS), out)
    return out


def test_with_folds_every_row_validates_once_and_calibrates(catalog, in_folds, refitted):
    held_out, facts = read_held_out(in_folds), open_run(in_folds).facts
    assert sorted(held_out.rows) == list(range(400))
    assert facts["rows"] == {"train": 340, "valid": 400, "rejected": 0}
    first = held_out.take(np.flatnonzero(held_out.fold == 0))
    assert (
        first.rows.tolist() == read_held_out(refitted).rows.tolist()
    )  # the split is that of a run without folds
    assert np.bincount(held_out.fold).tolist() == [60, 170, 170]
    assert intervals_in(in_folds).rows == 400
    assert facts["metrics"]["smape"] == pytest.approx(smape(held_out.predicted, held_out.price))


def test_the_second_pass_takes_the_median_of_the_best_epochs(in_folds):
    facts = open_run(in_folds).facts
    assert len(facts["best_epochs"]) == 3
    assert facts["best_epochs"][0] == facts["best_epoch"]
    assert facts["refit"] == {"rows": 400, "epochs": sorted(facts["best_epochs"])[1]}


def test_folds_hold_out_each_training_row_once_beside_its_duplicates():
    table = pd.concat([make_catalog(150, seed=3)] * 2).assign(sample_id=range(300))
    config = tiny_config(FOLDS)
    split = load_split(Source(table), config)
    folds = other_folds(split, config)
    held = np.concatenate([fold.valid.row_numbers for fold in folds])
    assert sorted(held) == sorted(split.train.row_numbers)
    for fold in folds:
        rows = np.concatenate([fold.train.row_numbers, fold.valid.row_numbers])
        assert sorted(rows) == list(range(300))
        assert not set(fold.train.text) & set(fold.valid.text)


def test_there_are_no_folds_if_one_would_hold_out_no_weight(tmp_path):
    table = make_catalog(100, seed=3).assign(sales=0.0)
    table.loc[:2, "sales"] = 1.0
    rows = with_row_info(load_rows(Source(table), tiny_config(FOLDS))[0], "sales")
    rows = replace(rows, cluster=np.arange(100))
    split = Split(rows.take(np.arange(1, 100)), rows.take(np.arange(1)), [], own=True)
    assert other_folds(split, tiny_config({"training": {"folds": 5}})) == []
    assert len(other_folds(split, tiny_config({"training": {"folds": 2}}))) == 1


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"training": {"folds": 1}}, {}),
        ({"training": {"refit": False}}, {}),
        ({"training": {"time_budget": "1h"}}, {}),
        ({}, {"time": "sample_id"}),
    ],
    ids=["one", "no refit", "time budget", "times"],
)
def test_without_folds_a_part_of_the_rows_validates(catalog, tmp_path, settings, options):
    config = tiny_config(FOLDS, {"training": {"epochs": 1}}, settings).model_dump(exclude_none=True)
    model = pk.train(catalog, config=config, out=tmp_path / "run", **options)
    facts = open_run(model.path).facts
    assert facts["rows"]["valid"] < 100
    assert "best_epochs" not in facts


def test_a_run_killed_in_its_folds_continues_to_the_same_weights(catalog, in_folds, tmp_path):
    out = tmp_path / "run"
    with killed_after(12, Session, "save", Session.save) as saves, pytest.raises(Killed):
        train(Source(catalog), tiny_config(FOLDS), out)
    assert len(saves) == 12
    assert state_of(out).phase == "first"
    assert not list(out.rglob("*fold-*"))
    resumed_equals(catalog, out, in_folds)


def test_few_rows_have_folds_by_default():
    config = config_of({})
    assert [config.for_rows(rows).training.folds for rows in (399, 400, 1500, 1501)] == [1, 5, 5, 1]
    assert config_of({"policy": "blazing"}).training.folds == 1


def test_the_run_is_as_large_as_one_without_a_refit(refitted, single):
    names = [sorted(file.name for file in run.iterdir()) for run in (refitted, single)]
    assert names[0] == names[1]
    check_intact(refitted, None)


def test_tokenizer_features_and_model_are_fitted_on_all_rows(catalog, tmp_path):
    """A run whose training rows are all rows, for as many epochs, has the same weights."""
    config = tiny_config(REFITTED, {"training": {"keep": "last"}})
    split = load_split(Source(catalog), config)
    rows = all_rows(split)
    assert sorted(rows.ids.astype(str)) == sorted(pd.read_csv(catalog)["sample_id"].astype(str))
    plain = tiny_config(REFITTED, {"training": {"keep": "last", "refit": False}})
    train(Source(catalog, split=Split(rows, split.valid, split.rejected)), plain, tmp_path / "all")
    train(Source(catalog), config, tmp_path / "run")
    assert_weights(tmp_path / "all", tmp_path / "run")
    for name in ("tokenizer.json", "preprocess.json"):
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def assert_weights(one, other):
    expected = _weights(other)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in _weights(one).items())


class Killed(BaseException):
    """Ends a training as a kill does: nothing catches it."""


@contextmanager
def killed_after(count, owner, name, call):
    """Raise after a function was called some times; with fewer calls, nothing happens."""
    calls = []

    def counted(*args, **given):
        found = call(*args, **given)
        calls.append(1)
        if len(calls) == count:
            raise Killed
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield calls


def resumed_equals(catalog, out, expected):
    run = pk.train(catalog, out=out, resume=True)
    assert_same(run.path, expected)
    assert not (out / REFIT).exists()
    assert sorted(file.name for file in out.iterdir()) == sorted(file.name for file in expected.iterdir())


# Each pass of 4 epochs of 6 or 7 steps saves at its start, every 4 steps, and twice after an epoch.
@pytest.mark.parametrize("saves", [*(pytest.param(n, marks=SLOW) for n in (1, 4, 8, 14, 15, 20, 24)), 16])
def test_a_run_killed_in_either_pass_continues_to_the_same_weights(catalog, refitted, tmp_path, saves):
    out = tmp_path / "run"
    with killed_after(saves, Session, "save", Session.save), pytest.raises(Killed):
        train(Source(catalog), tiny_config(REFITTED), out)
    assert not (out / "run.json").exists()
    resumed_equals(catalog, out, refitted)


def test_the_numbers_of_saves_reach_both_passes(catalog, tmp_path):
    found = set()
    for saves in (8, 16):
        out = tmp_path / str(saves)
        with killed_after(saves, Session, "save", Session.save), pytest.raises(Killed):
            train(Source(catalog), tiny_config(REFITTED), out)
        found.add((out / REFIT / "last.safetensors").exists())
    assert found == {True, False}


def killed_and_resumed(catalog, out, refitted, replace_file):
    """Train with another `os.replace`, which kills the training; then resume, and compare with an uninterrupted run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace_file)
        with pytest.raises(Killed):
            train(Source(catalog), tiny_config(REFITTED), out)
    assert state_of(out).name == "unfinished"
    resumed_equals(catalog, out, refitted)


@pytest.mark.parametrize(
    "name",
    [
        *(
            pytest.param(name, marks=SLOW)
            for name in ("source.json", "held_out.parquet", "backbone.json", "run.json")
        ),
        "tokenizer.json",
    ],
)
def test_a_run_killed_while_the_second_pass_writes_a_file_continues(catalog, refitted, tmp_path, name):
    out = tmp_path / "run"

    def replace_file(source, target, call=os.replace):
        if str(target) == str(out / REFIT / name):
            raise Killed
        return call(source, target)

    killed_and_resumed(catalog, out, refitted, replace_file)


@pytest.mark.parametrize("moves", [*(pytest.param(n, marks=SLOW) for n in (1, 4, 14, 15)), 9])
def test_a_run_killed_while_the_passes_change_places_continues(catalog, refitted, tmp_path, moves):
    out, done = tmp_path / "run", []

    def replace_file(source, target, call=os.replace):
        if str(source).startswith(str(out / REFIT)) and not str(target).startswith(str(out / REFIT)):
            done.append(target)
            if len(done) == moves:
                raise Killed
        return call(source, target)

    killed_and_resumed(catalog, out, refitted, replace_file)


def test_a_finished_run_can_be_resumed(catalog, refitted, tmp_path):
    out = shutil.copytree(refitted, tmp_path / "run")
    (out / "best.safetensors").unlink()
    resumed_equals(catalog, out, refitted)


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=SLOW) for name in ("intervals.json", "preprocess.json", "source.json")),
        "held_out.parquet",
    ],
)
def test_damaged_files_of_the_second_pass_are_named(catalog, refitted, tmp_path, name, raises):
    out = tmp_path / "run"
    with killed_after(20, Session, "save", Session.save), pytest.raises(Killed):
        train(Source(catalog), tiny_config(REFITTED), out)
    content = bytearray((out / REFIT / name).read_bytes())
    content[len(content) // 2] ^= 1
    (out / REFIT / name).write_bytes(content)
    with raises(TrainingError):
        pk.train(catalog, out=out, resume=True)


def test_overwrite_replaces_an_unfinished_second_pass(catalog, single, tmp_path, raises):
    out = tmp_path / "run"
    with killed_after(20, Session, "save", Session.save), pytest.raises(Killed):
        train(Source(catalog), tiny_config(REFITTED), out)
    with raises(TrainingError, "resume", "overwrite", "out"):
        train(Source(catalog), tiny_config(REFITTED), out)
    train(Source(catalog), tiny_config(REFITTED, {"training": {"refit": False}}), out, mode="overwrite")
    assert_weights(out, single)
    assert not (out / REFIT).exists()


def test_a_finished_run_stays_until_both_passes_of_the_new_one_are_complete(
    catalog, single, refitted, tmp_path
):
    old = shutil.copytree(single, tmp_path / "run")
    (old / "notes.txt").write_text("mine")
    with killed_after(20, Session, "save", Session.save), pytest.raises(Killed):
        train(Source(catalog), tiny_config(REFITTED), old, mode="overwrite")
    assert_weights(old, single)
    assert (staging_of(old) / REFIT / "last.safetensors").is_file()
    run = pk.train(catalog, out=old, resume=True)
    assert_same(run.path, refitted)
    assert (old / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert sorted(path.name for path in old.iterdir() if path.is_dir()) == []


def test_files_of_both_passes_belong_to_the_run(tmp_path):
    names = (
        "best.safetensors",
        f"{REFIT}/best.safetensors",
        f"{REFIT}/last-1.safetensors",
        f"{REFIT}/pricekit.json",
    )
    assert all(is_own(path.relative_to(tmp_path), ["run"]) for path in (tmp_path / name for name in names))
    assert not is_own((tmp_path / REFIT / "notes.txt").relative_to(tmp_path), ["run"])


def test_with_a_validation_table_there_is_no_refit(catalog, tmp_path):
    valid = tmp_path / "valid.csv"
    make_catalog(30, seed=9).to_csv(valid, index=False)
    facts = train(
        Source(catalog, valid), tiny_config(REFITTED, {"training": {"epochs": 1}}), tmp_path / "run"
    )
    assert "refit" not in facts
    assert facts["rows"] == {"train": 400, "valid": 30, "rejected": 0}


def test_the_second_pass_follows_a_whole_schedule_over_the_best_number_of_epochs(
    catalog, tmp_path, monkeypatch
):
    """As if the third of four epochs was the best."""
    rates, scores = {}, iter([3.0, 2.0, 1.0, 2.0])
    monkeypatch.setattr(
        loop,
        "validate",
        lambda session, interrupted, call=loop.validate: (
            replace(result, valid_score=next(scores))
            if (result := call(session, interrupted)).valid_score is not None
            else result
        ),
    )

    def set_rates(self, call=Session.set_rates):
        call(self)
        key = "refit" if self.job.valid is None else "first"
        rates.setdefault(key, []).append(self.optimizer.param_groups[0]["lr"])

    monkeypatch.setattr(Session, "set_rates", set_rates)
    facts = train(Source(catalog), tiny_config(REFITTED), tmp_path / "run")
    assert facts["best_epoch"] == 3
    assert facts["refit"] == {"rows": 400, "epochs": 3}
    steps = len(rates["first"]) // 4, len(rates["refit"]) // 3
    assert steps == (6, 7)
    compressed = np.interp(np.arange(21) / 21, np.arange(24) / 24, rates["first"])
    assert rates["refit"] == pytest.approx(compressed, rel=0.05, abs=1e-3)


def test_pseudo_labelled_rows_are_trained_on_in_both_passes(catalog, refitted, tmp_path, logged):
    new = tmp_path / "new.csv"
    split = load_split(Source(catalog), tiny_config(REFITTED))
    frame = make_catalog(60, seed=8).drop(columns="price")
    frame.loc[0, "catalog_content"] = split.valid.text.iloc[0]
    frame.to_csv(new, index=False)
    source = Source(catalog, unpriced=(new,), teachers=(refitted,))
    facts = train(source, tiny_config(REFITTED), tmp_path / "run")
    pseudo = facts["rows"]["pseudo_labelled"]
    assert pseudo > 50
    assert facts["rows"]["train"] == 340 + pseudo
    assert facts["refit"]["rows"] == 400 + pseudo - 1  # the price of that text is known
    assert "trained on 60 of the 60 validation rows" in (said := logged())
    assert "without a refit" in said


def test_the_first_pass_gets_the_part_of_the_time_budget_that_leaves_as_much_for_all_rows(
    catalog, tmp_path, monkeypatch
):
    budgets = []

    def start(job, *args, **given):
        budgets.append((len(job.train.price), job.config.training.time_budget))
        return start_session(job, *args, **given)

    monkeypatch.setattr(loop, "start_session", start)
    train(Source(catalog), tiny_config(REFITTED, {"training": {"time_budget": 740}}), tmp_path / "run")
    # A twentieth is for what comes after the last step, and little for the preparation of the second pass.
    assert budgets == [(340, pytest.approx(0.95 * 340, abs=8)), (400, pytest.approx(0.95 * 740, abs=2))]


def test_without_time_for_the_second_pass_the_first_weights_are_kept(
    catalog, single, tmp_path, monkeypatch, logged
):
    config = tiny_config(REFITTED, {"training": {"time_budget": 1e6}})
    monkeypatch.setattr(
        TimeBudget,
        "must_stop",
        lambda self, seconds, epoch_ends=False: self.budget > 0.9e6,  # not the first part
    )
    facts = train(Source(catalog), config, tmp_path / "run")
    assert "refit" not in facts
    assert "the time budget leaves 1 step for the refit" in logged()
    assert not (tmp_path / "run" / REFIT).exists()
    assert_weights(tmp_path / "run", single)
    check_intact(tmp_path / "run", None)


def test_a_finished_run_whose_second_pass_no_longer_fits_is_kept(
    catalog, refitted, tmp_path, monkeypatch, raises
):
    """Its checkpoint is gone, so the second pass would begin again."""
    out = shutil.copytree(refitted, tmp_path / "run")
    (out / "last.safetensors").unlink()
    monkeypatch.setattr(TimeBudget, "must_stop", lambda self, seconds, epoch_ends=False: True)
    with raises(TrainingError, "time_budget"):
        pk.train(catalog, out=out, resume=True, time_budget=1e6)
    assert (out / "held_out.parquet").exists()
    assert state_of(out).name == "unfinished"


def test_the_seconds_of_an_interrupted_first_pass_count_in_the_second_one(catalog, tmp_path, monkeypatch):
    out = tmp_path / "run"
    with killed_after(2, Session, "save", Session.save), pytest.raises(Killed):
        train(Source(catalog), tiny_config(REFITTED), out)
    monkeypatch.setattr(
        Session,
        "load",
        lambda self, path, call=Session.load: call(self, path) or setattr(self.state, "seconds", 1000.0),
    )
    facts = train(Source(catalog), tiny_config(REFITTED), out, mode="resume")
    assert 1000 < facts["seconds"] < 1100


def test_a_finished_run_that_is_only_measured_again_stays_finished(catalog, refitted, tmp_path, monkeypatch):
    out = shutil.copytree(refitted, tmp_path / "run")

    def interrupted(*_, **__):
        raise Killed

    monkeypatch.setattr("pricekit.runs.train.second_sketch", interrupted)
    with pytest.raises(Killed):
        train(Source(catalog), tiny_config(REFITTED), out, mode="resume")
    assert state_of(out).name == "finished"
    assert_weights(out, refitted)


def test_resuming_keeps_the_choice(catalog, refitted, raises):
    with raises(ConfigError, "refit"):
        pk.train(catalog, out=refitted, resume=True, refit=False)


def test_every_report_says_that_the_metrics_are_of_the_first_pass(
    refitted, single, tmp_path, logged, pricekit
):
    note = f"are those of the first pass of {refitted}"
    for command in (
        ["evaluate", refitted],
        ["evaluate", refitted, "--worst", "3"],
        ["compare", refitted, single],
    ):
        code, _, _ = pricekit(*command)
        assert (code, note in logged()) == (0, True), command
    ensemble = tmp_path / "ensemble"
    assert pricekit("ensemble", refitted, single, "--out", ensemble)[0] == 0
    assert note in logged()
    assert pricekit("evaluate", ensemble)[0] == 0
    assert f"are those of the first pass of {ensemble}" in logged()
    assert pricekit("evaluate", single)[0] == 0
    assert "first pass" not in logged()
    assert pricekit("export", refitted, "--out", tmp_path / "bundle")[0] == 0
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert "The first of two passes scored, on 60 validation rows" in card
    assert "- 400 rows of `products.csv`" in card
    code, said, _ = pricekit("bundle", "inspect", tmp_path / "bundle")
    assert "on all 400 rows; the metrics are of the pass before" in said


@pytest.mark.slow
def test_the_card_of_an_ensemble_says_that_the_metrics_are_of_the_first_pass(
    refitted, single, tmp_path, pricekit
):
    ensemble = tmp_path / "ensemble"
    assert pricekit("ensemble", refitted, single, "--out", ensemble)[0] == 0
    assert pricekit("export", ensemble, "--out", tmp_path / "both")[0] == 0
    assert "the first of two passes" in (tmp_path / "both" / "README.md").read_text()


TINY_FLAGS = (
    *("--set", "backbone.vocab_size=500", "--set", "backbone.buckets=64", "--set", "backbone.width=4"),
    *("--epochs", "2", "--max-length", "32", "--features", "fast15"),
)


def test_the_command_has_two_passes_by_default_and_one_on_request(catalog, tmp_path, pricekit, logged):
    code, said, err = pricekit("train", catalog, "--out", tmp_path / "two", *TINY_FLAGS)
    assert (code, "then trained again on all 400 rows" in said + err + logged()) == (0, True)
    code, said, err = pricekit("train", catalog, "--out", tmp_path / "one", *TINY_FLAGS, "--no-refit")
    assert (code, "all 400 rows" in said + err + logged()) == (0, False)
    assert [("refit" in open_run(tmp_path / name).facts) for name in ("two", "one")] == [True, False]


def test_plan_and_progress_cover_both_passes(catalog, tmp_path, logged):
    bars = []

    class Recorder:
        @contextmanager
        def bar(self, title, total, done):
            bars.append([title, total, done])
            yield lambda units, note="": None

    with use_reporter(Recorder()):
        train(Source(catalog), tiny_config(REFITTED, {"training": {"keep": "last"}}), tmp_path / "run")
    assert [bar for bar in bars if bar[0].startswith("training")] == [
        ["training", pytest.approx(24 + 24 * 400 / 340), 0],
        ["training on all rows", 24 + 28, 24],
    ]
    said = logged()
    assert "; then a second pass on all rows, for as many epochs as are best" in said
    assert "refit: the second pass, on all 400 rows; 4 epochs, 28 optimizer steps" in said
