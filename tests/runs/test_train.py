import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from torch import nn

from conftest import tiny_config
from pricekit.config import build_config, read_toml
from pricekit.config.resolve import configure
from pricekit.core.registry import Registry
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, DataError, PluginError, TrainingError
from pricekit.evaluation.held_out import read_held_out
from pricekit.metrics import smape
from pricekit.progress import use_reporter
from pricekit.runs.cache import cached_inputs
from pricekit.runs.folder import open_run, read_sample
from pricekit.runs.source import Source, load_split
from pricekit.runs.train import train
from pricekit.table import ReadOptions
from pricekit.training import loop
from pricekit.training.step import Objective, Stepper, clip_gradients

ONE_EPOCH = {"training": {"epochs": 1}}


def _weights(run):
    return open_run(run).model.state_dict()


def test_a_run_holds_what_it_says(run, catalog):
    opened = open_run(run)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [m["epoch"] for m in metrics] == [1, 2, 3]
    assert opened.facts["metrics"]["smape"] == pytest.approx(min(m["valid_smape"] for m in metrics), abs=1e-4)
    assert opened.facts["metrics"]["smape"] < opened.facts["constant_smape"]
    split = pd.read_parquet(run / "split.parquet")
    assert set(split["id"]) == set(pd.read_csv(catalog)["sample_id"].astype(str))
    assert split["part"].value_counts().to_dict() == {"train": 340, "valid": 60}
    assert len(pd.read_parquet(run / "rejected.parquet")) == 0
    assert {p["kind"] for p in opened.facts["plugins"]} == {"feature", "backbone", "loss", "policy"}


def test_the_model_learns(catalog, tmp_path):
    facts = train(Source(catalog), tiny_config({"training": {"epochs": 25}}), tmp_path / "run")
    assert facts["metrics"]["smape"] < 0.7 * facts["constant_smape"]


def test_auto_epochs_are_settled_by_the_training_rows(catalog, tmp_path):
    few = tiny_config(
        {"training": {"epochs": "auto", "batch_size": 12, "patience": None}}
    )  # 29 steps of the 340 rows
    train(Source(catalog), few, tmp_path / "run")
    assert read_toml(tmp_path / "run" / "config.toml")["training"]["epochs"] == 35
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 35


def test_the_same_seed_gives_the_same_weights(run, catalog, tmp_path):
    train(Source(catalog), tiny_config(), tmp_path / "again")
    train(Source(catalog), tiny_config({"seed": 1}), tmp_path / "other")
    again, other = _weights(tmp_path / "again"), _weights(tmp_path / "other")
    name = "encoder.embedding.weight"
    assert all(torch.equal(t, again[n]) for n, t in _weights(run).items())
    assert not torch.equal(again[name][:100], other[name][:100])


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("killed", [0, 1])
def test_a_run_killed_while_it_validates_goes_on_there(catalog, tmp_path, monkeypatch, epochs, killed):
    """The last checkpoint is that of the epoch's last step: nothing is left to train, all to validate."""
    config = tiny_config({"training": {"epochs": epochs, "save_steps": 1}})

    def validate(session, call=loop.validate):
        if session.state.epoch == killed:
            raise KeyboardInterrupt
        return call(session)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", validate)
        if killed < epochs:
            with pytest.raises(KeyboardInterrupt):
                train(Source(catalog), config, tmp_path / "run")
    train(Source(catalog), config, tmp_path / "run", resume=True)
    train(Source(catalog), config, tmp_path / "whole")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [*range(1, epochs + 1)]
    whole = _weights(tmp_path / "whole")
    assert all(torch.equal(t, whole[n]) for n, t in _weights(tmp_path / "run").items())


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_signal_while_it_validates_stops_it_after_a_checkpoint(catalog, tmp_path, monkeypatch, epoch):
    config = tiny_config({"training": {"epochs": 2, "save_epochs": 9}})

    def validate(session, call=loop.validate):
        if session.state.epoch == epoch:
            signal.raise_signal(signal.SIGINT)
        return call(session)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", validate)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), config, tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [*range(1, epoch + 2)]
    with safe_open(tmp_path / "run" / "last.safetensors", "pt") as file:
        assert f'"epoch": {epoch + 1}' in json.dumps(file.metadata()).replace("\\", "")
    train(Source(catalog), config, tmp_path / "run", resume=True)
    train(Source(catalog), config, tmp_path / "whole")
    whole = _weights(tmp_path / "whole")
    assert all(torch.equal(t, whole[n]) for n, t in _weights(tmp_path / "run").items())


