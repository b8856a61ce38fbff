"""Attention as fewer ONNX operations than torch's exporter produces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from onnxscript import opset20 as op

MASKED = float(np.finfo(np.float32).min)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return softmax(query · keyᵀ · scale + mask) · value; Vaswani et al. 2017, arXiv:1706.03762, equation 1.

    Torch's exporter scales query and key separately, and after the softmax searches for rows without an attended key.
    That costs two passes over (B, heads, L, L). Such rows do not occur: every text has at least one attended token.

    Args:
        query: float (B, heads, L, D).
        key: float (B, heads, L, D).
        value: float (B, heads, L, D).
        attn_mask: bool, true for attended keys, or float, added to the scores; broadcast to (B, heads, L, L).
        dropout_p: as in torch; 0 in evaluation.
        is_causal: as in torch; not supported.
        scale: of the scores; None is 1 / sqrt(D).
        enable_gqa: as in torch; not supported.

    Raises:
        NotImplementedError: dropout, causal attention or grouped queries.
    """
    if dropout_p or is_causal or enable_gqa:
        raise NotImplementedError("attention with dropout, causal, or of grouped queries")
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = op.MatMul(op.Mul(query, op.Constant(value_float=factor)), op.Transpose(key, perm=[0, 1, 3, 2]))
    if attn_mask is not None:
        if attn_mask.dtype.name == "BOOL":
            attended: Any = op.Constant(value_float=0.0)
            attn_mask = op.Where(attn_mask, attended, op.Constant(value_float=MASKED))
        scores = op.Add(scores, attn_mask)
    return op.MatMul(op.Softmax(scores, axis=-1), value)


TRANSLATIONS: Mapping[Any, Any] = {
    torch.ops.aten.scaled_dot_product_attention.default: scaled_dot_product_attention
}
"""Operations of torch with their replacements in the exporter."""
