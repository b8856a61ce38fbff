"""The hooks that a plugin may implement, one for each kind of plugin.

A plugin is a module named in the entry-point group `pricekit`. Each hook is called once with a
`register` function. Registering names a lazy target, so nothing heavy is imported until it is used:

    import pricekit

    @pricekit.hookimpl
    def pricekit_register_losses(register):
        register("log-mse", "my_package.losses:LogMse", "mean squared error of the log price")
"""

from typing import Protocol

import pluggy

hookspec = pluggy.HookspecMarker("pricekit")
hookimpl = pluggy.HookimplMarker("pricekit")


class Register(Protocol):
    """What a hook is given: names one plugin of the hook's kind."""

    def __call__(self, name: str, target: str, summary: str) -> None:
        """Register a plugin.

        Args:
            name: how users call it, in lower case with hyphens, e.g. `focal-smape`.
            target: where it is, `package.module:Attribute`; imported at its first use.
            summary: one line for `pricekit plugins list`.
        """


@hookspec
def pricekit_register_features(register: Register) -> None:
    """Register features: see `pricekit.core.contracts.Feature`."""


@hookspec
def pricekit_register_backbones(register: Register) -> None:
    """Register backbones: see `pricekit.core.contracts.Backbone`."""


@hookspec
def pricekit_register_losses(register: Register) -> None:
    """Register losses: see `pricekit.core.contracts.Loss`."""


@hookspec
def pricekit_register_policies(register: Register) -> None:
    """Register policies: see `pricekit.core.contracts.Policy`."""


@hookspec
def pricekit_register_engines(register: Register) -> None:
    """Register engines: see `pricekit.core.contracts.Engine`."""
