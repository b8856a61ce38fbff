"""Faster relative positions of DeBERTa: only those within a batch's length, and in a graph looked up by distance."""

from __future__ import annotations

import math
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position


def slice_positions(model: Any) -> None:
    """Make a DebertaV2Model project only the relative positions within the batch's length; results are equal.

    Each layer projects a table of 2·S rows, S = `position_buckets` (256), through its query and key matrices for
    every batch. Two of L tokens are at most L - 1 apart, and a bucket's number is at most the distance. So only the
    2·min(L, S) rows in the middle are looked up. An exported graph keeps the whole table, because L is symbolic.
    """
    encoder = model.encoder
    encoder.whole = encoder.reach = int(encoder.layer[0].attention.self.pos_ebd_size)
    # Bound to the encoder, without a closure: a deep copy, such as the average of the weights, reads its own table.
    encoder.get_rel_embedding = MethodType(_reachable, encoder)
    encoder.register_forward_pre_hook(_set_reach, with_kwargs=True)


def _set_reach(encoder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    hidden = args[0] if args else kwargs["hidden_states"]
    exporting = torch.compiler.is_exporting()
    encoder.reach = encoder.whole if exporting else min(int(hidden.shape[1]), encoder.whole)
    for layer in encoder.layer:
        layer.attention.self.pos_ebd_size = encoder.reach


def _reachable(encoder: Any) -> Tensor:
    rows: Tensor = type(encoder).get_rel_embedding(encoder)
    return rows[encoder.whole - encoder.reach : encoder.whole + encoder.reach]


def export_by_distance(model: Any, longest: int) -> None:
    """Make a DebertaV2Model look positions up by distance while a graph is exported; results are equal.

    The library gathers scores of content and position (He et al. 2021, arXiv:2006.03654, equation 4) element by
    element. Each layer needs three large tables for it: scores, (B · heads, L, 2S); projections of the positions, once
    per text; and indices, (B · heads, L, L). Here the rows of the position table are first sorted by the 2·L
    distances. Then the scores are a diagonal band of one product, which two slices cut out.

    Args:
        model: a DebertaV2Model; a model that differs from version 3 is not changed.
        longest: the largest L.
    """
    encoder, span = model.encoder, getattr(model.encoder, "position_buckets", -1)
    attentions = [layer.attention.self for layer in encoder.layer]
    if span < 1 or not all(a.share_att_key and {"c2p", "p2c"} <= set(a.pos_att_type) for a in attentions):
        return
    distances = torch.arange(-longest, longest)
    buckets = make_log_bucket_position(distances, span, encoder.max_relative_positions).long()
    for attention in attentions:
        for name, some in (("rows_of_query", buckets), ("rows_of_key", -buckets)):
            attention.register_buffer(name, (some + span).clamp(0, 2 * span - 1), persistent=False)
        attention.forward = MethodType(_attend, attention)


def _attend(
    attention: Any, hidden_states: Tensor, attention_mask: Tensor, *others: Any, **named: Any
) -> tuple[Tensor, Tensor | None]:
    """Return the output of a DisentangledSelfAttention, (B, L, H), and None.

    Args:
        attention: the module.
        hidden_states: (B, L, H).
        attention_mask: (B, 1, 1, L) or (B, 1, L, L), not 0 for attended keys.
        others: unused while exporting.
        named: `rel_embeddings`, (2S, H); others are unused.
    """
    if not torch.compiler.is_exporting():
        found: tuple[Tensor, Tensor | None] = type(attention).forward(
            attention, hidden_states, attention_mask, *others, **named
        )
        return found
    heads, length = attention.num_attention_heads, hidden_states.shape[1]
    middle = len(attention.rows_of_key) // 2
    of_batch = slice(middle - length, middle + length)
    projections = attention.query_proj, attention.key_proj, attention.value_proj
    query, key, value = (p(hidden_states).unflatten(-1, (heads, -1)).transpose(1, 2) for p in projections)
    scale = 1 / math.sqrt(3 * query.shape[-1])

    def scores(content: Tensor, projection: Any, rows: Tensor) -> Tensor:
        table = projection(named["rel_embeddings"]).unflatten(-1, (heads, -1))[rows[of_batch]]
        # Scaling between transposition and product prevents a fusion on which ONNX Runtime 1.31 crashes in float16.
        return _band(content @ (table.permute(1, 2, 0) * scale))

    to_position = scores(query, attention.key_proj, attention.rows_of_key)
    to_content = scores(key, attention.query_proj, attention.rows_of_query).transpose(-1, -2)
    masked = torch.where(attention_mask.bool(), 0.0, torch.finfo(query.dtype).min)
    context = functional.scaled_dot_product_attention(
        query, key, value, to_position + to_content + masked, scale=scale
    )
    return context.transpose(1, 2).flatten(2), None


def _band(scores: Tensor) -> Tensor:
    """Return L of the 2·L scores of each row, from (…, L, 2·L) to (…, L, L); row l starts at column L - l.

    Dropping the first L elements and cutting the rest into rows of 2·L - 1 shifts each row by one.
    """
    length = scores.shape[-2]
    flat = scores.flatten(-2)[..., length:]
    return flat.reshape(*flat.shape[:-1], length, 2 * length - 1)[..., :length]
