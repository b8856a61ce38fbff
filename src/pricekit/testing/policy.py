"""The checks of a policy, on a small model with the backbone of its own defaults. Imports torch."""

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
from pricekit.errors import PricekitError, TrainingError
from pricekit.io.causes import raise_outside_cause
from pricekit.nets.inference import to_tensors
from pricekit.nets.network import PriceModel
from pricekit.testing.data import batch
from pricekit.testing.models import small_encoder, small_model
from pricekit.testing.runner import Checks, Make, fail, require_methods, shown
from pricekit.training.checkpoint import Parts, load_checkpoint, save_checkpoint
from pricekit.training.policies import rate_factor
from pricekit.wording import shorten

STEPS = 6

WARMUP, TOTAL = 10, 100
SCHEDULES = ((0, 1), (0, TOTAL), (WARMUP, TOTAL), (5, 5), (20, 10))
"""Warmup steps and total steps; a short run may end during warmup."""

SPARSE = "for sparse gradients, as of the backbone bag, use pricekit.plugin.RowwiseAdagrad, or choose another backbone"


def checks() -> Checks:
    """Return the checks; see `pricekit.testing.check_policy`."""
    return {
        "has defaults, optimizer and schedule": _is_made,
        "defaults are a valid configuration": _defaults,
        "training leaves the defaults unchanged": _stays,
        "every trainable parameter once": _every_parameter,
        "follows training.learning_rate": _follows,
        "optimizer leaves the model as it is": _leaves_model,
        "steps lower a convex loss": _lowers,
        "works with and without fused and weight decay": _fused,
        "optimizers share no state": _separate,
        "resuming changes nothing": _resumes,
        "schedule is a number from 0 to 1": partial(_bounded, offset=0),
        "schedule accepts fractional steps": partial(_bounded, offset=0.5),
        "schedule depends only on its arguments": _stateless,
        "schedule warms up": _warms_up,
        "schedule ends at its minimum": _ends,
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


def _model(policy: Any) -> PriceModel:
    """Return a new model with the backbone of the policy's defaults."""
    return small_model(encoder=small_encoder(_config(policy)))


def _optimizer(
    policy: Any, model: PriceModel, *, fused: bool = True, settings: Mapping[str, Any] = {}
) -> Any:
    training = _config(policy).training.model_copy(update=dict(settings))
    return policy.optimizer(model, training, fused=fused)


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


def _stays(make: Make) -> None:
    policy = make()
    before = copy.deepcopy(dict(policy.defaults))
    model = _model(policy)
    _train(policy, model, _optimizer(policy, model), range(1))
    for other, who in ((policy, "the policy"), (make(), "a new instance")):
        if dict(other.defaults) != before:
            fail(
                f"the defaults of {who} are other ones after an optimizer was made and has taken a step",
                "the same defaults, because every training starts from them",
                "copy what you change: copy.deepcopy(...)",
            )


def _every_parameter(make: Make) -> None:
    policy = make()
    model = _model(policy)
    list(model.parameters())[-1].requires_grad_(False)
    optimizer = _optimizer(policy, model)
    if not isinstance(optimizer, torch.optim.Optimizer):
        fail(f"optimizer returned {shown(optimizer)}", "a torch.optim.Optimizer", "return one")
    optimized = [id(p) for group in optimizer.param_groups for p in group["params"]]
    times = {n: optimized.count(id(p)) for n, p in model.named_parameters() if p.requires_grad}
    if wrong := {name: count for name, count in times.items() if count != 1}:
        fail(
            f"the optimizer holds parameters this often: {wrong}",
            "every trainable parameter once",
            "pass model.parameters(), or pricekit.plugin.parameter_groups(model, training)",
        )
    if any(not math.isfinite(group.get("lr", math.nan)) for group in optimizer.param_groups):
        fail(
            "a parameter group has no finite lr",
            "a finite lr in each group, because the schedule scales it",
            "give each group an 'lr'",
        )


def _follows(make: Make) -> None:
    policy = make()
    training = _config(policy).training
    rates = []
    for rate in (training.learning_rate, 2 * training.learning_rate):
        settings = training.model_copy(update={"learning_rate": rate})
        groups = policy.optimizer(_model(policy), settings, fused=True).param_groups
        rates.append([group["lr"] for group in groups])
    if rates[0] == rates[1]:
        fail(
            f"the learning rates of the groups are {rates[0]}, whatever training.learning_rate is",
            "rates that follow the setting, which users and searches change",
            "pass lr=training.learning_rate, or pricekit.plugin.parameter_groups(model, training)",
        )


def _leaves_model(make: Make) -> None:
    policy = make()
    model = _model(policy)
    before = copy.deepcopy(model)
    _optimizer(policy, model)
    trained = [[p.requires_grad for p in each.parameters()] for each in (model, before)]
    if trained[0] != trained[1] or not _equal(model, before):
        fail(
            "optimizer changes weights of the model, or which of them are trained",
            "no change: a resumed training calls it, too",
            "set initial weights in the backbone",
        )


def _equal(model: PriceModel, other: PriceModel) -> bool:
    states = zip(model.state_dict().items(), other.state_dict().values(), strict=True)
    return all(torch.equal(value, same) for (_, value), same in states)


def _softplus(model: PriceModel) -> Tensor:
    """Return the mean of log(1 + exp(-raw)), which is convex if raw is linear and falls with raw."""
    rows = to_tensors(batch(16, 7))
    return torch.nn.functional.softplus(-model.raw(**rows)).mean()


def _lowers(make: Make) -> None:
    policy = make()
    model = _model(policy).eval()  # without dropout
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
    for fused, decay in ((False, 0.0), (True, 0.0), (True, 0.01)):
        policy = make()
        model = _model(policy)
        try:
            optimizer = _optimizer(policy, model, fused=fused, settings={"weight_decay": decay})
            _train(policy, model, optimizer, range(2))
        except PricekitError:
            raise
        except Exception as error:
            raise_outside_cause(error)
            fail(
                f"with fused={fused} and training.weight_decay={decay}, a step on "
                f"the backbone '{_config(policy).backbone.name}' of its defaults raised "
                f"{type(error).__name__}: {shorten(str(error), 300)}",
                "no error",
                f"use fused only where the optimizer has it; {SPARSE}",
            )
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
        torch.manual_seed(step)  # the same dropout in each training
        rows = to_tensors(batch(4 + step, 7))
        model.training_loss(**rows, price=torch.linspace(1, 50, 4 + step)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _separate(make: Make) -> None:
    policy = make()
    new = _model(policy)
    first, *others = (copy.deepcopy(new) for _ in range(3))
    _train(policy, first, _optimizer(policy, first), range(STEPS))
    for model, other in zip(others, (policy, make()), strict=True):
        _train(other, model, _optimizer(other, model), range(STEPS))
        if not _equal(model, first):
            fail(
                f"{STEPS} steps of a second optimizer lead to other weights than those of the first one, on a copy of "
                "the model",
                "the same weights: several trainings of a process are independent",
                "return a new optimizer, whose state no other one has, and keep no state in the policy",
            )


def _resumes(make: Make) -> None:
    whole, first, second = make(), make(), make()
    model = _model(whole)
    stopped = copy.deepcopy(model)
    _train(whole, model, _optimizer(whole, model), range(STEPS))
    optimizer = _optimizer(first, stopped)
    _train(first, stopped, optimizer, range(STEPS // 2))
    resumed = _model(second)
    again = _optimizer(second, resumed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "last.safetensors"
        try:
            save_checkpoint(path, Parts(stopped, optimizer), {})
        except (TypeError, ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("; expected")[0].partition(", this")[0]
            fail(
                f"a checkpoint cannot store the optimizer: {reason}",
                "dense tensors, numbers and strings in its state",
                f"give each parameter dense tensors of its own; {SPARSE}",
            )
        try:
            load_checkpoint(path, Parts(resumed, again))
        except TrainingError as error:
            fail(
                f"a new optimizer cannot load the state of another one: {error.__cause__!r}",
                "no error",
                "give both the same groups and names",
            )
    _train(second, resumed, again, range(STEPS // 2, STEPS))
    for (name, parameter), expected in zip(resumed.named_parameters(), model.parameters(), strict=True):
        if not torch.equal(parameter, expected):
            fail(
                f"{name} after {STEPS // 2} steps, a checkpoint and {STEPS // 2} more steps differs from {name} after "
                f"{STEPS} steps",
                "bitwise equal parameters",
                "store everything the optimizer remembers in its state, and keep the policy itself stateless",
            )


def _factor(policy: Any, step: float, warmup: int, total: int) -> float:
    try:
        return rate_factor(policy, step, warmup, total)
    except ValueError as error:
        problem, _, expected = str(error).partition("; expected ")
        fail(
            problem,
            expected,
            "treat step as a float, return a Python float, do not divide by lengths that may be 0, and clamp to 1",
        )


def _values(policy: Any, warmup: int, total: int, begin: int = 0) -> list[float]:
    return [_factor(policy, step, warmup, total) for step in range(begin, total + 1)]


def _bounded(make: Make, offset: float) -> None:
    """The factor is from 0 to 1 at every step, for any length of warmup and schedule.

    Under a time budget, the schedule gets fractional steps.
    """
    policy = make()
    for warmup, total in SCHEDULES:
        steps = [step + offset for step in range(total if offset else total + 1)]
        factors = [_factor(policy, step, warmup, total) for step in steps]
        if not any(factors):
            fail("the schedule is always 0", "a factor above 0", "start at 1, or rise to 1")


def _stateless(make: Make) -> None:
    """The factors are the same in any order, and from any instance: a resumed training begins in the middle."""
    policy, other, steps = make(), make(), range(TOTAL + 1)
    onward = [_factor(policy, step, WARMUP, TOTAL) for step in steps]
    for again in (policy, other):
        back = [_factor(again, step, WARMUP, TOTAL) for step in reversed(steps)][::-1]
        if back != onward:
            step = next(step for step in steps if back[step] != onward[step])
            fail(
                f"at step {step} of {TOTAL} the schedule is first {onward[step]}, and later {back[step]}",
                "the same factor for the same arguments: a resumed training begins in the middle",
                "compute it from step, warmup_steps and total_steps alone, and store nothing",
            )


def _warms_up(make: Make) -> None:
    """The factor rises during the warmup, not only after it."""
    factors = _values(make(), WARMUP, TOTAL)
    first, half, peak = factors[0], factors[WARMUP // 2], max(factors)
    if not (first < peak and first < half):
        fail(
            f"with {WARMUP} warmup steps the schedule starts at {first}, is {half} in the middle of them, and its "
            f"maximum is {peak}",
            "a factor that rises from a lower one at the start",
            "rise over warmup_steps, as in pricekit.plugin.warmup_cosine, and divide by / and not by //",
        )


def _ends(make: Make) -> None:
    """After the warmup, the schedule is lowest at the end, and near it at the last step."""
    for warmup in (0, WARMUP):
        *before, last = _values(make(), warmup, TOTAL, begin=warmup)
        if not last <= min(before) + 1e-9:
            fail(
                f"the schedule ends at {last}, but is {min(before)} earlier",
                "the lowest factor after the warmup at total_steps",
                "decrease the factor until the end",
            )
        if last < max(before) <= before[-1]:
            fail(
                f"the schedule is {before[-1]} at the last step, {TOTAL - 1}, and {last} only after it",
                "a factor that decreases before the training ends",
                "divide by / and not by //",
            )
