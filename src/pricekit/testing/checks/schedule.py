"""The checks of a policy's schedule."""

from __future__ import annotations

import math
from typing import Any

from pricekit.testing.check import Make, fail

WARMUP, TOTAL = 10, 100
SCHEDULES = ((0, 1), (0, TOTAL), (WARMUP, TOTAL), (5, 5), (20, 10))
"""Steps of warmup and in all; a short run may end inside its warmup."""

PEAK = 1 + 1e-6


def _values(policy: Any, warmup: int, total: int, begin: int = 0) -> list[float]:
    return [float(policy.schedule(step, warmup, total)) for step in range(begin, total + 1)]


def _require_factor(value: float, step: float, warmup: int, total: int, cure: str) -> None:
    if not (math.isfinite(value) and 0 <= value <= PEAK):
        fail(
            f"at step {step:g} of {total}, {warmup} of them warmup, the schedule is {value}",
            "a factor from 0 to 1, because it scales the peak learning rate",
            cure,
        )


def bounded(make: Make) -> None:
    """At every step, however long warmup and schedule are."""
    for warmup, total in SCHEDULES:
        found = _values(make(), warmup, total)
        for step, value in enumerate(found):
            _require_factor(value, step, warmup, total, "divide by no length that may be 0, and cut at 1")
        if not any(found):
            fail("the schedule is nothing but 0", "a factor above 0", "begin at 1, or rise to it")


def parts(make: Make) -> None:
    """Under a time budget the schedule moves by parts of a step."""
    policy = make()
    for warmup, total in SCHEDULES:
        for step in range(total):
            value = policy.schedule(step + 0.5, warmup, total)
            _require_factor(value, step + 0.5, warmup, total, "take step as a float, and cut at 1")


def warms_up(make: Make) -> None:
    """The warmup begins below the peak."""
    first, *others = _values(make(), WARMUP, TOTAL)
    if not first < max(others):
        fail(
            f"with {WARMUP} steps of warmup the schedule begins at {first}, its highest is {max(others)}",
            "a lower one at the beginning",
            "rise over warmup_steps, as pricekit.optim.adamw.warmup_cosine does",
        )


def ends(make: Make) -> None:
    """The end is the lowest after the warmup."""
    for warmup in (0, WARMUP):
        *before, last = _values(make(), warmup, TOTAL, begin=warmup)
        if not last <= min(before) + 1e-9:
            fail(
                f"the schedule ends at {last}, after {min(before)} before",
                "its lowest after the warmup at total_steps",
                "come down until the end",
            )
