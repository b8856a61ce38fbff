"""The training loop: resuming, interrupts, early stopping, time budget, progress."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors import safe_open

from conftest import tiny_config
from pricekit.errors import TrainingError
from pricekit.io.progress import use_reporter
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop
from pricekit.training.step import Objective, Stepper


def _weights(run):
    return open_run(run).model.state_dict()


@pytest.mark.parametrize(
    ("epochs", "killed"),
    [(2, 0), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, 0), (1, 1), (2, 1)))],
)
def test_a_run_killed_during_validation_resumes_there(catalog, tmp_path, monkeypatch, epochs, killed):
    """The last checkpoint is from the epoch's last step: only the validation is missing."""
    config = tiny_config({"training": {"epochs": epochs, "save_steps": 1}})

    def validate(session, interrupted, call=loop.validate):
        if session.state.epoch == killed:
            raise KeyboardInterrupt
        return call(session, interrupted)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", validate)
        if killed < epochs:
            with pytest.raises(KeyboardInterrupt):
                train(Source(catalog), config, tmp_path / "run")
    train(Source(catalog), config, tmp_path / "run", mode="resume")
    train(Source(catalog), config, tmp_path / "whole")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [*range(1, epochs + 1)]
    whole = _weights(tmp_path / "whole")
    assert all(torch.equal(t, whole[n]) for n, t in _weights(tmp_path / "run").items())


@pytest.mark.parametrize("epoch", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_signal_while_it_validates_stops_it_with_a_checkpoint(catalog, tmp_path, monkeypatch, epoch):
    config = tiny_config({"training": {"epochs": 2, "save_epochs": 9}})

    def validate(session, interrupted, call=loop.validate):
        if session.state.epoch == epoch:
            signal.raise_signal(signal.SIGINT)
        return call(session, interrupted)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", validate)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), config, tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").is_file() == bool(epoch)  # the validation is not finished
    with safe_open(tmp_path / "run" / "last.safetensors", "pt") as file:
        assert json.loads(file.metadata()["pricekit"])["state"]["epoch"] == epoch
    train(Source(catalog), config, tmp_path / "run", mode="resume")
    train(Source(catalog), config, tmp_path / "whole")
    whole = _weights(tmp_path / "whole")
    assert all(torch.equal(t, whole[n]) for n, t in _weights(tmp_path / "run").items())


def test_skipped_steps_count_nowhere_and_add_no_epoch(catalog, tmp_path, monkeypatch):
    def take(self, batches, step, call=Stepper.take):
        loss = call(self, batches, step)
        return None if step in (2, 3) else loss

    monkeypatch.setattr(Stepper, "take", take)
    train(Source(catalog), tiny_config({"training": {"epochs": 2}}), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[0]["loss"] > lines[1]["loss"]


KILLED = {
    "batch_size": 32,
    "gradient_accumulation_steps": 2,
    "save_steps": 1,
    "ema_decay": 0.9,
    "max_grad_norm": 1.0,
}


@pytest.mark.slow
@pytest.mark.parametrize("batch", [14, 15])
def test_a_run_killed_mid_epoch_is_resumed_to_the_same_weights(catalog, tmp_path, batch, raises):
    """Kill the process inside an epoch and an accumulation, resume, and compare with an uninterrupted run."""
    out, whole = tmp_path / "run", tmp_path / "whole"
    code = (
        "import os, sys; from itertools import count; from pathlib import Path\n"
        "from conftest import tiny_config; from pricekit.runs.split import Source\n"
        "from pricekit.runs.train import train\n"
        "from pricekit.training.step import Objective; from tests.training.test_loop import KILLED\n"
        "def forward(self, batch, call=Objective.forward, number=count(1)):\n"
        "    next(number) == int(sys.argv[3]) and os.kill(os.getpid(), 9)\n"
        "    return call(self, batch)\n"
        "Objective.forward = forward\n"
        "train(Source(Path(sys.argv[1])), tiny_config({'training': KILLED}), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(catalog), str(out), str(batch)]
    assert subprocess.run(command, stderr=subprocess.DEVNULL, cwd=Path.cwd()).returncode == -signal.SIGKILL
    with raises(TrainingError, "resume"):
        open_run(out)
    with safe_open(out / "last.safetensors", "pt") as file:
        state = json.loads(file.metadata()["pricekit"])["state"]
    assert (state["epoch"], state["steps_in_epoch"]) == (1, 1)  # 11 batches an epoch, two a step
    for folder, resume in ((out, True), (whole, False)):
        train(Source(catalog), tiny_config({"training": KILLED}), folder, mode="resume" if resume else "new")
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(whole).items())
    lines = [
        [json.loads(line) for line in (d / "metrics.jsonl").read_text().splitlines()] for d in (out, whole)
    ]
    for mine, theirs in zip(*lines, strict=True):
        assert [mine[k] for k in ("epoch", "step", "loss", "valid_smape")] == [
            theirs[k] for k in ("epoch", "step", "loss", "valid_smape")
        ]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_writes_a_checkpoint_inside_the_epoch(run, catalog, tmp_path, monkeypatch, number):
    out, calls = tmp_path / "run", []

    def forward(self, batch, call=Objective.forward):
        calls.append(batch)
        if len(calls) == 8:  # the second step of the second epoch
            os.kill(os.getpid(), number)
        return call(self, batch)

    monkeypatch.setattr(Objective, "forward", forward)
    with pytest.raises(KeyboardInterrupt):
        train(Source(catalog), tiny_config(), out)
    with safe_open(out / "last.safetensors", "pt") as file:
        state = json.loads(file.metadata()["pricekit"])["state"]
    assert (state["epoch"], state["steps_in_epoch"]) == (1, 2)
    train(Source(catalog), tiny_config(), out, mode="resume")
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(run).items())


