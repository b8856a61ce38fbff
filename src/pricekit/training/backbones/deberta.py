"""DeBERTa's relative positions, cut to those that a batch can reach."""

from __future__ import annotations

from types import MethodType
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
    encoder.whole = encoder.reach = int(encoder.layer[0].attention.self.pos_ebd_size)
    # Bound to the encoder and not to what is around here: a deep copy, such as the average of the weights,
    # must read its own table.
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
