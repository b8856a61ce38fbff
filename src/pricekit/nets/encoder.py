"""The encoder of transformer backbones: a transformers model with its pooling; attention without padding."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from pricekit.core.contracts import Encoder
from pricekit.errors import ConfigError

LORA = (
    "rank of LoRA: only matrices of this rank beside the attention projections learn, which saves memory; 0: all "
    "weights learn"
)
_LORA_SCALE = 2
"""The product of the matrices counts twice, as with the usual `lora_alpha` 16 for rank 8."""


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
    chosen = LoraConfig(r=rank, lora_alpha=_LORA_SCALE * rank, target_modules=names)
    inject_adapter_in_model(chosen, model)


def projections(model: nn.Module) -> list[str]:
    """Return the names of the linear modules inside attention: queries, keys, values, positions and output."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and any("att" in part.lower() for part in name.split("."))
    ]


def _is_adapted(layer: Any) -> bool:
    return hasattr(layer, "lora_A") and hasattr(layer, "get_base_layer")


NAME = "pricekit_unpadded"

_HALF = (torch.float16, torch.bfloat16)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    starts: Tensor,
    longest: int,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend within each text, without dropout of attention.

    On a GPU in half precision this is torch's flash attention. Elsewhere it runs text by text, which is no faster
    than padding.

    Args:
        module: the layer; unused.
        query: (1, heads, T, width), T real tokens of N texts.
        key: of the same shape.
        value: of the same shape.
        attention_mask: None; `starts` replaces it.
        starts: int32 (N + 1,); text i has the tokens starts[i] to starts[i + 1] - 1.
        longest: tokens of the longest text, or more.
        scaling: of the scores.
        kwargs: unused.

    Returns:
        (1, T, heads, width), and no weights.
    """
    if query.is_cuda and query.dtype in _HALF:
        from torch.nn.attention.varlen import varlen_attn

        # (T, heads, width)
        query, key, value = (t[0].transpose(0, 1).contiguous() for t in (query, key, value))
        attended: Any = varlen_attn(query, key, value, starts, starts, longest, longest, scale=scaling)
        return attended[None], None
    texts = [
        functional.scaled_dot_product_attention(
            query[:, :, a:b], key[:, :, a:b], value[:, :, a:b], scale=scaling
        )
        for a, b in pairwise(starts.tolist())
    ]
    return torch.cat(texts, 2).transpose(1, 2), None


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)  # there is no padding


def mask_for(config: Any, attention_mask: Tensor) -> Tensor:
    """Return the mask that an encoder gets: (B, L), or (B, 1, 1, L) in an export if it accepts that.

    The second one makes a smaller graph than a mask that the encoder derives.
    """
    with_convolution = getattr(config, "conv_kernel_size", 0)  # of a DeBERTa, which needs the integers
    accepts = config.model_type in ("bert", "roberta", "deberta-v2") and not with_convolution
    if not (accepts and torch.compiler.is_exporting()):
        return attention_mask
    return attention_mask[:, None, None, :].bool()


_OF_POSITIONS = ("rel_embeddings", "relative_attention_bias", "LayerNorm")
"""Modules beside the layers that belong to the embeddings of positions: of DeBERTa and MPNet."""


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the embeddings of an encoder, with all else that comes before the layers, then each layer.

    The layers are the list of modules that is closest to the encoder; of several such lists, the largest.
    """
    stacks = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    if not stacks:
        return [model]
    path, stack = min(stacks, key=lambda named: (named[0].count("."), -_size(named[1])))
    before: list[nn.Module] = []
    inside: nn.Module = model
    for step in path.split("."):
        children = list(inside.named_children())
        place = [name for name, _ in children].index(step)
        before += [m for _, m in children[:place]]
        before += [m for name, m in children[place:] if name in _OF_POSITIONS]
        inside = children[place][1]
    return [nn.ModuleList(before), *stack.children()]


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


Pooling = Literal["mean", "cls", "lead"]
POOLING = "mean: of all tokens; cls: the first token; lead: the mean, and a mean in which the first tokens weigh more"
"""Describes the values of `Pooling`."""

_LEAD, _LEAD_TOKENS = 12.0, 40.0
"""As in `bag`: the extra weight of the first token, and the tokens over which it falls to 1/e."""


