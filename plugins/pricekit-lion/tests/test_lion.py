import tomllib

import pytest
import torch
from pricekit_lion.policy import Lion, Optimizer
from safetensors.torch import load_file
from torch import nn

import pricekit as pk
from pricekit.plugin import ConfigError, TrainingConfig
from pricekit.testing import check_policy

TINY = {
    "backbone": {"name": "transformer", "vocab_size": 300, "width": 16, "layers": 1, "heads": 2},
    "training": {"epochs": 2, "learning_rate": 1e-3, "refit": False},
    "max_length": 24,
}


@pytest.mark.parametrize("check", check_policy(lambda: Lion(Lion.Options())), ids=str)
def test_the_plugin_passes_the_checks(check):
    check()


def test_it_is_registered(registered, raises):
    registry = registered("lion")
    policy = registry.create("policy", "lion", {"betas": [0.95, 0.98]})
    assert policy.options.betas == (0.95, 0.98)
    with raises(ConfigError, "betas", "settings", setting="betas.1", candidates=["betas"]):
        registry.create("policy", "lion", {"betas": [0.9, 1.0]})


def test_two_steps_by_hand():
    """The formula of the paper, with lr 0.1, betas 0.5 and 0.75, weight decay 2: a step shrinks a weight by 0.2."""
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = torch.tensor([[1.0, -1.0]])
    training = TrainingConfig(learning_rate=0.1, weight_decay=2.0)
    optimizer = Lion(Lion.Options(betas=(0.5, 0.75))).optimizer(layer, training, fused=True)
    layer.weight.grad = torch.tensor([[4.0, -0.01]])
    optimizer.step()  # m = 0: c = (2, -0.005); both weights move by 0.1, whatever the gradient
    assert layer.weight.tolist() == [pytest.approx([0.8 * 1 - 0.1, 0.8 * -1 + 0.1])]
    assert optimizer.state[layer.weight]["exp_avg"].tolist() == [pytest.approx([1.0, -0.0025])]
    layer.weight.grad = torch.tensor([[-0.5, 1.0]])
    optimizer.step()  # c = (0.25, 0.49875): the first goes on against its gradient, the second turns
    assert layer.weight.tolist() == [pytest.approx([0.8 * 0.7 - 0.1, 0.8 * -0.7 - 0.1])]
    assert optimizer.state[layer.weight]["exp_avg"].tolist() == [pytest.approx([0.625, 0.248125])]


def test_biases_and_norms_do_not_decay():
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    optimizer = Lion(Lion.Options()).optimizer(model, TrainingConfig(weight_decay=0.5), fused=True)
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert [decays[id(p)] for p in model.parameters()] == [0.5, 0, 0, 0]


def test_sparse_gradients_are_refused_before_anything_is_written(pricekit, catalog, tmp_path):
    out = tmp_path / "run"
    code, _, err = pricekit("train", catalog, "--policy", "lion", "--backbone", "bag", "--out", out)
    assert code == 2
    assert "such as transformer" in err
    assert "--backbone" in err
    assert not out.exists()


def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(catalog, tmp_path, monkeypatch, raises):
    options, steps = {"policy": "lion", "features": "optimized22", "settings": TINY}, []

    def step(self, closure=None, call=Optimizer.step):
        steps.append(closure)
        if len(steps) == 9:  # of six steps an epoch
            raise KeyboardInterrupt
        return call(self, closure)

    with monkeypatch.context() as patch:
        patch.setattr(Optimizer, "step", step)
        with pytest.raises(KeyboardInterrupt):
            pk.train(catalog, out=tmp_path / "stopped", **options)
    with raises(Exception, "resume"):
        pk.Model(tmp_path / "stopped").predict(["Green Tea"])
    pk.train(catalog, out=tmp_path / "stopped", resume=True)
    pk.train(catalog, out=tmp_path / "whole", **options)
    stopped, whole = (load_file(tmp_path / name / "best.safetensors") for name in ("stopped", "whole"))
    assert all(torch.equal(value, whole[name]) for name, value in stopped.items())


def test_from_a_table_to_prices(pricekit, catalog, tmp_path):
    run, bundle, prices = tmp_path / "run", tmp_path / "bundle", tmp_path / "prices.csv"
    small = [f"backbone.{k}={v}" for k, v in TINY["backbone"].items() if k != "name"]
    settings = [part for s in [*small, "policy.betas=[0.95,0.98]", "max_length=24"] for part in ("--set", s)]
    assert pricekit("train", catalog, "--policy", "lion", "--epochs", 8, *settings, "--out", run)[0] == 0
    assert tomllib.loads((run / "config.toml").read_text())["policy"]["betas"] == [0.95, 0.98]
    assert pricekit("export", run, "--out", bundle)[0] == 0
    assert pricekit("predict", bundle, catalog, "--out", prices)[0] == 0
    assert len(prices.read_text().splitlines()) == 401
