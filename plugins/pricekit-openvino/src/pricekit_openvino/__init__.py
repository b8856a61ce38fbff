"""OpenVINO for pricekit: an engine for CPUs."""

from __future__ import annotations

from pricekit.plugin import Register, hookimpl

pricekit_api = 1


@hookimpl
def pricekit_register_engines(register: Register) -> None:
    """The engine."""
    register(
        "openvino", "pricekit_openvino.engine:OpenVino", "OpenVINO on the CPUs that this process may use"
    )
