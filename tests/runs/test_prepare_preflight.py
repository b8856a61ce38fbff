"""A faulty plugin of each kind is detected and named before the first epoch."""

import itertools
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from conftest import tiny_config
from pricekit.config.resolve import configure
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.datasets import make_catalog
from pricekit.errors import PluginError
from pricekit.io.record import state_of
from pricekit.nets.bag import Bag
from pricekit.nets.losses import SmapeLoss
from pricekit.runs.prepare import check_rates
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop
from pricekit.training.loop import start_session


class MeanEncoder(nn.Module):
    hidden_size, members = 4, 1

    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, 4)

    def forward(self, input_ids, attention_mask):
        return (self.table(input_ids) * attention_mask[..., None]).sum(1) / attention_mask.sum(
            1, keepdim=True
        )


class Mean:
    max_length = None
    encoder_class = MeanEncoder

    def tokenizer(self, texts):
        return Bag(Bag.Options(vocab_size=300)).tokenizer(texts)

    def architecture(self, tokenizer):
        return {}

    def encoder(self, architecture, tokenizer, tokens):
        return self.encoder_class(tokenizer.get_vocab_size())


class SeesPadding(MeanEncoder):
    def forward(self, input_ids, attention_mask):
        return self.table(input_ids).mean(1)


class WrongSize(MeanEncoder):
    hidden_size = 5


class Doubles(MeanEncoder):
    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids, attention_mask).double()


class KeepsOutside(MeanEncoder):
    """Stores a fitted value in an attribute that no checkpoint contains."""

    made = itertools.count(1)

    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.scale = next(self.made)

    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids, attention_mask) * self.scale


class Negative(SmapeLoss):
    def to_price(self, raw):
        return -super().to_price(raw)


class PerRow(SmapeLoss):
    def forward(self, raw, price):
        return self.terms(raw, price)


class Raises(SmapeLoss):
    def forward(self, raw, price):
        raise IndexError("of mine")


class DenseOnly:
    defaults = {"training": {"epochs": 1}}  # noqa: RUF012

    def optimizer(self, model, training, *, fused):
        return torch.optim.AdamW(model.parameters(), lr=training.learning_rate)

    def schedule(self, step, warmup_steps, total_steps):
        return 1.0


class Feature:
    names = ("mine",)

    def fit(self, table):
        assert table.price is None
        assert "price" not in table.frame.columns
        return {}

    def transform(self, table, state):
        assert "price" not in table.frame.columns
        return np.ones((len(table), 1), np.float32)


def _feature(**methods):
    return type("Made", (Feature,), methods)


FEATURES = {
    "not float32": _feature(transform=lambda s, t, _: np.ones((len(t), 1))),
    "not finite": _feature(transform=lambda s, t, _: np.full((len(t), 1), np.nan, np.float32)),
    "not an array": _feature(transform=lambda s, t, _: [1.0] * len(t)),
    "raises": _feature(transform=lambda s, t, _: t.frame["weight"]),
    "depends on the batch": _feature(transform=lambda s, t, _: np.full((len(t), 1), len(t), np.float32)),
    "state not JSON": _feature(fit=lambda s, t: {"a": np.ones(2)}),
    "state not finite": _feature(fit=lambda s, t: {"a": float("nan")}),
    "exits": _feature(__init__=lambda s: sys.exit(0)),
}


@pytest.fixture
def register(monkeypatch):
    """Register a class as a plugin for one test."""

    def add(kind, plugin):
        module = types.ModuleType("toy_preflight")
        module.Plugin = plugin
        monkeypatch.setitem(sys.modules, "toy_preflight", module)
        entry = Entry(kind, "toy", "toy_preflight:Plugin", "a toy", "toy-package", "1.0")
        monkeypatch.setitem(registry().entries, (kind, "toy"), entry)

    return add


def _train(catalog, tmp_path, **layer):
    return train(Source(catalog), tiny_config({"training": {"epochs": 1}}, layer), tmp_path / "run")


def _backbone(encoder):
    return type("Made", (Mean,), {"encoder_class": encoder})


def test_right_plugins_pass(register, catalog, tmp_path):
    register("backbone", Mean)
    _train(catalog, tmp_path, backbone={"name": "toy"}, policy={"name": "quick"})


