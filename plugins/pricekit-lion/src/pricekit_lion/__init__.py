"""Lion for pricekit: a policy with the Lion optimizer."""

from __future__ import annotations

from pricekit.plugin import Register, hookimpl

pricekit_api = 1


@hookimpl
def pricekit_register_policies(register: Register) -> None:
    """The policy."""
    register("lion", "pricekit_lion.policy:Lion", "a small transformer from scratch, trained with Lion")
