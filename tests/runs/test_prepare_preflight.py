"""A faulty plugin of each kind is detected and named before the first epoch."""

import itertools
import sys
import types

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from conftest import tiny_config
from pricekit import plugin
from pricekit.config.resolve import configure
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, PluginError
from pricekit.evaluation.held_out import read_held_out
from pricekit.evaluation.scores import goal_of
from pricekit.io.record import state_of
from pricekit.metrics import smape
from pricekit.nets.bag import Bag
from pricekit.nets.losses import LogPrice, SmapeLoss
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


def policy_with(optimizer=None, **parts):
    """A policy that trains bag, with an optimizer of (model, learning rate)."""
    parts |= {"defaults": {}}
    if optimizer:
        parts["optimizer"] = lambda s, model, training, fused: optimizer(model, training.learning_rate)
    return type("Made", (plugin.Policy,), parts)


class Forgets(plugin.RowwiseAdagrad):
    """Cannot load the state that it saved."""

    def load_state_dict(self, state):
        raise KeyError("momentum")


class Nested(plugin.RowwiseAdagrad):
    """Keeps a dict in its state."""

    def step(self, closure=None):
        super().step()
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["moments"] = {"first": 1.0}


class StopsAfter(plugin.RowwiseAdagrad):
    """Fails at its 13th step, in the second epoch."""

    steps = 0

    def step(self, closure=None):
        super().step()
        self.steps += 1
        if self.steps == 13:
            raise ArithmeticError("of mine")


def momentum(model, rate):
    return torch.optim.SGD(model.parameters(), rate, momentum=0.9)


@pytest.mark.parametrize(
    "policy",
    [
        policy_with(momentum),
        policy_with(lambda model, rate: Forgets(model.parameters(), rate)),
        policy_with(lambda model, rate: Nested(model.parameters(), rate)),
        policy_with(schedule=lambda s, step, warmup, total: 1.5),
        policy_with(schedule=lambda s, step, warmup, total: None),
        policy_with(schedule=lambda s, step, warmup, total: torch.tensor(1.0)),
        policy_with(schedule=lambda s, step, warmup, total: 1 / (total - step)),
    ],
)
def test_a_policy_that_would_fail_after_the_first_epoch(register, catalog, tmp_path, policy, raises):
    register("policy", policy)
    with raises(PluginError, kind="policy", name="toy", package="toy-package"):
        _train(catalog, tmp_path, policy={"name": "toy"})
    assert not (tmp_path / "run").exists()


def test_a_policy_that_fails_later_is_named(register, catalog, tmp_path, raises):
    register("policy", policy_with(lambda model, rate: StopsAfter(model.parameters(), rate)))
    with raises(PluginError, kind="policy", name="toy", package="toy-package"):
        _train(catalog, tmp_path, policy={"name": "toy"}, training={"epochs": 3})


def after(calls, call):
    """Return a method that raises IndexError after some calls."""
    counted = itertools.count()

    def method(self, *arguments):
        if next(counted) >= calls:
            raise IndexError("of mine")
        return call(self, *arguments)

    return method


def test_a_backbone_that_fails_later_is_named(register, catalog, tmp_path, raises):
    encoder = type("Made", (MeanEncoder,), {"forward": after(8, MeanEncoder.forward)})
    register("backbone", _backbone(encoder))
    with raises(PluginError, kind="backbone", name="toy", package="toy-package"):
        _train(catalog, tmp_path, backbone={"name": "toy"})
    assert state_of(tmp_path / "run").name == "unfinished"


@pytest.mark.parametrize("method", ["terms", "to_price"])
def test_a_loss_that_fails_later_is_named(register, catalog, tmp_path, raises, method):
    def change(self, raw, *price):
        if 9 < len(raw) < 99:  # more rows than are tried first, and fewer than its aim is found with
            raise IndexError("of mine")
        return getattr(SmapeLoss, method)(self, raw, *price)

    register("loss", type("Made", (SmapeLoss,), {method: change}))
    with raises(PluginError, kind="loss", name="toy", package="toy-package"):
        _train(catalog, tmp_path, loss={"name": "toy"})
    assert state_of(tmp_path / "run").name == "unfinished"


class HalfWay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, raw):
        return raw.clone()

    @staticmethod
    def backward(ctx, gradient):
        if len(gradient) > 8:
            raise IndexError("of mine")
        return gradient


def test_a_gradient_that_fails_names_backbone_and_loss(register, catalog, tmp_path, raises):
    parts = {"terms": lambda s, raw, price: SmapeLoss.terms(s, HalfWay.apply(raw), price)}
    register("loss", type("Made", (SmapeLoss,), parts))
    with raises(PluginError, "backbone", "loss"):
        _train(catalog, tmp_path, loss={"name": "toy"})


class ForwardOnly(nn.Module):
    """A loss as it was before terms."""

    def __init__(self):
        super().__init__()
        self.link = LogPrice()

    def fit(self, price):
        self.link.fit(price)

    def forward(self, raw, price):
        return self.link.distance(raw, price).square().mean()

    def to_price(self, raw):
        return self.link.to_price(raw)


def test_a_loss_without_terms_trains_without_weights(register, catalog, tmp_path, raises):
    register("loss", ForwardOnly)
    _train(catalog, tmp_path, loss={"name": "toy"})
    weighted = tmp_path / "weighted.csv"
    pd.read_csv(catalog).assign(weight=2.0).to_csv(weighted, index=False)
    with raises(ConfigError, "weight", "loss"):
        _train(weighted, tmp_path / "other", loss={"name": "toy"}, columns={"weight": "weight"})


class High(LogPrice):
    """The 0.9 quantile of the price, without a word about it."""

    def terms(self, raw, price):
        distance = self.distance(raw, price)
        return torch.maximum(-0.9 * distance, 0.1 * distance)


class InTheClass(SmapeLoss):
    """Keeps the center of its prices where every instance has it."""

    center = 0.0

    def fit(self, price):
        type(self).center = float(price.log().mean())

    def to_price(self, raw):
        return (raw + self.center).clamp(-40, 40).exp()


@pytest.mark.parametrize("loss", [High, InTheClass])
def test_a_loss_whose_prices_would_be_wrong(register, catalog, tmp_path, raises, loss):
    register("loss", loss)
    with raises(PluginError, "loss"):
        _train(catalog, tmp_path, loss={"name": "toy"})
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_central_has_learned_something(register, tmp_path):
    """Its prices are far above most true ones, and it is compared with the constant that it aims at."""
    register("loss", type("Declared", (High,), {"central": False}))
    table = make_catalog(600, seed=1)
    facts = train(
        Source(table), tiny_config({"loss": {"name": "toy"}, "training": {"epochs": 8}}), tmp_path / "run"
    )
    assert not goal_of(facts).missed
    known = read_held_out(tmp_path / "run").price
    assert facts["constant_score"] > 1.2 * smape(np.full(len(known), np.median(known)), known)


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