@pytest.mark.parametrize("name", ["source.json", "config.toml", "split.parquet", "backbone.json"])
def test_a_run_cut_off_between_its_first_files_starts_anew(run, catalog, tmp_path, monkeypatch, name):
    """A disk that is full, or a kill that leaves a half-written file."""
    full = OSError(28, "No space left on device")

    def replace_file(source, target, call=os.replace):
        if Path(target).name == name:
            Path(source).rename(Path(source).with_name(f".{name}.0123abcd.tmp"))
            raise full
        return call(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_file)
        with pytest.raises(OSError, match="No space"):
            train(Source(catalog), tiny_config(), tmp_path / "run")
    assert (tmp_path / "run" / f".{name}.0123abcd.tmp").exists()
    train(Source(catalog), tiny_config(), tmp_path / "run")
    assert all(torch.equal(t, _weights(tmp_path / "run")[n]) for n, t in _weights(run).items())
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_a_run_that_was_half_deleted_is_still_one(run, catalog, tmp_path, monkeypatch):
    out = shutil.copytree(run, tmp_path / "run")

    def unlink(self, missing_ok=False, call=Path.unlink):
        if self.name == "run.json":
            raise KeyboardInterrupt
        return call(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), tiny_config(), out, overwrite=True)
    train(Source(catalog), tiny_config(), out, overwrite=True)
    assert open_run(out).facts["rows"]["train"] == 340


