"""NaN and infinity in a loss, gradient, feature, price or in the optimizer's state."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import load_file

from pricekit.config import RunConfig
from pricekit.config.resolve import configure
from pricekit.errors import PricekitError
from pricekit.runs import prepare as preparing
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training.batches import Rows
from pricekit.training.checkpoint import read_state
from pricekit.training.step import Objective, Stepper
from tests.faults.campaign import Case
from tests.faults.damage import SETTINGS
from tests.faults.models import assert_equal_weights, write_table

TRIALS, SHORT = 60, 15
REQUIREMENT = "step and plugin named; never saved"

BACKBONES: dict[str, dict[str, Any]] = {
    "bag": SETTINGS["backbone"],
    "lstm": {"name": "lstm", "vocab_size": 300, "width": 8},
    "transformer": {"name": "transformer", "vocab_size": 300, "width": 8, "layers": 1, "heads": 2},
}
KINDS = ("loss", "gradient", "feature", "price", "optimizer")
STEPS = 6
"""Optimizer steps of the trainings."""


def prepare(folder: Path) -> None:
    """Write the table."""
    write_table(folder / "table.csv", 150)


def trial(case: Case) -> str:
    """Put one value into one step; training stops or returns, and a resumed run ends as if it had not happened."""
    rng, kind = case.random, KINDS[case.number % len(KINDS)]
    value, step = rng.choice([math.nan, math.inf, -math.inf]), rng.randrange(1, STEPS + 1)
    retry = rng.random() < 0.3
    config = _config(case, retry=retry)
    run = case.folder / "run"
    with ExitStack() as stack:
        said = _FAULTS[kind](stack, case, config, value, step)
        if retry and not (kind in ("feature", "price") and math.isinf(value)):
            train(Source(case.shared / "table.csv"), config, run)
            _check_saved(run)
            # An infinite entry may never reach a weight.
            assert read_state(run / "last.safetensors")["rate_factor"] in (0.5, 1.0)
            return f"{kind}: continued at half the rate"
        try:
            train(Source(case.shared / "table.csv"), config, run)
        except PricekitError as error:
            text = str(error)
            assert any(one in text for one in said), (said, text)
            assert "\n" not in text
            if not run.exists():
                return f"{kind}: found before the first step"
            assert any(f"step {number} " in f"{text} ".replace(",", " ") for number in (step, step + 1)), text
            _check_saved(run)
        else:
            _check_saved(run)
            return f"{kind}: without effect"
    train(Source(case.shared / "table.csv"), config, run, mode="resume")
    train(Source(case.shared / "table.csv"), config, case.folder / "whole")
    assert_equal_weights(run / "best.safetensors", case.folder / "whole/best.safetensors")
    return f"{kind}: named, and resumed to equal weights"


def _config(case: Case, *, retry: bool) -> RunConfig:
    rng = case.random
    training = {
        "epochs": 3,
        "batch_size": 64,
        "save_steps": rng.choice([1, 2, None]),
        "max_grad_norm": rng.choice([None, 1.0]),
        "ema_decay": rng.choice([None, 0.9]),
        "retry_after_spike": retry,
        "gradient_accumulation_steps": 1,
    }
    backbone = BACKBONES[rng.choice(list(BACKBONES))]
    return configure(
        [SETTINGS, {"training": {k: v for k, v in training.items() if v is not None}, "backbone": backbone}]
    )


def _check_saved(run: Path) -> None:
    """Assert that no file holds a value that is not finite."""
    for path in run.rglob("*.safetensors"):
        for name, tensor in load_file(path).items():
            assert tensor.isfinite().all(), (path.name, name)


class _Once:
    """Tells whether the step that it counts is the one to disturb, the first time that it comes."""

    def __init__(self, step: int) -> None:
        self.step, self.count = step, 0

    def __call__(self) -> bool:
        self.count += 1
        return self.count == self.step


def _in_loss(stack: ExitStack, case: Case, config: RunConfig, value: float, step: int) -> list[str]:
    due, forward = _Once(step), Objective.forward
    stack.enter_context(
        patch.object(
            Objective, "forward", lambda self, batch: forward(self, batch) * (value if due() else 1.0)
        )
    )
    return [f"'{config.loss.name}'"]


def _in_gradient(stack: ExitStack, case: Case, config: RunConfig, value: float, step: int) -> list[str]:
    due, backward, share = _Once(step), Stepper._backward, case.random.random()

    def disturbed(self: Stepper, *arguments: Any) -> Any:
        loss = backward(self, *arguments)
        if due():
            found = [p for p in self.objective.model.parameters() if p.grad is not None]
            gradient = found[int(share * len(found))].grad
            values = gradient._values() if gradient.is_sparse else gradient
            values.view(-1)[0] = value
        return loss

    stack.enter_context(patch.object(Stepper, "_backward", disturbed))
    return [f"'{config.backbone.name}'", f"'{config.loss.name}'"]


def _in_rows(stack: ExitStack, case: Case, config: RunConfig, value: float, name: str) -> list[str]:
    """Disturb a row of the table's inputs, as a plugin or a damaged cache could: no step is taken."""
    make = preparing.inputs_of

    def disturbed(*arguments: Any) -> Any:
        found = make(*arguments)
        price, features = found.price.copy(), found.inputs.features.copy()
        (price if name == "price" else features).reshape(-1)[7] = value
        return replace(found, price=price, inputs=replace(found.inputs, features=features))

    stack.enter_context(patch.object(preparing, "inputs_of", disturbed))
    return ["has the price"] if name == "price" else ["the feature column '"]


def _in_batch(name: str) -> Callable[..., list[str]]:
    def fault(stack: ExitStack, case: Case, config: RunConfig, value: float, step: int) -> list[str]:
        # Training reads the batches of an epoch ahead, in order.
        due, read = _Once(step), Rows.__getitem__
        if math.isinf(value):  # an infinite feature or price of one batch has a finite loss
            return _in_rows(stack, case, config, value, name)

        def disturbed(self: Rows, rows: Any) -> Any:
            batch = read(self, rows)
            if due():
                batch[name] = batch[name].clone()
                batch[name].view(-1)[0] = value
            return batch

        stack.enter_context(patch.object(Rows, "__getitem__", disturbed))
        return ["the features fast15"] if name == "features" else ["the prices of the training rows"]

    return fault


def _in_optimizer(stack: ExitStack, case: Case, config: RunConfig, value: float, step: int) -> list[str]:
    due, update, share = _Once(step), Stepper._update_weights, case.random.random()

    def disturbed(self: Stepper, *arguments: Any) -> None:
        update(self, *arguments)
        if due():
            states = [
                tensor
                for state in self.optimizer.state.values()
                for key, tensor in state.items()
                if isinstance(tensor, torch.Tensor) and tensor.dim()
            ]
            states[int(share * len(states))].view(-1)[0] = value

    stack.enter_context(patch.object(Stepper, "_update_weights", disturbed))
    return [f"the policy '{config.policy.name}'"]


_FAULTS: dict[str, Callable[..., list[str]]] = {
    "loss": _in_loss,
    "gradient": _in_gradient,
    "feature": _in_batch("features"),
    "price": _in_batch("price"),
    "optimizer": _in_optimizer,
}