NO_PRICE = """
import numpy as np
from pricekit import plugin

@plugin.feature("toy")
class Blind(plugin.Feature):
    names = ("mine",)
    columns = ("catalog_content",)
    def fit(self, table):
        return {"priced": table.price is not None or "price" in table.frame}
    def transform(self, table, state):
        assert not state["priced"] and table.price is None and list(table.frame) == ["catalog_content"]
        return np.ones((len(table), 1), np.float32)
"""


def test_a_feature_sees_no_price(catalog, tmp_path, monkeypatch):
    (tmp_path / "toy.py").write_text(NO_PRICE)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "toy.py"))
    registry.cache_clear()
    _train(catalog, tmp_path, features=["toy"])
    monkeypatch.undo()
    registry.cache_clear()


@pytest.mark.parametrize("case", FEATURES)
def test_wrong_features(register, catalog, tmp_path, case, raises):
    plugin = FEATURES[case]
    register("feature", plugin)
    with raises(PluginError):
        _train(catalog, tmp_path, features=["toy"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "encoder",
    [
        SeesPadding,
        WrongSize,
        Doubles,
        KeepsOutside,
    ],
)
def test_wrong_backbones(register, catalog, tmp_path, encoder, raises):
    register("backbone", _backbone(encoder))
    with raises(PluginError):
        _train(catalog, tmp_path, backbone={"name": "toy"})
    assert state_of(tmp_path / "run").name in ("absent", "unfinished")


@pytest.mark.parametrize(
    "loss",
    [
        Negative,
        PerRow,
        Raises,
    ],
)
def test_wrong_losses(register, catalog, tmp_path, loss, raises):
    register("loss", loss)
    with raises(PluginError):
        _train(catalog, tmp_path, loss={"name": "toy"})


def test_a_policy_that_cannot_train_the_backbone(register, catalog, tmp_path, raises):
    register("policy", DenseOnly)
    with raises(PluginError, kind="policy", name="toy", package="toy-package"):
        _train(catalog, tmp_path, policy={"name": "toy"})


def test_wrong_defaults_name_the_policy(register, raises):
    register("policy", type("Made", (DenseOnly,), {"defaults": {"training": {"epoch": 1}}}))
    with raises(PluginError):
        tiny_config({"policy": {"name": "toy"}})


def test_the_padding_check_stays_inside_the_backbones_length(tmp_path):
    """A text that is as long as the encoder's positions leaves no room for padding."""
    frame = make_catalog(40, seed=3)
    frame["catalog_content"] += " word" * 600
    frame.to_csv(tmp_path / "t.csv", index=False)
    small = {"name": "transformer", "width": 16, "layers": 1, "heads": 2, "vocab_size": 500}
    config = tiny_config({"backbone": small, "max_length": 512, "training": {"epochs": 1, "batch_size": 4}})
    train(Source(tmp_path / "t.csv"), config, tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({"backbone": "lstm"}, "scratch"),
        ({"backbone": {"name": "encoder", "weights": "folder"}}, "blazing"),
        ({"backbone": "bag"}, None),
        ({"backbone": "mlp"}, None),
        ({"backbone": "lstm", "policy": "scratch"}, None),
        ({"backbone": "lstm", "training": {"learning_rate": 1e-3}}, None),
    ],
)
def test_rates_of_another_backbone_are_a_warning(settings, policy, logged):
    config = configure([settings])
    check_rates(config, registry().create("backbone", config.backbone.name, config.backbone.options))
    said = logged()
    assert f"choose the policy {policy}" in said if policy else not said


def test_a_training_warns_of_such_rates(tmp_path, logged):
    config = tiny_config({"backbone": "lstm", "training": {"learning_rate": 5e-3}})
    train(Source(make_catalog(60, seed=1)), config, tmp_path / "run")
    assert "choose the policy scratch" in logged()


class Learning(SmapeLoss):
    """A loss with a weight of its own."""

    def __init__(self, options):
        super().__init__(options)
        self.shift = torch.nn.Parameter(torch.zeros(()))

    def forward(self, raw, price):
        return super().forward(raw + self.shift, price)


def test_the_second_pass_begins_with_the_loss_as_it_was_created(catalog, tmp_path, register, monkeypatch):
    register("loss", Learning)
    begun = []

    def start(job, *args, **given):
        begun.append(float(job.model.loss.shift.detach()))
        return start_session(job, *args, **given)

    monkeypatch.setattr(loop, "start_session", start)
    train(
        Source(catalog),
        tiny_config({"training": {"epochs": 1, "refit": True}}, {"loss": {"name": "toy"}}),
        tmp_path / "run",
    )
    assert begun == [0.0, 0.0]