def test_the_sample_has_the_prices_that_were_trained_on(catalog, tmp_path):
    """Read with --decimal , the text says another price than it would by itself."""
    frame = pd.read_csv(catalog)
    frame["price"] = [f"{price:.3f}".replace(".", ",") for price in frame["price"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = Source(tmp_path / "t.csv", read_options=ReadOptions(decimal=","))
    train(source, tiny_config({"training": {"epochs": 1}}), tmp_path / "run")
    opened, held_out = open_run(tmp_path / "run"), read_held_out(tmp_path / "run")
    sample = read_sample(opened)
    assert len(sample) == 60
    assert np.sort(sample.known_price) == pytest.approx(np.sort(held_out.price))


def test_skipped_steps_count_nowhere_and_add_no_epoch(catalog, tmp_path, monkeypatch):
    def take(self, batches, key, call=Stepper.take):
        loss = call(self, batches, key)
        return None if int(key.split("/")[1]) in (2, 3) else loss

    monkeypatch.setattr(Stepper, "take", take)
    train(Source(catalog), tiny_config({"training": {"epochs": 2}}), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[0]["loss"] > lines[1]["loss"]


def test_a_table_with_lists_is_trained_on_without_the_cache(catalog, tmp_path, logged):
    frame = pd.read_csv(catalog).head(60)
    frame["tags"] = [["a", "b"]] * len(frame)
    frame.to_parquet(tmp_path / "t.parquet")
    config = tiny_config({"training": {"epochs": 1}, "speed": {"cache": str(tmp_path / "cache")}})
    train(Source(tmp_path / "t.parquet"), config, tmp_path / "run")
    assert "not cached" in " ".join(logged().split())


KILLED = {
    "batch_size": 32,
    "gradient_accumulation_steps": 2,
    "save_steps": 1,
    "ema_decay": 0.9,
    "max_grad_norm": 1.0,
}


@pytest.mark.parametrize("batch", [14, 15])
def test_a_run_killed_mid_epoch_is_resumed_to_the_same_weights(catalog, tmp_path, batch):
    """Kill the process inside an epoch and an accumulation, resume, compare with a run never stopped."""
    out, whole = tmp_path / "run", tmp_path / "whole"
    code = (
        "import os, sys; from itertools import count; from pathlib import Path\n"
        "from conftest import tiny_config; from pricekit.runs.source import Source\n"
        "from pricekit.runs.train import train\n"
        "from pricekit.training.step import Objective; from tests.runs.test_train import KILLED\n"
        "def forward(self, batch, call=Objective.forward, number=count(1)):\n"
        "    next(number) == int(sys.argv[3]) and os.kill(os.getpid(), 9)\n"
        "    return call(self, batch)\n"
        "Objective.forward = forward\n"
        "train(Source(Path(sys.argv[1])), tiny_config({'training': KILLED}), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(catalog), str(out), str(batch)]
    assert subprocess.run(command, stderr=subprocess.DEVNULL, cwd=Path.cwd()).returncode == -signal.SIGKILL
    with pytest.raises(TrainingError, match="not a finished run"):
        open_run(out)
    with safe_open(out / "last.safetensors", "pt") as file:
        state = json.loads(file.metadata()["pricekit"])["state"]
    assert (state["epoch"], state["steps_in_epoch"]) == (1, 1)  # 11 batches an epoch, two a step
    for folder, resume in ((out, True), (whole, False)):
        train(Source(catalog), tiny_config({"training": KILLED}), folder, resume=resume)
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(whole).items())
    lines = [
        [json.loads(line) for line in (d / "metrics.jsonl").read_text().splitlines()] for d in (out, whole)
    ]
    for mine, theirs in zip(*lines, strict=True):
        assert [mine[k] for k in ("epoch", "step", "loss", "valid_smape")] == [
            theirs[k] for k in ("epoch", "step", "loss", "valid_smape")
        ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
    train(Source(catalog), tiny_config(), out, resume=True)
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(run).items())


@pytest.mark.parametrize("change", ["fewer rows", "other prices", "other texts"])
def test_resume_refuses_another_table(catalog, tmp_path, change):
    out, other = tmp_path / "run", tmp_path / "other.csv"
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), out)
    frame = pd.read_csv(catalog)
    if change == "fewer rows":
        frame = frame.iloc[:-5]
    elif change == "other prices":
        frame["price"] *= 100
    else:
        frame["catalog_content"] += "!"
    frame.to_csv(other, index=False)
    before = (out / "run.json").read_bytes()
    with pytest.raises(TrainingError, match="rows differ from those that"):
        train(Source(other), tiny_config({"training": {"epochs": 2}}), out, resume=True)
    assert (out / "run.json").read_bytes() == before


def _without_checkpoints(run, out, *names):
    out = shutil.copytree(run, out)
    for name in ("last.safetensors", "best.safetensors", "run.json", *names):
        (out / name).unlink()
    return out


def test_a_run_killed_before_its_first_checkpoint_takes_other_rows_as_little(run, catalog, tmp_path):
    out = _without_checkpoints(run, tmp_path / "run")
    pd.read_csv(catalog).iloc[:-5].to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(TrainingError, match="rows differ from those that"):
        train(Source(tmp_path / "other.csv"), tiny_config(), out, resume=True)
    train(Source(catalog), tiny_config(), out, resume=True)
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(run).items())


def test_a_run_killed_before_it_began_starts_anew(run, catalog, tmp_path):
    out = _without_checkpoints(run, tmp_path / "run", "preprocess.json", "backbone.json")
    train(Source(catalog), tiny_config(), out, resume=True)
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(run).items())


def test_clipping_bounds_dense_and_sparse_gradients_together():
    sparse, dense = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(1))
    sparse.grad = torch.sparse_coo_tensor([[0, 0, 2]], [3.0, 1.0, 0.0], (4,), check_invariants=True)
    dense.grad = torch.tensor([3.0])
    clip_gradients([sparse, dense], 1.0)  # norm of (4, 0, 3) is 5
    assert sparse.grad.to_dense().tolist() == pytest.approx([0.8, 0, 0, 0], abs=1e-5)
    assert dense.grad.tolist() == pytest.approx([0.6], abs=1e-5)
    clip_gradients([dense], 1.0)
    assert dense.grad.tolist() == pytest.approx([0.6], abs=1e-5)


def test_gradients_are_clipped_where_that_is_asked_for(catalog, tmp_path, monkeypatch):
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


def test_divergence_is_told_and_keeps_earlier_checkpoints(catalog, tmp_path):
    config = tiny_config({"training": {"learning_rate": 1e30, "embedding_learning_rate": 1e30}})
    with pytest.raises(TrainingError, match=r"lower training\.learning_rate"):
        train(Source(catalog), config, tmp_path / "run")
    assert (tmp_path / "run" / "last.safetensors").exists()