def test_gradients_are_clipped_if_set(catalog, tmp_path, monkeypatch):
    norms = []

    def step(self, *given, call=torch.amp.GradScaler.step):
        grads = [
            p.grad.to_dense()
            for group in given[0].param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        norms.append(float(torch.cat([grad.flatten() for grad in grads]).norm()))
        return call(self, *given)

    monkeypatch.setattr(torch.amp.GradScaler, "step", step)
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), tmp_path / "free")
    limit = min(norms) / 2
    norms.clear()
    train(
        Source(catalog),
        tiny_config({"training": {"epochs": 1, "max_grad_norm": limit}}),
        tmp_path / "clipped",
    )
    assert norms
    assert max(norms) == pytest.approx(limit, rel=1e-3)


def test_divergence_is_reported_and_keeps_earlier_checkpoints(catalog, tmp_path, raises):
    config = tiny_config({"training": {"learning_rate": 1e30, "embedding_learning_rate": 1e30}})
    with raises(TrainingError, "settings"):
        train(Source(catalog), config, tmp_path / "run")
    assert (tmp_path / "run" / "last.safetensors").exists()


def test_patience_stops_early(catalog, tmp_path):
    config = tiny_config({"training": {"epochs": 50, "patience": 2, "learning_rate": 0.05}})
    facts = train(Source(catalog), config, tmp_path / "run")
    epochs = len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert epochs == facts["best_epoch"] + 2 < 50


def test_the_last_weights_are_kept_if_set(catalog, tmp_path, logged, monkeypatch):
    """Each epoch looks worse than the one before, so that patience would stop after the second."""
    looks = iter([10.0, 20.0, 30.0, 40.0])
    scripted = Mock(side_effect=lambda *_: next(looks), title="SMAPE", write=str)
    scripted.name = "smape"
    monkeypatch.setattr(loop, "metric_named", lambda _: scripted)
    training = {"epochs": 4, "keep": "last", "patience": 1}
    facts = train(Source(catalog), tiny_config({"training": training}), tmp_path / "last")
    lines = [json.loads(line) for line in (tmp_path / "last" / "metrics.jsonl").read_text().splitlines()]
    assert [line["valid_smape"] for line in lines] == [10, 20, 30, 40]
    assert facts["best_epoch"] == 4
    assert "best" not in logged()
    looks = iter([40.0, 30.0, 20.0, 10.0])  # now the last one is the best
    train(Source(catalog), tiny_config({"training": {"epochs": 4}}), tmp_path / "best")
    last, best = _weights(tmp_path / "last"), _weights(tmp_path / "best")
    assert all(torch.equal(last[name], best[name]) for name in best)


def test_accumulation_gives_the_gradient_of_the_whole_step(catalog, tmp_path):
    """Two batches of 8 per step give the same weights as batches of 16 (without dropout, up to rounding)."""
    quiet = {
        "backbone": {
            "name": "bag",
            "vocab_size": 1000,
            "buckets": 512,
            "width": 4,
            "token_dropout": 0.0,
            "span_dropout": 0.0,
        }
    }
    weights = []
    for size, steps in ((340, 1), (100, 4)):
        training = {"epochs": 1, "batch_size": size, "gradient_accumulation_steps": steps}
        out = tmp_path / str(size)
        train(Source(catalog), tiny_config(quiet, {"training": training}), out)
        weights.append(_weights(out)["heads.0.0.weight"])
    assert torch.allclose(*weights, atol=1e-5)


