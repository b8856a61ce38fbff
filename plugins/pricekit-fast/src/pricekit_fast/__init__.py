"""Compiled functions for pricekit: the same prices in less time."""

from __future__ import annotations

from pricekit.plugin import Register, hookimpl

pricekit_api = 1


@hookimpl
def pricekit_register_kernels(register: Register) -> None:
    """The kernel."""
    register("fast", "pricekit_fast.kernel:FastKernel", "words, hashed terms and trees, in C")
