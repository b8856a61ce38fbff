"""DeBERTa's relative positions, cut to those that a batch can reach."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def slice_positions(model: Any) -> None:
    """Make a DebertaV2Model project only the relative positions of the batch's length. Exact.

    Each layer projects a table of 2·S rows, S = `position_buckets` (256), through its query and key
    matrices, for every batch. Two of L tokens are at most L - 1 apart, and a bucket is never further out
    than the distance itself, so that only the 2·min(L, S) rows in the middle are ever looked up. While a
    graph is exported the table stays whole, because there L is not a number.
    """
    encoder = model.encoder
    attentions = [layer.attention.self for layer in encoder.layer]
    whole = int(attentions[0].pos_ebd_size)
    rows_of = encoder.get_rel_embedding
    reach = whole

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal reach
        hidden = args[0] if args else kwargs["hidden_states"]
        reach = whole if torch.compiler.is_exporting() else min(int(hidden.shape[1]), whole)
        for attention in attentions:
            attention.pos_ebd_size = reach

    def get_rel_embedding() -> Tensor:
        rows: Tensor = rows_of()
        return rows[whole - reach : whole + reach]

    encoder.get_rel_embedding = get_rel_embedding
    encoder.register_forward_pre_hook(before, with_kwargs=True)
