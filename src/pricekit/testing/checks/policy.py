"""The checks of a policy; this module imports torch."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from pricekit.config import RunConfig, TrainingConfig, build_config
from pricekit.core.loader import registry
from pricekit.errors import PricekitError
from pricekit.model.inference import to_tensors
from pricekit.model.network import PriceModel
from pricekit.testing.data import batch
from pricekit.testing.models import seeded, small_model
from pricekit.testing.runner import Check, Make, fail, named, require_methods, shown
from pricekit.training.checkpoint import load_checkpoint, save_checkpoint

STEPS = 6

WARMUP, TOTAL = 10, 100
SCHEDULES = ((0, 1), (0, TOTAL), (WARMUP, TOTAL), (5, 5), (20, 10))
"""Steps of warmup and in all; a short run may end inside its warmup."""

PEAK = 1 + 1e-6


def checks(make: Make) -> list[Check]:
    """Return the checks; see `pricekit.testing.check_policy`."""
    found = {
        "is made, with defaults, optimizer and schedule": _is_made,
        "defaults are a valid configuration": _defaults,
        "every trainable parameter once": _every_parameter,
        "steps lower a convex loss": _lowers,
        "works fused and not": _fused,
        "schedule is finite, from 0 to 1": _bounded,
        "schedule takes parts of a step": _parts,
        "schedule warms up": _warms_up,
        "schedule ends lowest": _ends,
        "resuming equals no stop": _resumes,
    }
    return named(seeded(found), make)


def _is_made(make: Make) -> None:
    policy = make()
    require_methods(policy, "optimizer", "schedule")
    if not isinstance(getattr(policy, "defaults", None), Mapping):
        found = shown(getattr(policy, "defaults", None))
        fail(f"defaults is {found}", "a part of the configuration as nested tables", "write a dict")


def _config(policy: Any) -> RunConfig:
    return build_config([dict(policy.defaults)])


def _training(policy: Any) -> TrainingConfig:
    return _config(policy).training


def _defaults(make: Make) -> None:
    policy = make()
    try:
        config = _config(policy)
        config.to_toml()
        for kind in ("backbone", "loss"):
            choice = getattr(config, kind)
            registry().resolve(kind, choice.name, choice.options)
        for name in config.features:
            registry().resolve("feature", name, config.feature_options.get(name, {}))
    except PricekitError as error:
        fail(f"the defaults are wrong: {error}", "a configuration that runs", "correct that setting")


def _every_parameter(make: Make) -> None:
    policy, model = make(), small_model()
    model.encoder.norm.requires_grad_(False)
    optimizer = policy.optimizer(model, _training(policy), fused=False)
    if not isinstance(optimizer, torch.optim.Optimizer):
        fail(f"optimizer returned {shown(optimizer)}", "a torch.optim.Optimizer", "return one")
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    times = {n: held.count(id(p)) for n, p in model.named_parameters() if p.requires_grad}
    if wrong := {name: count for name, count in times.items() if count != 1}:
        fail(
            f"the optimizer holds {wrong} times", "every trainable parameter once", "pass model.parameters()"
        )
    if any(not math.isfinite(group.get("lr", math.nan)) for group in optimizer.param_groups):
        fail(
            "a group has no lr", "a finite one in each, which the schedule scales", "give each group an 'lr'"
        )


def _softplus(model: PriceModel) -> Tensor:
    """Return the mean of log(1 + exp(-raw)): convex where raw is linear, and lower for every higher raw."""
    rows = to_tensors(batch(16, 7))
    return torch.nn.functional.softplus(-model.raw(**rows)).mean()


def _lowers(make: Make) -> None:
    policy, model = make(), small_model()
    model.encoder.requires_grad_(False)  # what is left is linear
    optimizer = policy.optimizer(model, _training(policy), fused=False)
    before = _softplus(model).item()
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        _softplus(model).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    if not (after := _softplus(model).item()) < before:
        fail(
            f"{STEPS} steps without a closure took a convex loss from {before:.6g} to {after:.6g}",
            "a lower one",
            "look at the sign of the update, and at the learning rate of the defaults",
        )


def _fused(make: Make) -> None:
    for fused in (False, True):
        policy, model = make(), small_model()
        _train(policy, model, policy.optimizer(model, _training(policy), fused=fused), range(2))
        if not all(parameter.isfinite().all() for parameter in model.parameters()):
            fail(f"with fused={fused} weights are not finite", "finite ones", "correct the update")


def _train(policy: Any, model: PriceModel, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Take optimizer steps as training does: rates by the schedule, no closure."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for step in steps:
        factor = policy.schedule(step, 2, STEPS)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["lr"] = rate * factor
        optimizer.zero_grad(set_to_none=True)
        rows = to_tensors(batch(4 + step, 7))
        model.training_loss(**rows, price=torch.linspace(1, 50, 4 + step)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _resumes(make: Make) -> None:
    model = small_model()
    stopped = copy.deepcopy(model)
    training = _training(make())
    whole, first, second = make(), make(), make()
    _train(whole, model, whole.optimizer(model, training, fused=False), range(STEPS))
    optimizer = first.optimizer(stopped, training, fused=False)
    _train(first, stopped, optimizer, range(STEPS // 2))
    resumed = small_model()
    again = second.optimizer(resumed, training, fused=False)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "last.safetensors"
        save_checkpoint(path, stopped, optimizer, {})
        load_checkpoint(path, resumed, again)
    _train(second, resumed, again, range(STEPS // 2, STEPS))
    for (name, found), expected in zip(resumed.named_parameters(), model.parameters(), strict=True):
        if not torch.equal(found, expected):
            fail(
                f"after {STEPS // 2} steps, a checkpoint and {STEPS // 2} more {name} is another than after {STEPS}",
                "the same to the bit",
                "keep what the optimizer remembers in its state, and nothing that changes in the policy itself",
            )


def _values(policy: Any, warmup: int, total: int, begin: int = 0) -> list[float]:
    return [float(policy.schedule(step, warmup, total)) for step in range(begin, total + 1)]


def _require_factor(value: float, step: float, warmup: int, total: int, cure: str) -> None:
    if not (math.isfinite(value) and 0 <= value <= PEAK):
        fail(
            f"at step {step:g} of {total}, {warmup} of them warmup, the schedule is {value}",
            "a factor from 0 to 1, because it scales the peak learning rate",
            cure,
        )


def _bounded(make: Make) -> None:
    """At every step, however long warmup and schedule are."""
    for warmup, total in SCHEDULES:
        found = _values(make(), warmup, total)
        for step, value in enumerate(found):
            _require_factor(value, step, warmup, total, "divide by no length that may be 0, and cut at 1")
        if not any(found):
            fail("the schedule is nothing but 0", "a factor above 0", "begin at 1, or rise to it")


def _parts(make: Make) -> None:
    """Under a time budget the schedule moves by parts of a step."""
    policy = make()
    for warmup, total in SCHEDULES:
        for step in range(total):
            value = policy.schedule(step + 0.5, warmup, total)
            _require_factor(value, step + 0.5, warmup, total, "take step as a float, and cut at 1")


def _warms_up(make: Make) -> None:
    """The warmup begins below the peak."""
    first, *others = _values(make(), WARMUP, TOTAL)
    if not first < max(others):
        fail(
            f"with {WARMUP} steps of warmup the schedule begins at {first}, its highest is {max(others)}",
            "a lower one at the beginning",
            "rise over warmup_steps, as pricekit.optim.adamw.warmup_cosine does",
        )


def _ends(make: Make) -> None:
    """The end is the lowest after the warmup."""
    for warmup in (0, WARMUP):
        *before, last = _values(make(), warmup, TOTAL, begin=warmup)
        if not last <= min(before) + 1e-9:
            fail(
                f"the schedule ends at {last}, after {min(before)} before",
                "its lowest after the warmup at total_steps",
                "come down until the end",
            )
