"""Compiled functions for pricekit: the same prices in less time."""

from __future__ import annotations

from pricekit.plugin import Register, hookimpl

pricekit_api = 1


@hookimpl
def pricekit_register_engines(register: Register) -> None:
    """The engine."""
    register("fast", "pricekit_fast.engine:Fast", "backbone bag in C, on the CPUs that this process may use")


@hookimpl
def pricekit_register_kernels(register: Register) -> None:
    """The kernel."""
    register("fast", "pricekit_fast.kernel:FastKernel", "tokens, words, hashed terms and trees, in C")
