"""A backbone's encoder as training makes it; this module imports torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from pricekit.testing.data import NASTY, ordinary_texts
from pricekit.testing.runner import Make, fail, shown
from pricekit.tokens import encode, pad_id_of, pad_rows

LONGEST, ROOM, ROWS, SHORT = 64, 5, 8, 1000
TOLERANCE = 1e-4
"""Relative: of an encoding as before training, of an exported price as in export."""


@dataclass(frozen=True)
class Built:
    """A new encoder in evaluation mode, and what it was made of.

    Attributes:
        plugin: the backbone.
        tokenizer: trained.
        architecture: as a run keeps it.
        encoder: the module.
        batches: `input_ids` and `attention_mask`, int64 (B, L), rows of many lengths.
        room: by how much these may still be padded.
    """

    plugin: Any
    tokenizer: Tokenizer
    architecture: Any
    encoder: Any
    batches: list[tuple[Tensor, Tensor]]
    room: int

    @torch.no_grad()
    def encoding(self) -> Tensor:
        """Return the encoding of the first batch."""
        found: Tensor = self.encoder(*self.batches[0])
        return found


def training_texts() -> list[str]:
    """Return what tokenizers are trained on: nothing very long, so that it is quick."""
    return [*ordinary_texts(), *(text for text in NASTY if len(text) < SHORT)]


def build(make: Make) -> Built:
    """Make tokenizer and encoder, as training does."""
    plugin = make()
    tokenizer = plugin.tokenizer(training_texts())
    architecture = json.loads(json.dumps(plugin.architecture(tokenizer)))
    longest = min(LONGEST, plugin.max_length or LONGEST)
    room, pad_id = min(ROOM, longest - 1), pad_id_of(tokenizer)
    texts = [*ordinary_texts()[:4], "", "tea", "Item Name: green tea, 12 oz", NASTY[4], *ordinary_texts()[4:]]
    tokens = encode(tokenizer, texts, longest - room, pad_id)
    encoder = plugin.encoder(architecture, tokenizer, tokens)
    if not isinstance(encoder, nn.Module):
        fail(f"encoder returned {shown(encoder)}", "a torch.nn.Module", "derive it from torch.nn.Module")
    starts = range(0, len(tokens) - ROWS, ROWS)
    padded = [pad_rows(tokens, np.arange(start, start + ROWS), pad_id) for start in starts]
    batches = [(torch.from_numpy(ids), torch.from_numpy(mask)) for ids, mask in padded]
    return Built(plugin, tokenizer, architecture, encoder.eval(), batches, room)
