"""The parts of a training, and its checkpoints."""

import torch

from conftest import tiny_config
from pricekit.errors import ConfigError
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
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


def test_checkpointing_needs_layers(catalog, tmp_path, raises):
    with raises(ConfigError, "settings", setting="speed.gradient_checkpointing"):
        train(Source(catalog), tiny_config({"speed": {"gradient_checkpointing": True}}), tmp_path / "run")