FLOAT32_ONLY = ("deberta",)
"""Families that add a mask of float32 to scores of half precision, which cannot hold it."""


class TransformerEncoder(Encoder, nn.Module):
    """A transformer and its pooling, in float32.

    Args:
        model: the transformer.
        pooling: a value of `Pooling`.
        unpadded: train on the real tokens of a batch as one row; prediction and export use padding.
    """

    def __init__(self, model: PreTrainedModel, pooling: str, unpadded: bool = False) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        self.hidden_size: int = model.config.hidden_size * (2 if pooling == "lead" else 1)
        self.padded_attention: str = model.config._attn_implementation or "sdpa"
        self.unpadded = unpadded
        if unpadded:  # a new module is in training mode
            model.set_attn_implementation(NAME)

    def train(self, mode: bool = True) -> TransformerEncoder:
        """Switch between training and evaluation, and between attention without and with padding."""
        if self.unpadded and mode != self.training:
            self.model.set_attn_implementation(NAME if mode else self.padded_attention)
        return super().train(mode)

    @property
    def layers(self) -> list[nn.Module]:  # type: ignore[override]
        """The embeddings, including those of positions, then each layer."""
        return layers_of(self.model)

    @property
    def embedding(self) -> nn.Module:  # type: ignore[override]
        """The table of token embeddings."""
        inner: Any = self.model
        table: nn.Module = inner.get_input_embeddings()
        return table

    def gradient_checkpointing_enable(self) -> None:
        """Recompute the activations of each layer in the backward pass, to save memory."""
        model: Any = self.model  # transformers renamed it in 5
        enable = (
            getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        )
        enable({"use_reentrant": False})

    def merged(self) -> TransformerEncoder:
        """Return a copy with each product B·A added to its projection W; all other parameters are shared.

        An encoder without adapters is returned as it is.
        """
        adapted = [layer for layer in self.modules() if _is_adapted(layer)]
        if not adapted:
            return self
        own = {id(parameter) for layer in adapted for parameter in layer.parameters()}
        twin = copy.deepcopy(self, {id(p): p for p in self.parameters() if id(p) not in own})
        for name, layer in [named for named in twin.named_modules() if _is_adapted(named[1])]:
            layer.merge()
            twin.set_submodule(name, layer.get_base_layer())
        return twin

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the pooled hidden states, float32 (B, H)."""
        hidden = self._states(input_ids, attention_mask)
        if self.pooling == "cls":
            return hidden[:, 0]
        mask = attention_mask.to(hidden.dtype)
        position = torch.cumsum(attention_mask, 1) - 1
        factors: list[Tensor | float] = [1.0]
        if self.pooling == "lead":
            factors.append(1 + _LEAD * torch.exp(-position.float() / _LEAD_TOKENS))
        means = [
            (hidden * weights[:, :, None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)
            for weights in (mask * factor for factor in factors)
        ]
        return torch.cat(means, 1)

    def _states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the hidden state of each token, float32 (B, L, H)."""
        if self.unpadded and self.training:
            return self._unpadded_states(input_ids, attention_mask)
        live = mask_for(self.model.config, attention_mask)
        with self._precision(input_ids.device.type):
            states: Tensor = self.model(input_ids=input_ids, attention_mask=live).last_hidden_state.float()
        return states

    def _precision(self, device: str) -> Any:
        """Return a context without autocast for a family that autocast breaks."""
        broken = self.model.config.model_type in FLOAT32_ONLY and torch.is_autocast_enabled(device)
        return torch.autocast(device, enabled=False) if broken else nullcontext()

    def _unpadded_states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the hidden states, computed only for the T real tokens of the batch; 0 for padding."""
        text, position = attention_mask.nonzero(as_tuple=True)
        starts = functional.pad(attention_mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
        offset = self.model.config.pad_token_id + 1 if self.model.config.model_type == "roberta" else 0
        output = self.model(
            input_ids=input_ids[text, position][None],
            position_ids=position[None] + offset,
            starts=starts,
            longest=input_ids.shape[1],
        )
        states: Tensor = output.last_hidden_state[0].float()
        return states.new_zeros(*attention_mask.shape, states.shape[1]).index_put((text, position), states)
