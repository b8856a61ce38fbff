"""all-MiniLM-L6-v2 for pricekit: a pretrained backbone that works offline, and its policy."""

from __future__ import annotations

from pricekit.plugin import Register, hookimpl

pricekit_api = 1


@hookimpl
def pricekit_register_backbones(register: Register) -> None:
    """The backbone."""
    register(
        "minilm", "pricekit_minilm.backbone:minilm", "all-MiniLM-L6-v2, 23M parameters, 6 layers, pretrained"
    )


@hookimpl
def pricekit_register_policies(register: Register) -> None:
    """The policy."""
    register("minilm", "pricekit_minilm.policy:MiniLM", "fine-tunes minilm on a few thousand rows")
