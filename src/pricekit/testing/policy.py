"""The checks of a policy. Imports torch."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from pricekit.config import RunConfig, build_config
from pricekit.core.loader import registry
from pricekit.errors import PricekitError
from pricekit.nets.inference import to_tensors
from pricekit.nets.network import PriceModel
from pricekit.testing.data import batch
from pricekit.testing.models import small_model
from pricekit.testing.runner import Checks, Make, fail, require_methods, shown
from pricekit.training.checkpoint import Parts, load_checkpoint, save_checkpoint

STEPS = 6

WARMUP, TOTAL = 10, 100
SCHEDULES = ((0, 1), (0, TOTAL), (WARMUP, TOTAL), (5, 5), (20, 10))
"""Warmup steps and total steps; a short run may end during warmup."""

PEAK = 1 + 1e-6


def checks() -> Checks:
    """Return the checks; see `pricekit.testing.check_policy`."""
    return {
        "has defaults, optimizer and schedule": _is_made,
        "defaults are a valid configuration": _defaults,
        "every trainable parameter once": _every_parameter,
        "steps lower a convex loss": _lowers,
        "works with and without fused": _fused,
        "schedule is finite, from 0 to 1": partial(_bounded, offset=0),
        "schedule accepts fractional steps": partial(_bounded, offset=0.5),
        "schedule warms up": _warms_up,
        "schedule ends at its minimum": _ends,
        "resuming changes nothing": _resumes,
    }


def _is_made(make: Make) -> None:
    policy = make()
    require_methods(policy, "optimizer", "schedule")
    defaults = getattr(policy, "defaults", None)
    if not isinstance(defaults, Mapping):
        fail(
            f"defaults is {shown(defaults)}",
            "a dict of settings, nested as in the configuration",
            "set defaults to a dict",
        )


def _config(policy: Any) -> RunConfig:
    return build_config([dict(policy.defaults)])


def _optimizer(policy: Any, model: PriceModel, *, fused: bool = False) -> Any:
    return policy.optimizer(model, _config(policy).training, fused=fused)


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
        fail(f"the defaults are invalid: {error}", "a valid configuration", "fix that setting")


def _every_parameter(make: Make) -> None:
    policy, model = make(), small_model()
    model.encoder.norm.requires_grad_(False)
    optimizer = _optimizer(policy, model)
    if not isinstance(optimizer, torch.optim.Optimizer):
        fail(f"optimizer returned {shown(optimizer)}", "a torch.optim.Optimizer", "return one")
    optimized = [id(p) for group in optimizer.param_groups for p in group["params"]]
    times = {n: optimized.count(id(p)) for n, p in model.named_parameters() if p.requires_grad}
    if wrong := {name: count for name, count in times.items() if count != 1}:
        fail(
            f"the optimizer holds parameters this often: {wrong}",
            "every trainable parameter once",
            "pass model.parameters()",
        )
    if any(not math.isfinite(group.get("lr", math.nan)) for group in optimizer.param_groups):
        fail(
            "a parameter group has no finite lr",
            "a finite lr in each group, because the schedule scales it",
            "give each group an 'lr'",
        )


def _softplus(model: PriceModel) -> Tensor:
    """Return the mean of log(1 + exp(-raw)), which is convex if raw is linear and falls with raw."""
    rows = to_tensors(batch(16, 7))
    return torch.nn.functional.softplus(-model.raw(**rows)).mean()


def _lowers(make: Make) -> None:
    policy, model = make(), small_model()
    model.encoder.requires_grad_(False)  # the remaining model is linear
    optimizer = _optimizer(policy, model)
    before = _softplus(model).item()
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        _softplus(model).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    if not (after := _softplus(model).item()) < before:
        fail(
            f"{STEPS} steps without a closure changed a convex loss from {before:.6g} to {after:.6g}",
            "a lower loss",
            "check the sign of the update and the default learning rate",
        )


def _fused(make: Make) -> None:
    for fused in (False, True):
        policy, model = make(), small_model()
        _train(policy, model, _optimizer(policy, model, fused=fused), range(2))
        if not all(parameter.isfinite().all() for parameter in model.parameters()):
            fail(f"with fused={fused}, weights are not finite", "finite weights", "fix the update")


def _train(policy: Any, model: PriceModel, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Take optimizer steps as training does: with scheduled learning rates and without a closure."""
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
    whole, first, second = make(), make(), make()
    _train(whole, model, _optimizer(whole, model), range(STEPS))
    optimizer = _optimizer(first, stopped)
    _train(first, stopped, optimizer, range(STEPS // 2))
    resumed = small_model()
    again = _optimizer(second, resumed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "last.safetensors"
        save_checkpoint(path, Parts(stopped, optimizer), {})
        load_checkpoint(path, Parts(resumed, again))
    _train(second, resumed, again, range(STEPS // 2, STEPS))
    for (name, parameter), expected in zip(resumed.named_parameters(), model.parameters(), strict=True):
        if not torch.equal(parameter, expected):
            fail(
                f"{name} after {STEPS // 2} steps, a checkpoint and {STEPS // 2} more steps differs from {name} after "
                f"{STEPS} steps",
                "bitwise equal parameters",
                "store everything the optimizer remembers in its state, and keep the policy itself stateless",
            )


def _values(policy: Any, warmup: int, total: int, begin: int = 0) -> list[float]:
    return [float(policy.schedule(step, warmup, total)) for step in range(begin, total + 1)]


def _bounded(make: Make, offset: float) -> None:
    """The factor is finite and from 0 to 1 at every step, for any length of warmup and schedule.

    Under a time budget, the schedule gets fractional steps.
    """
    policy = make()
    for warmup, total in SCHEDULES:
        steps = [step + offset for step in range(total if offset else total + 1)]
        factors = [float(policy.schedule(step, warmup, total)) for step in steps]
        for step, factor in zip(steps, factors, strict=True):
            if not (math.isfinite(factor) and 0 <= factor <= PEAK):
                fail(
                    f"at step {step:g} of {total}, with {warmup} warmup steps, the schedule is {factor}",
                    "a factor from 0 to 1, because it scales the peak learning rate",
                    "treat step as a float, do not divide by lengths that may be 0, and clamp to 1",
                )
        if not any(factors):
            fail("the schedule is always 0", "a factor above 0", "start at 1, or rise to 1")


def _warms_up(make: Make) -> None:
    """The warmup starts below the peak."""
    first, *others = _values(make(), WARMUP, TOTAL)
    if not first < max(others):
        fail(
            f"with {WARMUP} warmup steps the schedule starts at {first}, and its maximum is {max(others)}",
            "a lower factor at the start",
            "rise over warmup_steps, as in pricekit.training.optimizers.warmup_cosine",
        )


def _ends(make: Make) -> None:
    """After the warmup, the schedule is lowest at the end."""
    for warmup in (0, WARMUP):
        *before, last = _values(make(), warmup, TOTAL, begin=warmup)
        if not last <= min(before) + 1e-9:
            fail(
                f"the schedule ends at {last}, but is {min(before)} earlier",
                "the lowest factor after the warmup at total_steps",
                "decrease the factor until the end",
            )
