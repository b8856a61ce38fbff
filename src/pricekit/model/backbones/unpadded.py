"""Attention without padding: the real tokens of a batch, text after text, as one row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

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
    packed = [t[0].transpose(0, 1).contiguous() for t in (query, key, value)]  # (T, heads, width)
    if query.is_cuda and query.dtype in _HALF:
        from torch.nn.attention.varlen import varlen_attn

        found: Any = varlen_attn(
            packed[0], packed[1], packed[2], starts, starts, longest, longest, scale=scaling
        )
        return found[None], None
    bounds = starts.tolist()
    texts = [
        scaled_dot_product_attention(query[:, :, a:b], key[:, :, a:b], value[:, :, a:b], scale=scaling)
        for a, b in pairwise(bounds)
    ]
    return torch.cat(texts, 2).transpose(1, 2), None


def no_mask(*args: Any, **kwargs: Any) -> None:
    """Return no mask, because there is no padding."""


def use_unpadded(model: Any) -> None:
    """Make a transformers model use `attend`."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, no_mask)
    model.set_attn_implementation(NAME)


def pack(attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the places of the real tokens of a batch.

    Args:
        attention_mask: int64 (B, L), ones first.

    Returns:
        The text of each real token, int64 (T,); its position in it, int64 (T,); the starts, int32 (B + 1,).
    """
    text, position = attention_mask.nonzero(as_tuple=True)
    lengths = attention_mask.sum(1)
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    return text, position, starts
