"""Values that are not finite are found, named and not saved."""

import json
import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import tiny_config
from pricekit.config import HeadConfig, RunConfig
from pricekit.errors import TrainingError
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop
from pricekit.training.checkpoint import LAST, METRICS, checkpoints, read_state
from pricekit.training.guard import (
    CHECK_EVERY,
    GradientGuard,
    SpikeError,
    check_finite,
    gradient_norms,
)
from pricekit.training.step import Stepper

CPU = torch.device("cpu")


class Mean(nn.Module):
    """An encoder whose output can be disturbed."""

    hidden_size, members = 4, 1

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.factor = 1.0
        self.register_buffer("mask", torch.full((2, 2), -math.inf))

    def forward(self, input_ids, attention_mask):
        return (self.embedding(input_ids) * attention_mask[:, :, None]).sum(1) * self.factor


def _batch():
    return {
        "input_ids": torch.arange(12).reshape(4, 3) % 10,
        "attention_mask": torch.ones(4, 3, dtype=torch.int64),
        "features": torch.ones(4, 2),
        "price": torch.arange(1.0, 5.0),
    }


def _make(**settings):
    torch.manual_seed(0)
    model = PriceModel(Mean(), HeadConfig(widths=[3], dropout=[0.0]), smape(), 2)
    config = tiny_config(settings)
    return model, Stepper(model, torch.optim.AdamW(model.parameters(), lr=0.1), config, "fp32", CPU)


def _take(stepper, batch=None, step=0):
    return stepper.take([(0, batch or _batch(), 1.0)], step)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("part", ["encoder", "heads"])
def test_a_gradient_that_is_not_finite_is_named_before_the_step(value, part, raises):
    model, stepper = _make(training={"max_grad_norm": 1.0})
    _take(stepper)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    parameter = next(p for name, p in model.named_parameters() if name.startswith(part))
    parameter.register_hook(lambda gradient: gradient * value)
    with raises(SpikeError, "settings"):
        _take(stepper, step=1)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "heads.0.0.bias",
        "heads.0.0.weight",
        "encoder.embedding.weight",
    ],
)
def test_without_clipping_a_gradient_that_is_not_finite_is_found_by_the_next_loss(name, raises):
    model, stepper = _make()
    _take(stepper)
    hook = dict(model.named_parameters())[name].register_hook(lambda gradient: gradient * math.nan)
    _take(stepper, step=1)
    hook.remove()
    with raises(SpikeError, "settings"):
        _take(stepper, step=2)


@pytest.mark.parametrize(
    "name",
    [
        "heads.0.0.bias",
        "heads.0.0.weight",
    ],
)
def test_a_plugin_that_refuses_what_an_earlier_step_left_is_not_the_cause(name, raises):
    model, stepper = _make()
    hook = dict(model.named_parameters())[name].register_hook(lambda gradient: gradient * math.nan)
    _take(stepper)
    hook.remove()

    def refuse(raw, price):
        raise ValueError("expected finite values")

    model.loss.forward = refuse
    with raises(SpikeError, "settings"):
        _take(stepper, step=1)


def test_one_of_several_processes_does_not_stop_because_of_its_own_loss():
    model, _ = _make()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    guard = GradientGuard(model, tiny_config(), CPU, processes=2)
    gradients = guard.gradients()
    guard.watch(1, gradients, gradient_norms(gradients.values()), torch.tensor(math.inf), [])
    assert guard.is_due(1, torch.tensor(1.0))


@pytest.mark.parametrize("name", ["heads.0.0.bias", "heads.0.0.weight"])
def test_without_clipping_all_gradients_are_checked_at_times_whatever_the_loss_is(name, raises):
    model, stepper = _make()
    dict(model.named_parameters())[name].register_hook(lambda gradient: gradient * math.nan)
    stepper.optimizer.param_groups[0]["lr"] = 0.0
    stepper.optimizer.step = lambda: None  # so the loss stays finite
    for step in range(CHECK_EVERY - 1):
        _take(stepper, step=step)
    with raises(SpikeError, "settings"):
        _take(stepper, step=CHECK_EVERY - 1)


def test_all_gradients_are_checked_in_each_step_if_processes_train_together(raises):
    """Another process would wait for ever for one that stops because of its own loss."""
    model, stepper = _make()
    stepper.guard = GradientGuard(model, tiny_config(), CPU, processes=2)
    dict(model.named_parameters())["heads.0.0.bias"].register_hook(lambda gradient: gradient * math.nan)
    with raises(SpikeError, "settings"):
        _take(stepper)


