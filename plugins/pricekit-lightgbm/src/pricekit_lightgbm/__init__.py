"""LightGBM for pricekit: the log price that boosted trees predict, as a feature."""

from __future__ import annotations

from pricekit.plugin import Register, hookimpl

pricekit_api = 1


@hookimpl
def pricekit_register_features(register: Register) -> None:
    """The feature."""
    register(
        "lightgbm",
        "pricekit_lightgbm.feature:LightGbm",
        "the log price that boosted trees predict from words and optimized22",
    )
