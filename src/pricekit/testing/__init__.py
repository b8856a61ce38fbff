"""Prove a plugin right: named checks for each kind, run by pytest or by `pricekit plugins check`.

    import pytest
    from my_package import Length
    from pricekit.testing import check_feature

    @pytest.mark.parametrize("check", check_feature(Length), ids=str)
    def test_length(check):
        check()

A plugin with options is given as what makes it: `check_loss(lambda: Pinball(Pinball.Options(quantile=0.5)))`.
Small options make quick checks: sizes of a few numbers break what sizes of hundreds break.

Each check stands alone: it makes the plugin anew, draws the same random numbers each time, and leaves nothing
behind. Making the list runs nothing of the plugin. A check that fails raises CheckFailed, which says what was
found, what was expected and what to do; so does one in which the plugin raises.

Importing this imports no torch. The checks of backbones, losses and policies need it, and those of engines, which
are given a graph that torch makes: pip install 'pricekit[train]'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType

from pricekit.core.registry import KINDS
from pricekit.errors import PluginError
from pricekit.testing.runner import ByHand, Check, CheckFailed, Make

__all__ = [
    "Check",
    "CheckFailed",
    "check_backbone",
    "check_engine",
    "check_feature",
    "check_loss",
    "check_policy",
    "checks_of",
]


def check_feature(make: Make, columns: Mapping[str, Sequence[object]] | None = None) -> list[Check]:
    """Return the checks of a feature: JSON state, float32, batches, prices it must not see, no torch.

    Args:
        make: makes the plugin.
        columns: values of the table's further columns, for a feature that reads `table.frame`; they are repeated
            down the rows. The columns of a CSV file are text: `{"weight": ["12.5", ""]}`.
    """
    return list(_module("feature").checks(make, columns))


def check_backbone(make: Make) -> list[Check]:
    """Return the checks of a backbone: tokenizer, shapes, padding, gradients, reopening, ONNX.

    Args:
        make: makes the plugin, with small options where it has them: each check builds a new encoder.

    Raises:
        PluginError: torch is not installed.
    """
    return list(_module("backbone").checks(make))


def check_loss(make: Make, by_hand: ByHand | None = None) -> list[Check]:
    """Return the checks of a loss: gradients, finite values, the least at the truth, its link, ONNX.

    Args:
        make: makes the plugin.
        by_hand: prices to fit on, raw outputs and their true prices, both (B,), and the loss that you
            derived from them on paper: one more check, in float64.

    Raises:
        PluginError: torch is not installed.
    """
    return list(_module("loss").checks(make, by_hand))


def check_policy(make: Make) -> list[Check]:
    """Return the checks of a policy: defaults, optimizer, schedule, resuming.

    Args:
        make: makes the plugin.

    Raises:
        PluginError: torch is not installed.
    """
    return list(_module("policy").checks(make))


def check_engine(make: Make) -> list[Check]:
    """Return the checks of an engine: prices as ONNX Runtime's on the CPU, threads, no torch.

    Where a library or a device is missing, the checks that need it fail and say so.

    Args:
        make: makes the plugin.
    """
    return list(_module("engine").checks(make))


def checks_of(kind: str, make: Make) -> list[Check]:
    """Return the checks of a plugin of a kind: feature, backbone, loss, policy or engine.

    Raises:
        PluginError: there is no such kind, or torch is not installed.
    """
    if kind not in KINDS:
        raise PluginError(f"there is no kind of plugin '{kind}'; the kinds are {', '.join(KINDS)}")
    return list(_module(kind).checks(make))


def _module(kind: str) -> ModuleType:
    try:
        return import_module(f"pricekit.testing.checks.{kind}")
    except ModuleNotFoundError as error:
        raise PluginError(
            f"the checks of a {kind} need {error.name}, which is not installed: pip install 'pricekit[train]'"
        ) from error
