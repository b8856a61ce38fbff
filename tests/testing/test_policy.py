"""The checks of a policy: built-in policies pass, and each check detects a faulty one."""

import math

import pytest
import torch

from pricekit.testing import CheckFailed, check_policy
from pricekit.training import policies
from pricekit.training.policies import Scratch


class Right:
    """AdamW with linear warmup and decay."""

    defaults = {"backbone": {"name": "lstm"}, "training": {"epochs": 1}}  # noqa: RUF012

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


def on_bag(optimizer):
    """Right, with the backbone bag, whose embeddings have sparse gradients."""
    return changed(
        defaults={"backbone": {"name": "bag"}},
        optimizer=lambda s, model, training, fused: optimizer(model, training.learning_rate, fused),
    )


def scheduled(schedule):
    """Right, with a schedule of (step, warmup, total)."""
    return changed(schedule=lambda s, step, warmup, total: schedule(step, warmup, total))


class ChangesDefaults(Right):
    """Changes the defaults of its class."""

    defaults = {"backbone": {"name": "lstm"}, "training": {"epochs": 1}}  # noqa: RUF012

    def optimizer(self, model, training, *, fused):
        self.defaults["training"]["epochs"] += 1
        return super().optimizer(model, training, fused=fused)


class Zeros(Right):
    """Starts the head at zero, also that of a resumed training."""

    def optimizer(self, model, training, *, fused):
        torch.nn.init.zeros_(model.heads[0][-1].weight)
        return super().optimizer(model, training, fused=fused)


class Freezes(Right):
    def optimizer(self, model, training, *, fused):
        model.encoder.requires_grad_(False)
        return super().optimizer(model, training, fused=fused)


class Shares(torch.optim.Adagrad):
    """Has the state of every other one."""

    moments = []  # noqa: RUF012

    @torch.no_grad()
    def step(self, closure=None):
        self.moments.append(1)
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"] / len(self.moments))


class Alike(Right):
    """Returns the same optimizer each time."""

    made = []  # noqa: RUF012

    def optimizer(self, model, training, *, fused):
        self.made[:] = self.made or [super().optimizer(model, training, fused=fused)]
        return self.made[0]


class OneStateForAll(torch.optim.SGD):
    """A state that safetensors refuses: two parameters have the same tensor."""

    def step(self, closure=None):
        shared = torch.zeros(3)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["shared"] = shared


class NestedState(torch.optim.SGD):
    def step(self, closure=None):
        super().step()
        for p in self.param_groups[0]["params"]:
            self.state[p]["moments"] = {"first": torch.zeros(1)}


class Forgets(torch.optim.Adagrad):
    def load_state_dict(self, state):
        raise KeyError("sum")


class Adaptive(Right):
    """A schedule that lowers its peak each time that it is called with step 0."""

    peaks = []  # noqa: RUF012

    def schedule(self, step, warmup_steps, total_steps):
        if step == 0:
            self.peaks.append(1)
        return super().schedule(step, warmup_steps, total_steps) / len(self.peaks)


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
        changed(defaults={"training": {"epochs": "many"}}),
        changed(defaults={"features": ["optimised22"]}),
        changed(defaults={"loss": {"name": "focal-smape", "gama": 1}}),
        changed(defaults={"backbone": {"name": "bagg"}}),
    ],
    "training leaves the defaults unchanged": [ChangesDefaults],
    "every trainable parameter once": [
        giving(lambda m, lr: torch.optim.SGD(m.heads.parameters(), lr)),
        giving(lambda m, lr: torch.optim.SGD([*m.parameters(), next(m.parameters())], lr)),
        giving(lambda m, lr: torch.optim.SGD([p for p in m.parameters() if p.ndim > 1], lr)),
        giving(lambda m, lr: list(m.parameters())),
        giving(lambda m, lr: type("N", (Momentum,), {})(m.parameters(), math.nan)),
    ],
    "follows training.learning_rate": [giving(lambda m, lr: torch.optim.SGD(m.parameters(), 1e-3))],
    "optimizer leaves the model as it is": [Zeros, Freezes],
    "steps lower a convex loss": [
        giving(lambda m, lr: torch.optim.SGD(m.parameters(), lr, maximize=True)),
        giving(lambda m, lr: NeedsClosure(m.parameters(), lr)),
    ],
    "works with and without fused and weight decay": [
        NoFused,
        giving(lambda m, lr: torch.optim.SGD(m.parameters(), 1e38, weight_decay=1e9)),
        giving(lambda m, lr: torch.optim.SparseAdam(m.parameters(), lr)),
        on_bag(lambda m, lr, fused: torch.optim.AdamW(m.parameters(), lr)),
        on_bag(lambda m, lr, fused: torch.optim.SGD(m.parameters(), lr, fused=fused)),
        on_bag(lambda m, lr, fused: torch.optim.SparseAdam(m.parameters(), lr)),
    ],
    "optimizers share no state": [
        giving(lambda m, lr: Shares(m.parameters(), lr)),
        Alike,
    ],
    "resuming changes nothing": [
        Counts,
        giving(lambda m, lr: Momentum(m.parameters(), lr)),
        giving(lambda m, lr: OneStateForAll(m.parameters(), lr)),
        giving(lambda m, lr: NestedState(m.parameters(), lr)),
        giving(lambda m, lr: Forgets(m.parameters(), lr)),
        on_bag(lambda m, lr, fused: torch.optim.SGD(m.parameters(), lr, momentum=0.9)),
    ],
    "schedule is a number from 0 to 1": [
        scheduled(lambda step, w, t: 2.0),
        scheduled(lambda step, w, t: 0.0),
        scheduled(lambda step, w, t: None),
        scheduled(lambda step, w, t: math.nan),
        scheduled(lambda step, w, t: torch.tensor(0.5)),
        scheduled(lambda step, w, t: min(1.0, step / (t - w))),
    ],
    "schedule accepts fractional steps": [
        scheduled(lambda step, w, t: [1.0] * t and ([1.0] * t)[step]),
        scheduled(lambda step, w, t: (step + 1) / w if step < w else 1.0),
    ],
    "schedule depends only on its arguments": [Counts, Adaptive],
    "schedule warms up": [
        scheduled(lambda step, w, t: 1.0),
        scheduled(lambda step, w, t: 1 - step / t),
        scheduled(lambda step, w, t: step // w if step < w else 1.0),
    ],
    "schedule ends at its minimum": [
        scheduled(lambda step, w, t: 0.5 + 0.5 * math.cos(6.3 * step / t)),
        scheduled(lambda step, w, t: 1 - step // t),
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
    "best": lambda: policies.Best(policies.Best.Options()),
    "bag and Adagrad": on_bag(lambda m, lr, fused: torch.optim.Adagrad(m.parameters(), lr)),
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
