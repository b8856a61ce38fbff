"""The checks of a policy: built-in policies pass, and each check detects a faulty one."""

import math

import pytest
import torch

from pricekit.testing import CheckFailed, check_policy
from pricekit.training import policies
from pricekit.training.policies import Scratch


class Right:
    """AdamW with linear warmup and decay."""

    defaults = {"training": {"epochs": 1}}  # noqa: RUF012

    def optimizer(self, model, training, *, fused):
        return torch.optim.AdamW(model.parameters(), lr=training.learning_rate, fused=fused)

    def schedule(self, step, warmup_steps, total_steps):
        if step < warmup_steps:
            return min(1.0, (step + 1) / warmup_steps)
        return 1 - (step - warmup_steps) / max(1, total_steps - warmup_steps)


def changed(**parts):
    return type("Wrong", (Right,), parts)


def giving(optimizer):
    """Right, with an optimizer of (model, learning rate)."""
    return changed(optimizer=lambda s, model, training, fused: optimizer(model, training.learning_rate))


class NoFused(Right):
    def optimizer(self, model, training, *, fused):
        return torch.optim.Rprop(model.parameters(), lr=training.learning_rate, fused=fused)


class Counts(Right):
    """A schedule that counts its own calls."""

    calls = 0

    def schedule(self, step, warmup_steps, total_steps):
        self.calls += 1
        return 1 / self.calls


class Momentum(torch.optim.Optimizer):
    """Stores its momentum outside of its state."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
        self.momentum = {}

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    kept = self.momentum.setdefault(p, torch.zeros_like(p)).mul_(0.9).add_(p.grad)
                    p.sub_(kept, alpha=group["lr"])


class NeedsClosure(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure) if closure() else None


WRONG = {
    "has defaults, optimizer and schedule": [
        changed(schedule=None),
        changed(defaults=["training"]),
    ],
    "defaults are a valid configuration": [
        changed(defaults={"training": {"epoch": 1}}),
        changed(defaults={"loss": {"name": "focal-smape", "gama": 1}}),
        changed(defaults={"backbone": {"name": "bagg"}}),
    ],
    "every trainable parameter once": [
        giving(lambda m, lr: torch.optim.SGD(m.heads.parameters(), lr)),
        giving(lambda m, lr: list(m.parameters())),
        giving(lambda m, lr: type("N", (Momentum,), {})(m.parameters(), math.nan)),
    ],
    "steps lower a convex loss": [
        giving(lambda m, lr: torch.optim.SGD(m.parameters(), lr, maximize=True)),
        giving(lambda m, lr: NeedsClosure(m.parameters(), lr)),
    ],
    "works with and without fused": [
        NoFused,
        giving(lambda m, lr: torch.optim.SGD(m.parameters(), 1e38)),
    ],
    "schedule is finite, from 0 to 1": [
        changed(schedule=lambda s, step, w, t: 2.0),
        changed(schedule=lambda s, step, w, t: 0.0),
        changed(schedule=lambda s, step, w, t: min(1.0, step / (t - w))),
    ],
    "schedule accepts fractional steps": [
        changed(schedule=lambda s, step, w, t: [1.0] * t and ([1.0] * t)[step]),
        changed(schedule=lambda s, step, w, t: (step + 1) / w if step < w else 1.0),
    ],
    "schedule warms up": [changed(schedule=lambda s, step, w, t: 1.0)],
    "schedule ends at its minimum": [
        changed(schedule=lambda s, step, w, t: 0.5 + 0.5 * math.cos(6.3 * step / t))
    ],
    "resuming changes nothing": [
        Counts,
        giving(lambda m, lr: Momentum(m.parameters(), lr)),
    ],
}


def ultra():
    return policies.Ultra(policies.Ultra.Options())


RIGHT = {
    "quick": policies.Quick,
    "scratch": Scratch,
    "ultra": ultra,
    "fast": policies.Fast,
    "blazing": policies.Blazing,
    "optimized": policies.Optimized,
    "right": Right,
}


@pytest.mark.parametrize(
    "check",
    [pytest.param(c, id=f"{name}: {c}") for name, make in RIGHT.items() for c in check_policy(make)],
)
def test_a_correct_policy_passes(check):
    check()


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, makes in WRONG.items() for make in makes])
def test_a_faulty_policy_fails_its_check(name, make, raises):
    check = next(check for check in check_policy(make) if check.name == name)
    with raises(CheckFailed):
        check()


def test_every_check_has_a_faulty_plugin_that_fails_it():
    assert set(WRONG) == {check.name for check in check_policy(Right)}