def test_patience_stops_early(catalog, tmp_path):
    config = tiny_config({"training": {"epochs": 50, "patience": 2, "learning_rate": 0.05}})
    facts = train(Source(catalog), config, tmp_path / "run")
    epochs = len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert epochs == facts["best_epoch"] + 2 < 50


def test_the_last_weights_are_kept_where_that_is_asked_for(catalog, tmp_path, logged, monkeypatch):
    """Each epoch is made to look worse than the one before, so that patience would stop at the second."""
    looks = iter([10.0, 20.0, 30.0, 40.0])
    monkeypatch.setattr(loop, "smape", lambda predicted, actual: next(looks))
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


def test_the_rows_held_out_are_kept_with_their_predictions(run):
    held_out, split = read_held_out(run), pd.read_parquet(run / "split.parquet")
    assert set(held_out.ids) == set(split["id"][split["part"] == "valid"])
    assert smape(held_out.predicted, held_out.price) == pytest.approx(
        open_run(run).facts["metrics"]["smape"], abs=1e-4
    )


def test_accumulation_gives_the_gradient_of_the_whole_step(catalog, tmp_path):
    """Batches of 8, two a step, end where batches of 16 end (without dropout, within float error)."""
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


def test_a_time_budget_ends_the_run_inside_it_with_its_schedule_done(catalog, tmp_path, monkeypatch):
    def slow(self, batch, call=Objective.forward):
        time.sleep(0.05)
        return call(self, batch)

    monkeypatch.setattr(Objective, "forward", slow)
    config = tiny_config({"training": {"epochs": 1000, "batch_size": 32, "time_budget": "6s"}})
    began = time.perf_counter()
    train(Source(catalog), config, tmp_path / "run")
    assert time.perf_counter() - began < 60  # not the minutes of 1,000 epochs
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert 1 <= lines[-1]["epoch"] < 200
    assert lines[-1]["learning_rate"] < 0.2 * max(line["learning_rate"] for line in lines)


def test_an_average_of_the_weights_is_what_is_kept(catalog, run, tmp_path):
    train(Source(catalog), tiny_config({"training": {"ema_decay": 0.99}}), tmp_path / "run")
    name = "heads.0.0.weight"
    averaged, plain = _weights(tmp_path / "run")[name], _weights(run)[name]
    assert not torch.equal(averaged, plain)
    torch.manual_seed(0)
    assert averaged.isfinite().all()


def test_checkpointing_needs_layers(catalog, tmp_path):
    with pytest.raises(ConfigError, match=r"'bag' has no layers to checkpoint"):
        train(Source(catalog), tiny_config({"speed": {"gradient_checkpointing": True}}), tmp_path / "run")