def test_a_time_budget_shorter_than_an_epoch_is_a_warning(catalog, tmp_path, caplog):
    config = tiny_config({"training": {"batch_size": 4, "time_budget": 0.01}})
    with caplog.at_level(logging.WARNING, "pricekit"):
        facts = train(Source(catalog), config, tmp_path / "run")
    assert "of the 85 of one epoch, so most rows have not been trained on; give more time" in caplog.text
    assert facts["best_epoch"] == 1


def test_a_time_budget_ends_the_run_inside_it_with_its_schedule_done(catalog, tmp_path, monkeypatch):
    def slow(self, batch, call=Objective.forward):
        time.sleep(0.05)
        return call(self, batch)

    monkeypatch.setattr(Objective, "forward", slow)
    config = tiny_config({"training": {"epochs": 1000, "batch_size": 32, "time_budget": "4s"}})
    began = time.perf_counter()
    train(Source(catalog), config, tmp_path / "run")
    assert time.perf_counter() - began < 60  # not the minutes of 1,000 epochs
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert 1 <= lines[-1]["epoch"] < 200
    assert lines[-1]["learning_rate"] < 0.2 * max(line["learning_rate"] for line in lines)


def _record_bars(monkeypatch):
    bars = []

    class Recorder:
        @contextmanager
        def bar(self, title, total, done):
            bar = {"title": title, "total": total, "done": done, "notes": []}
            bars.append(bar)

            def advance(units, note=""):
                bar["done"] += units
                bar["notes"].append(note)

            yield advance

    return bars, use_reporter(Recorder())


def test_one_bar_covers_all_epochs_and_counts_steps_of_the_schedule(catalog, tmp_path, monkeypatch):
    bars, reporter = _record_bars(monkeypatch)
    monkeypatch.setattr("pricekit.training.loop.NOTE_SECONDS", -1.0)
    with reporter:
        train(Source(catalog), tiny_config(), tmp_path / "run")
    training = [bar for bar in bars if bar["title"] == "training"]
    assert [(bar["total"], bar["done"]) for bar in training] == [(18, 18)]  # 6 steps in each of 3 epochs
    assert "epoch 3/3  loss " in training[0]["notes"][-1]
    assert "rows/s" in training[0]["notes"][-1]
    assert {"preparing", "pricing the validation rows"} <= {bar["title"] for bar in bars}


def test_a_bar_shows_how_many_fits_of_a_price_feature_are_done(catalog, tmp_path, monkeypatch):
    bars, reporter = _record_bars(monkeypatch)
    trees = {"features": ["trees"], "feature_options": {"trees": {"rounds": 2, "words": 0}}}
    with reporter:
        train(Source(catalog), tiny_config(trees, {"training": {"epochs": 1}}), tmp_path / "run")
    [fits] = [bar for bar in bars if bar["title"] == "fitting trees"]
    assert (fits["total"], fits["done"]) == (6, 6)  # five folds and all rows


def test_without_progress_there_is_no_bar_and_the_plan_is_logged(catalog, tmp_path, monkeypatch, logged):
    bars, reporter = _record_bars(monkeypatch)
    config = tiny_config({"speed": {"progress": False}, "training": {"batch_size": 16}})
    with reporter:
        train(Source(catalog), config, tmp_path / "run")
    assert bars == []
    lines = logged().splitlines()
    plan = r"plan: 340 training rows, 60 for validation; backbone bag, 0\.\d+M parameters; 3 epochs, 66 optimizer "
    places = [
        next(n for n, line in enumerate(lines) if re.match(start, line))
        for start in (plan, "estimated time left: at most ", "epoch   1")
    ]
    assert places == sorted(places)
    assert sum(line.startswith("estimated time") for line in lines) == 1


def test_validation_does_not_advance_the_epoch(catalog, tmp_path, monkeypatch):
    seen = []

    def validate(session, interrupted, call=loop.validate):
        before = asdict(session.state)
        result = call(session, interrupted)
        assert asdict(session.state) == before
        seen.append(result)
        return result

    monkeypatch.setattr(loop, "validate", validate)
    train(Source(catalog), tiny_config(), tmp_path / "run")
    assert [(result.epoch, result.step) for result in seen] == [(1, 6), (2, 12), (3, 18)]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["valid_smape"] for line in lines] == [result.valid_score for result in seen]
