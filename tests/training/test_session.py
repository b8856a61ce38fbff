"""The parts of a training, and its checkpoints."""

import json

import pytest
import torch
from safetensors import safe_open

from conftest import tiny_config
from pricekit.errors import ConfigError
from pricekit.runs.folder.opened import open_run
from pricekit.runs.source import Source
from pricekit.runs.train import train


def _weights(run):
    return open_run(run).model.state_dict()


def test_the_average_of_the_weights_is_saved(catalog, run, tmp_path):
    train(Source(catalog), tiny_config({"training": {"ema_decay": 0.99}}), tmp_path / "run")
    name = "heads.0.0.weight"
    averaged, plain = _weights(tmp_path / "run")[name], _weights(run)[name]
    assert not torch.equal(averaged, plain)
    torch.manual_seed(0)
    assert averaged.isfinite().all()


def test_checkpointing_needs_layers(catalog, tmp_path):
    with pytest.raises(ConfigError, match=r"'bag' has no layers to checkpoint"):
        train(Source(catalog), tiny_config({"speed": {"gradient_checkpointing": True}}), tmp_path / "run")


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
    assert {"state", "scaler", "optimizer", "groups"} <= set(record)