def _break_backbone(model, batch):
    model.encoder.factor = math.nan


def _break_weights(model, batch):
    with torch.no_grad():
        model.heads[0][0].weight[0, 0] = math.inf


def _break_loss(model, batch):
    model.loss.forward = lambda raw, price: (raw * math.nan).sum()


def _break_gradient_of_loss(model, batch):
    model.loss.forward = lambda raw, price: (raw - raw.detach()).abs().sqrt().sum()


def _break_features(model, batch):
    batch["features"][1, 1] = math.nan


def _break_price(model, batch):
    batch["price"][2] = math.nan


@pytest.mark.parametrize(
    "fault",
    [
        _break_backbone,
        _break_weights,
        _break_loss,
        _break_gradient_of_loss,
        _break_features,
        _break_price,
    ],
)
def test_the_cause_is_named(fault, raises):
    model, stepper = _make(training={"max_grad_norm": 1.0})
    batch = _batch()
    fault(model, batch)
    with raises(SpikeError, "settings") as raised:
        _take(stepper, batch)
    assert "training.retry_after_spike=true" in str(raised.value)


def test_the_cause_is_named_for_rows_with_weights(raises):
    model, stepper = _make(training={"max_grad_norm": 1.0})
    batch = _batch() | {"weight": torch.ones(4)}
    _break_features(model, batch)
    with raises(SpikeError, "settings"):
        _take(stepper, batch)


def test_sparse_gradients_are_checked():
    table = nn.EmbeddingBag(5, 2, sparse=True, mode="sum")
    (table(torch.tensor([[0, 0, 3]])).sum() * math.inf).backward()
    assert not gradient_norms([table.weight.grad]).isfinite().all()


def test_on_a_gpu_norms_are_read_later_and_the_first_bad_step_is_named(raises):
    model, _ = _make()
    guard = GradientGuard(model, RunConfig(), CPU)
    guard.waits = True
    names = dict(model.named_parameters())
    good, loss = torch.ones(len(names)), torch.tensor(0.5)
    bad = good.clone()
    bad[list(names).index("heads.0.0.bias")] = math.nan
    for step, norms in enumerate((good, bad, torch.full_like(good, math.nan)), 1):
        guard.watch(step, names, norms, loss, [])
    with raises(SpikeError, "settings"):
        guard.read()
    guard.read()


def test_only_finite_values_are_saved(raises):
    model, stepper = _make()
    _take(stepper)
    config, optimizer = tiny_config(), stepper.optimizer
    check_finite(1, model, None, optimizer, config)  # a buffer of -inf is allowed
    optimizer.state[model.encoder.embedding.weight]["exp_avg"][0, 0] = math.nan
    with raises(SpikeError, "settings"):
        check_finite(1, model, None, optimizer, config)
    optimizer.state.clear()
    model.encoder.mask[0, 0] = math.nan
    with raises(SpikeError, "settings"):
        check_finite(1, model, None, optimizer, config)
    model.encoder.mask.zero_()
    average = torch.optim.swa_utils.AveragedModel(model)
    average.module.heads[0][0].weight.data[0] = math.inf
    with raises(SpikeError, "settings"):
        check_finite(1, model, average, optimizer, config)


def _spike_at(monkeypatch, *steps):
    """Disturb the gradient in these steps, counted from 1 over all trainings of the test."""
    taken = []

    def take(self, batches, step, call=Stepper.take):
        taken.append(step)
        hook = None
        if len(taken) in steps:
            parameter = next(p for p in self.objective.model.heads.parameters() if p.dim() == 1)
            hook = parameter.register_hook(lambda gradient: gradient * math.nan)
        try:
            return call(self, batches, step)
        finally:
            if hook is not None:
                hook.remove()

    monkeypatch.setattr(Stepper, "take", take)
    return taken


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_spike_in_a_step_that_is_saved_leaves_finite_checkpoints(
    catalog, tmp_path, monkeypatch, clip, raises
):
    _spike_at(monkeypatch, 14)
    config = tiny_config({"training": {"save_steps": 1, "max_grad_norm": clip}})
    with raises(TrainingError, "settings"):
        train(Source(catalog), config, tmp_path / "run")
    for path in checkpoints(tmp_path / "run"):
        assert all(value.isfinite().all() for value in load_file(path).values())
    assert read_state(tmp_path / "run" / LAST)["step"] == 13
    train(Source(catalog), config, tmp_path / "run", mode="resume")
    assert open_run(tmp_path / "run").facts["metrics"]["smape"] < 200