def test_fp16_needs_a_gpu(catalog, tmp_path):
    with pytest.raises(ConfigError, match="needs a CUDA GPU"):
        train(Source(catalog), tiny_config({"speed": {"precision": "fp16"}}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_bf16_and_workers_train(catalog, tmp_path):
    speed = {"precision": "bf16", "workers": 1, "sort_window": 1, "cache": str(tmp_path / "cache")}
    facts = train(Source(catalog), tiny_config({"speed": speed}), tmp_path / "run")
    assert facts["metrics"]["smape"] < facts["constant_smape"]


def test_a_cache_that_cannot_be_written_is_said_and_not_needed(catalog, tmp_path, logged):
    (tmp_path / "cache").write_text("a file")
    train(Source(catalog), tiny_config({"speed": {"cache": str(tmp_path / "cache")}}), tmp_path / "run")
    assert "are not cached" in logged()
    assert open_run(tmp_path / "run").predictor()


def test_the_cache_gives_the_same_weights(catalog, run, tmp_path, monkeypatch):
    config = tiny_config({"speed": {"cache": str(tmp_path / "cache")}})
    train(Source(catalog), config, tmp_path / "first")
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the training and the validation rows
    monkeypatch.setattr("pricekit.preprocess.Preprocessor.__call__", None)  # all comes from the cache
    split = load_split(Source(catalog), config)
    monkeypatch.setattr("pricekit.runs.train._check_reopened", lambda out, model: None)
    train(Source(catalog), config, tmp_path / "second")
    for out in ("first", "second"):
        assert all(torch.equal(t, _weights(tmp_path / out)[n]) for n, t in _weights(run).items())
    monkeypatch.undo()
    preprocessor = open_run(run).preprocessor
    changed = replace(split.train, text=split.train.text + "!")
    found = cached_inputs(preprocessor, changed, str(tmp_path / "cache"))
    assert np.array_equal(found.tokens.ids, preprocessor(changed).tokens.ids)
    assert len(list((tmp_path / "cache").iterdir())) == 3
    broken = next((tmp_path / "cache").iterdir())
    broken.write_bytes(b"broken")
    for part in (split.train, split.valid, changed):
        again = cached_inputs(preprocessor, part, str(tmp_path / "cache"))
        assert np.array_equal(again.tokens.ids, preprocessor(part).tokens.ids)
    assert broken.stat().st_size > 100


def test_rejected_rows_are_kept_with_their_reason(catalog, tmp_path, logged):
    frame = pd.read_csv(catalog, dtype=str)
    frame.loc[0, "price"] = "cheap"
    frame.loc[1, "price"] = "-3"
    frame.loc[2, "catalog_content"] = " "
    frame.loc[3, "sample_id"] = frame.loc[4, "sample_id"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    train(Source(tmp_path / "t.csv"), tiny_config({"training": {"epochs": 1}}), tmp_path / "run")
    rejected = pd.read_parquet(tmp_path / "run" / "rejected.parquet")
    assert rejected["reason"].tolist() == [
        "price not a number",
        "price not positive",
        "no text",
        "duplicate id",
    ]
    assert "4 of 400 rows cannot be used" in logged()


def test_a_validation_table_of_its_own(catalog, tmp_path):
    valid = tmp_path / "valid.csv"
    make_catalog(30, seed=9).to_csv(valid, index=False)
    facts = train(Source(catalog, valid), tiny_config({"training": {"epochs": 1}}), tmp_path / "run")
    assert facts["rows"] == {"train": 400, "valid": 30, "rejected": 0}


def test_features_are_fitted_on_the_training_rows_only(run):
    split = pd.read_parquet(run / "split.parquet")
    opened = open_run(run)
    assert opened.preprocessor.features.parts[0].state != {}
    assert np.isfinite(opened.model.numeric.mean.numpy()).all()
    assert (split["part"] == "train").sum() == opened.facts["rows"]["train"]


@pytest.mark.parametrize(
    ("rows", "message"), [(1, "1 usable row, training needs at least 10"), (9, "at least 10")]
)
def test_too_few_rows(catalog, tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        train(Source(catalog), tiny_config({"limit": rows}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ten_rows_train(catalog, tmp_path):
    train(Source(catalog), tiny_config({"limit": 10}), tmp_path / "run")


@pytest.mark.parametrize(
    ("layer", "error", "message"),
    [
        ({"backbone": {"name": "bagg"}}, PluginError, "Did you mean 'bag'"),
        ({"backbone": {"name": "bag", "wdth": 3}}, ConfigError, "Did you mean 'width'"),
        ({"features": ["optimized22", "fast15"]}, ConfigError, "columns of the same name"),
        ({"feature_options": {"mine": {}}}, ConfigError, "not among features"),
    ],
)
def test_wrong_settings_are_told(catalog, tmp_path, layer, error, message):
    with pytest.raises(error, match=message):
        train(Source(catalog), tiny_config(layer), tmp_path / "run")


def test_a_taken_folder_is_left_alone(catalog, run, tmp_path):
    with pytest.raises(TrainingError, match="exists; resume it, overwrite it"):
        train(Source(catalog), tiny_config(), run)
    (tmp_path / "config.toml").write_text("title = 'a web site'")
    with pytest.raises(TrainingError, match="not a run"):
        train(Source(catalog), tiny_config(), tmp_path, overwrite=True)
    assert (tmp_path / "config.toml").exists()


@pytest.mark.parametrize("lost", ["last.safetensors", "run.json"])
def test_a_trained_run_is_not_started_anew_without_being_asked(catalog, run, tmp_path, lost):
    out = shutil.copytree(run, tmp_path / "run")
    (out / lost).unlink()
    kept = (out / "best.safetensors").read_bytes()
    with pytest.raises(TrainingError, match="overwrite it"):
        train(Source(catalog), tiny_config(), out)
    assert (out / "best.safetensors").read_bytes() == kept


def test_overwrite_keeps_the_old_run_when_a_plugin_of_the_new_one_fails(catalog, run, tmp_path):
    out = shutil.copytree(run, tmp_path / "run")
    missing = {"backbone": {"name": "distilroberta", "weights": str(tmp_path / "nowhere")}}
    with pytest.raises(ConfigError, match="nowhere"):
        train(Source(catalog), configure([missing]), out, overwrite=True)
    assert open_run(out)


def test_overwrite_keeps_the_old_run_until_the_new_one_can_start(catalog, run, tmp_path):
    out = shutil.copytree(run, tmp_path / "run")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(DataError):
        train(Source(tmp_path / "mistyped.csv"), tiny_config(), out, overwrite=True)
    assert open_run(out)
    (out / "notes.txt").unlink()
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), out, overwrite=True)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 1


def test_the_saved_configuration_repeats_the_run(run):
    saved = build_config([read_toml(run / "config.toml")])
    assert saved == tiny_config()
    assert saved.backbone.options["token_dropout"] == 0.4  # a default, written out


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
    monkeypatch.setattr("pricekit.training.monitor.NOTE_SECONDS", -1.0)
    with reporter:
        train(Source(catalog), tiny_config(), tmp_path / "run")
    training = [bar for bar in bars if bar["title"] == "training"]
    assert [(bar["total"], bar["done"]) for bar in training] == [(18, 18)]  # 6 steps in each of 3 epochs
    assert "epoch 3/3  loss " in training[0]["notes"][-1]
    assert "rows/s" in training[0]["notes"][-1]
    assert {"preparing", "pricing the validation rows"} <= {bar["title"] for bar in bars}


def test_without_progress_there_is_no_bar_and_the_plan_is_logged(catalog, tmp_path, monkeypatch, logged):
    bars, reporter = _record_bars(monkeypatch)
    config = tiny_config({"speed": {"progress": False}, "training": {"batch_size": 16}})
    with reporter:
        train(Source(catalog), config, tmp_path / "run")
    assert bars == []
    lines = logged().splitlines()
    plan = r"plan: 340 training rows, 60 for validation; backbone bag, 0\.0\d+M parameters; 3 epochs, 66 optimizer "
    places = [
        next(n for n, line in enumerate(lines) if re.match(start, line))
        for start in (plan, "estimated time left: at most ", "epoch   1")
    ]
    assert places == sorted(places)
    assert sum(line.startswith("estimated time") for line in lines) == 1


def test_each_plugin_is_created_once(catalog, tmp_path, monkeypatch):
    created = []

    def create(self, kind, name, options=None, call=Registry.create):
        created.append(kind)
        return call(self, kind, name, options)

    monkeypatch.setattr("pricekit.runs.train._check_reopened", lambda out, model: None)
    config = tiny_config(ONE_EPOCH)
    monkeypatch.setattr(Registry, "create", create)
    train(Source(catalog), config, tmp_path / "run")
    assert sorted(kind for kind in created if kind != "feature") == ["backbone", "loss", "policy"]


def test_validation_does_not_advance_the_epoch(catalog, tmp_path, monkeypatch):
    seen = []

    def validate(session, call=loop.validate):
        before = asdict(session.state)
        result = call(session)
        assert asdict(session.state) == before
        seen.append(result)
        return result

    monkeypatch.setattr(loop, "validate", validate)
    train(Source(catalog), tiny_config(), tmp_path / "run")
    assert [(result.epoch, result.step) for result in seen] == [(1, 6), (2, 12), (3, 18)]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["valid_smape"] for line in lines] == [result.valid_smape for result in seen]


def test_a_checkpoint_holds_the_keys_of_version_0_1(run):
    """Runs of version 0.1 resume, and version 0.1 resumes runs of this one."""
    with safe_open(run / "last.safetensors", "pt") as file:
        record = json.loads(file.metadata()["pricekit"])
    assert list(record["state"]) == [
        *(
            "epoch",
            "steps_in_epoch",
            "step",
            "position",
            "best_smape",
            "best_epoch",
            "seconds",
            "loss",
            "rows",
        ),
        *("parts", "skipped", "precision"),
    ]
    assert {"state", "scaler", "optimizer", "groups"} == set(record)
