"""Conformance checks for each plugin kind, run by pytest or by `pricekit plugins check`.

    import pytest
    from my_package import Length
    from pricekit.testing import check_feature

    @pytest.mark.parametrize("check", check_feature(Length), ids=str)
    def test_length(check):
        check()

A class is created with its default options. Pass a function for others:
`check_loss(lambda: Pinball(Pinball.Options(quantile=0.5)))`.
Choose small sizes to keep the checks fast; they find the same errors.

Checks are independent: each creates a new plugin, seeds the random numbers and leaves nothing behind. Creating the
list runs no code of the plugin. A failing check raises CheckFailed with the cause, what was expected and the fix,
even if the plugin itself raises an error.

Importing this package does not import torch. The checks of backbones, losses, policies and engines need torch (those
of engines, to create the graph): pip install 'pricekit[train]'.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pricekit.core.registry import KINDS, completed, options_model
from pricekit.errors import PluginError
from pricekit.testing.runner import ByHand, Check, CheckFailed, Make, named

if TYPE_CHECKING:
    from pricekit.table import Table

__all__ = [
    "Check",
    "CheckFailed",
    "check_backbone",
    "check_engine",
    "check_feature",
    "check_kernel",
    "check_loss",
    "check_policy",
    "check_source",
    "checks_of",
]


KINDS_OF_ROWS = ("feature", "backbone", "loss")
"""The kinds of plugins whose checks take a table."""


def check_feature(make: Make, table: Table | None = None) -> list[Check]:
    """Return the checks of a feature: JSON state, float32 output, batch independence, no access to prices, no torch.

    Args:
        make: the plugin's class, or a function that creates it.
        table: rows on which it is also checked, with the columns that it reads; by default generated ones, with
            invented values in its `columns`.

    Example:
        >>> from pricekit.features.catalog import Fast15
        >>> check = check_feature(Fast15)[0]
        >>> str(check)
        'has transform'
        >>> check()
    """
    return _checks("feature", make, table=table)


def check_backbone(make: Make, table: Table | None = None) -> list[Check]:
    """Return the checks of a backbone: tokenizer, every token, lengths, padding, gradients, reopening, ONNX.

    Args:
        make: the plugin's class, or a function that creates it. Choose small sizes, because each check builds
            a new encoder.
        table: rows with texts on which it is checked; by default generated ones.

    Raises:
        PluginError: torch is not installed.

    Example:
        >>> from pricekit.nets.bag import Bag
        >>> check = check_backbone(lambda: Bag(Bag.Options(vocab_size=300, buckets=64, width=4)))[0]
        >>> check()
    """
    return _checks("backbone", make, table=table)


def check_loss(make: Make, by_hand: ByHand | None = None, table: Table | None = None) -> list[Check]:
    """Return the checks of a loss: terms, gradients, finite values, minimum at the true price, its aim, link, ONNX.

    Args:
        make: the plugin's class, or a function that creates it.
        by_hand: prices to fit on, raw outputs and their true prices, both (B,), and the expected loss, which you
            derived by hand. It adds a check in float64.
        table: rows with prices on which it is fitted; by default generated ones.

    Raises:
        PluginError: torch is not installed.

    Example:
        >>> from pricekit import plugin
        >>> class LogMse(plugin.LogPrice):
        ...     def terms(self, raw, price):
        ...         return (self.log_price(raw) - price.log()).square()
        >>> check_loss(LogMse)[0]()
    """
    return _checks("loss", make, by_hand=by_hand, table=table)


def check_policy(make: Make) -> list[Check]:
    """Return the checks of a policy: defaults, optimizer, schedule, resuming.

    They train a small model with the backbone of the policy's defaults, or with a dense encoder instead of one that
    starts with pretrained weights.

    Args:
        make: the plugin's class, or a function that creates it.

    Raises:
        PluginError: torch is not installed.

    Example:
        >>> from pricekit import plugin
        >>> class Patient(plugin.Policy):
        ...     defaults = {"training": {"epochs": 12, "patience": 6}}
        >>> check_policy(Patient)[0]()
    """
    return _checks("policy", make)


def check_engine(make: Make) -> list[Check]:
    """Return the checks of an engine: prices equal those of ONNX Runtime on the CPU, threads, no torch.

    Checks that need a missing library or device fail and name it.

    Args:
        make: the plugin's class, or a function that creates it.

    Raises:
        PluginError: torch is not installed.

    Example:
        >>> from pricekit import plugin
        >>> class OneThread(plugin.Engine):
        ...     def load(self, graph):
        ...         import onnxruntime
        ...         session = onnxruntime.InferenceSession(graph.model)
        ...         return lambda batch: session.run(["price"], dict(batch))[0]
        >>> check_engine(OneThread)[0]()
    """
    return _checks("engine", make)


def check_kernel(make: Make) -> list[Check]:
    """Return the checks of a kernel: each function has the results of Python on invented texts, terms and trees.

    Args:
        make: the kernel's class, or a function that creates it.

    Example:
        >>> from pricekit import plugin
        >>> class Nothing(plugin.Kernel):
        ...     version = plugin.KERNEL
        >>> str(check_kernel(Nothing)[0])
        'has all functions and the version'
    """
    return _checks("kernel", make)


def check_source(make: Make) -> list[Check]:
    """Return the checks of a source: rows that it writes are read again, each once, also after repetitions.

    They use the table that `Source.scratch` names.

    Args:
        make: the source's class, or a function that creates it.

    Example:
        >>> from pricekit import plugin
        >>> class Shop(plugin.Source):
        ...     def read(self, address, columns=None, limit=None):
        ...         raise NotImplementedError
        >>> check_source(Shop)[0]()
    """
    return _checks("source", make)


def checks_of(kind: str, make: Make, table: Table | None = None) -> list[Check]:
    """Return the checks of a plugin kind: feature, backbone, loss, policy, engine, kernel or source.

    Args:
        kind: the kind of the plugin.
        make: the plugin's class, or a function that creates it.
        table: rows on which features, backbones and losses are checked; by default generated ones.

    Raises:
        PluginError: the kind is unknown, or torch is not installed.

    Example:
        >>> from pricekit.features.catalog import Fast15
        >>> len(checks_of("feature", Fast15)) == len(check_feature(Fast15))
        True
    """
    if kind not in KINDS:
        raise PluginError(f"unknown plugin kind '{kind}'; expected one of {', '.join(KINDS)}")
    return _checks(kind, make, **({"table": table} if kind in KINDS_OF_ROWS else {}))


def _checks(kind: str, make: Make, **arguments: Any) -> list[Check]:
    try:
        module = import_module(f"pricekit.testing.{kind}")
    except ModuleNotFoundError as error:
        raise PluginError(
            f"the checks of a {kind} need {error.name}, which is not installed: pip install 'pricekit[train]'"
        ) from error
    return named(module.checks(**arguments), lambda: completed(kind, _created(make)))


def _created(make: Make) -> Any:
    options = options_model(make) if isinstance(make, type) else None
    return make() if options is None else make(options())  # type: ignore[call-arg]
