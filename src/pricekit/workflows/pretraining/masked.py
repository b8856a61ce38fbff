"""Masked language modelling: which tokens are hidden, and how well a model fills them in.

Of each text 15% of the tokens are chosen; 80% of these become the mask token, 10% any token, 10% stay as they
are (Devlin et al. 2019). Only the chosen ones go through the head: its product with the vocabulary would
otherwise cost more than a small encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy

from pricekit.tokens import Tokens, batches_by_length, pad, pad_id_of

CHOSEN, MASKED, REPLACED = 0.15, 0.8, 0.1
_MASKS = ("[MASK]", "<mask>")
_ROWS = 64


@dataclass(frozen=True)
class Masking:
    """What masking needs to know of a tokenizer.

    Attributes:
        mask_id: id of the mask token.
        ordinary: bool (V,), which tokens may be hidden: all but special ones and padding.
    """

    mask_id: int
    ordinary: Tensor

    def apply(self, input_ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Hide tokens of a batch, at least one of each text that has an ordinary one.

        Args:
            input_ids: int64 (B, L).
            generator: of the draws; None: torch's own of the device.

        Returns:
            The batch with tokens hidden, int64 (B, L), and which were chosen, bool (B, L).
        """

        def draw() -> Tensor:
            return torch.rand(input_ids.shape, generator=generator, device=input_ids.device)

        ordinary = self.ordinary.to(input_ids.device)
        may, others = ordinary[input_ids], ordinary.nonzero()[:, 0]
        score = draw().masked_fill(~may, 1.0)
        chosen = ((score < CHOSEN) | (score == score.amin(1, keepdim=True))) & may
        fate, other = draw(), others[(draw() * len(others)).long()]
        hidden = torch.where(chosen & (fate < MASKED + REPLACED), other, input_ids)
        return torch.where(chosen & (fate < MASKED), self.mask_id, hidden), chosen


def masking_of(tokenizer: Tokenizer) -> Masking:
    """Return how texts of a tokenizer are masked; it is given a mask token, with a new id, where it has none."""
    found = [token for token in _MASKS if tokenizer.token_to_id(token) is not None]
    if not found:
        tokenizer.add_special_tokens([AddedToken(_MASKS[0], special=True)])
    mask_id = tokenizer.get_vocab()[(found or _MASKS)[0]]
    added = tokenizer.get_added_tokens_decoder().items()
    special = [mask_id, pad_id_of(tokenizer), *(number for number, token in added if token.special)]
    ordinary = torch.ones(max(tokenizer.get_vocab().values()) + 1, dtype=torch.bool)
    ordinary[special] = False
    return Masking(mask_id, ordinary)


def prepare(model: Any, masking: Masking, tokens: Tokens) -> None:
    """Make a ForMaskedLM model of the library mask and judge itself: `model(input_ids, attention_mask)["loss"]`.

    A vocabulary that has outgrown the model's enlarges it. A new head guesses, to begin with, each token as often
    as it is.
    """
    size = len(masking.ordinary)
    if size > model.config.vocab_size:
        model.resize_token_embeddings(size, mean_resizing=False)
    bias = model.get_output_embeddings().bias
    if not bias.any():
        count = torch.from_numpy(np.bincount(tokens.ids, minlength=len(bias)))
        with torch.no_grad():
            bias.copy_(((count + 1) / (count + 1).sum()).log())

    def forward(self: Any, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        hidden, chosen = masking.apply(input_ids)
        total = total_loss(self, hidden, attention_mask, input_ids, chosen)
        return {"loss": total / chosen.sum().clamp(min=1)}

    model.forward = MethodType(forward, model)


def total_loss(
    model: Any, hidden: Tensor, attention_mask: Tensor, input_ids: Tensor, chosen: Tensor
) -> Tensor:
    """Return the cross-entropy of the chosen tokens, summed, in nats: a scalar.

    Args:
        model: a ForMaskedLM model of the library.
        hidden: int64 (B, L), the batch with tokens hidden.
        attention_mask: int64 (B, L).
        input_ids: int64 (B, L), the batch as it was.
        chosen: bool (B, L), the tokens that count.
    """
    states = model.base_model(input_ids=hidden, attention_mask=attention_mask).last_hidden_state
    head = model.cls if hasattr(model, "cls") else model.lm_head  # BERT and DeBERTa; RoBERTa
    return cross_entropy(head(states[chosen]).float(), input_ids[chosen], reduction="sum")


def held_out_loss(model: Any, masking: Masking, tokens: Tokens, pad_id: int, seed: int) -> float:
    """Return the mean cross-entropy of hidden tokens, in nats; of the same ones at each call with the same seed.

    Args:
        model: a ForMaskedLM model of the library.
        masking: of its tokenizer.
        tokens: of the texts.
        pad_id: what pads.
        seed: makes the mask.
    """
    generator = torch.Generator().manual_seed(seed)
    total, count = 0.0, 0
    was, device = model.training, next(model.parameters()).device
    model.eval()
    with torch.inference_mode():
        for rows in batches_by_length(tokens.lengths, np.arange(len(tokens)), _ROWS):
            ids, mask = map(torch.from_numpy, pad(tokens, rows, pad_id))
            hidden, chosen = masking.apply(ids, generator)
            batch = (tensor.to(device) for tensor in (hidden, mask, ids, chosen))
            total += float(total_loss(model, *batch))
            count += int(chosen.sum())
    model.train(was)
    return total / max(count, 1)
