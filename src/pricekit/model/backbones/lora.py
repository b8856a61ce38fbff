"""LoRA: a frozen transformer learns through small matrices beside its attention projections."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import Any, TypeVar

from torch import nn

from pricekit.errors import ConfigError

DESCRIPTION = (
    "rank of LoRA: only matrices of this rank beside the attention projections learn, which saves memory; 0: all "
    "weights learn"
)
_SCALE = 2
"""The product of the matrices counts twice, as with the usual `lora_alpha` 16 for rank 8."""

Module = TypeVar("Module", bound=nn.Module)


def require_peft(rank: int) -> None:
    """Raise ConfigError if LoRA is wanted and its library is not installed."""
    if rank and find_spec("peft") is None:
        raise ConfigError(
            f"backbone.lora is {rank}, but LoRA needs peft, which is not installed: pip install 'pricekit[lora]'. "
            "A bundle needs no peft",
            parameters=("settings",),
        )


def add_adapters(model: Any, rank: int) -> None:
    """Freeze a transformer, and put two matrices A and B beside each attention projection W.

    A projection becomes x·Wᵀ + 2·x·Aᵀ·Bᵀ (Hu et al. 2021, arXiv:2106.09685). B is 0 at first, so the encoding is
    that of the pretrained weights.

    Args:
        model: a transformer of any family.
        rank: of the product B·A.

    Raises:
        ConfigError: no attention projection is known in this family.
    """
    from peft import LoraConfig, inject_adapter_in_model

    names = projections(model)
    if not names:
        raise ConfigError(
            f"LoRA finds no attention projection in an encoder of the family '{model.config.model_type}'; set "
            "backbone.lora to 0, or use other weights",
            parameters=("settings", "weights"),
        )
    model.requires_grad_(False)
    chosen = LoraConfig(r=rank, lora_alpha=_SCALE * rank, target_modules=names)
    inject_adapter_in_model(chosen, model)


def projections(model: nn.Module) -> list[str]:
    """Return the names of the linear modules inside attention: queries, keys, values, positions and output."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and any("att" in part.lower() for part in name.split("."))
    ]


def merge_adapters(module: Module) -> Module:
    """Return a copy with each product B·A added to its projection W; all other parameters are shared.

    A module without adapters is returned as it is.
    """
    adapted = [layer for layer in module.modules() if _is_adapted(layer)]
    if not adapted:
        return module
    own = {id(parameter) for layer in adapted for parameter in layer.parameters()}
    shared = {id(parameter): parameter for parameter in module.parameters() if id(parameter) not in own}
    twin = copy.deepcopy(module, shared)
    for name, layer in [found for found in twin.named_modules() if _is_adapted(found[1])]:
        layer.merge()
        twin.set_submodule(name, layer.get_base_layer())
    return twin


def _is_adapted(layer: Any) -> bool:
    return hasattr(layer, "lora_A") and hasattr(layer, "get_base_layer")