def test_training_returns_once_at_half_the_learning_rate(catalog, tmp_path, monkeypatch, logged):
    config = tiny_config({"training": {"retry_after_spike": True, "max_grad_norm": 1.0}})
    taken = _spike_at(monkeypatch, 14)
    train(Source(catalog), config, tmp_path / "run")
    assert taken == [*range(14), *range(12, 18)]
    assert "Training returns to step 12, once, at half the learning rate" in logged()
    state = read_state(tmp_path / "run" / LAST)
    assert state["rate_factor"] == 0.5
    assert [json.loads(line)["epoch"] for line in (tmp_path / "run" / METRICS).read_text().splitlines()] == [
        1,
        2,
        3,
    ]


def test_a_spike_that_is_found_when_an_epoch_ends_does_not_count_as_the_best_epoch(
    catalog, tmp_path, monkeypatch
):
    def validate(session, interrupted, call=loop.validate):
        first = session.state.rate_factor == 1.0
        if first:
            state = next(state for state in session.optimizer.state.values() if "exp_avg_sq" in state)
            state["exp_avg_sq"].fill_(math.inf)
        result = call(session, interrupted)
        return replace(result, valid_score=1.0) if first else result

    monkeypatch.setattr(loop, "validate", validate)
    config = tiny_config({"training": {"retry_after_spike": True}})
    train(Source(catalog), config, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / METRICS).read_text().splitlines()]
    best = min(lines, key=lambda line: line["valid_smape"])
    assert best["valid_smape"] > 1.0
    assert open_run(tmp_path / "run").facts["metrics"]["smape"] == pytest.approx(
        best["valid_smape"], rel=1e-3
    )


def test_the_progress_bar_goes_back_to_the_checkpoint(catalog, tmp_path, monkeypatch):
    moved = []
    monkeypatch.setattr(loop, "_progress", lambda session: nullcontext(lambda steps, *_: moved.append(steps)))
    _spike_at(monkeypatch, 14)
    config = tiny_config({"training": {"retry_after_spike": True, "max_grad_norm": 1.0}})
    train(Source(catalog), config, tmp_path / "run")
    assert -1 in moved
    assert sum(moved) == 18


def test_a_second_spike_stops_training(catalog, tmp_path, monkeypatch, raises):
    config = tiny_config({"training": {"retry_after_spike": True, "max_grad_norm": 1.0}})
    _spike_at(monkeypatch, 14, 20)
    with raises(SpikeError, "settings"):
        train(Source(catalog), config, tmp_path / "run")


def test_a_run_that_is_stopped_after_a_spike_resumes_at_half_the_learning_rate(
    catalog, tmp_path, monkeypatch
):
    config = tiny_config({"training": {"retry_after_spike": True, "max_grad_norm": 1.0}})
    with monkeypatch.context() as patch:
        _spike_at(patch, 14, 20)  # the second one stops it, but is not repeated
        with pytest.raises(SpikeError):
            train(Source(catalog), config, tmp_path / "run")
    train(Source(catalog), config, tmp_path / "run", mode="resume")
    _spike_at(monkeypatch, 14)
    train(Source(catalog), config, tmp_path / "whole")
    expected = open_run(tmp_path / "whole").model.state_dict()
    assert all(torch.equal(t, expected[n]) for n, t in open_run(tmp_path / "run").model.state_dict().items())


def test_weights_that_are_not_finite_after_the_last_step_of_an_epoch_are_named(
    catalog, tmp_path, monkeypatch, raises
):
    """No step follows that could find them, so the validation does."""

    def disturb(self, step, *arguments, call=Stepper._update_weights):
        call(self, step, *arguments)
        if step == 6:
            next(self.objective.model.heads.parameters()).data.fill_(math.nan)

    monkeypatch.setattr(Stepper, "_update_weights", disturb)
    with raises(SpikeError, "settings"):
        train(Source(catalog), tiny_config(), tmp_path / "run")
