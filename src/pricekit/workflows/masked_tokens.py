"""Masked language modelling: the masking of tokens and the loss of predicting them.

15% of the tokens of each text are selected; 80% of these become the mask token, 10% a random token, and 10% stay
(Devlin et al. 2019). Only selected tokens pass through the head: its product with the vocabulary would otherwise cost
more than a small encoder.
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

from pricekit.support.progress import progress
from pricekit.tokens import Tokens, batches_by_length, pad_id_of, pad_rows

SELECTED, MASKED, REPLACED = 0.15, 0.8, 0.1
_MASKS = ("[MASK]", "<mask>")
_ROWS = 64


@dataclass(frozen=True)
class Masking:
    """The masking for a tokenizer.

    Attributes:
        mask_id: id of the mask token.
        ordinary: bool (V,), tokens that may be masked: all except special tokens and padding.
    """

    mask_id: int
    ordinary: Tensor

    def apply(self, input_ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Mask tokens of a batch, at least one in each text that has an ordinary token.

        Args:
            input_ids: int64 (B, L).
            generator: of the random draws; None uses torch's generator of the device.

        Returns:
            The batch with masked tokens, int64 (B, L), and the selected tokens, bool (B, L).
        """

        def draw() -> Tensor:
            return torch.rand(input_ids.shape, generator=generator, device=input_ids.device)

        ordinary = self.ordinary.to(input_ids.device)
        eligible, replacements = ordinary[input_ids], ordinary.nonzero()[:, 0]
        score = draw().masked_fill(~eligible, 1.0)
        selected = ((score < SELECTED) | (score == score.amin(1, keepdim=True))) & eligible
        action, other = draw(), replacements[(draw() * len(replacements)).long()]
        masked = torch.where(selected & (action < MASKED + REPLACED), other, input_ids)
        return torch.where(selected & (action < MASKED), self.mask_id, masked), selected


def make_masking(tokenizer: Tokenizer) -> Masking:
    """Return the masking for a tokenizer; adds a mask token with a new id if it has none."""
    found = [token for token in _MASKS if tokenizer.token_to_id(token) is not None]
    if not found:
        tokenizer.add_special_tokens([AddedToken(_MASKS[0], special=True)])
    mask_id = tokenizer.get_vocab()[(found or _MASKS)[0]]
    added = tokenizer.get_added_tokens_decoder().items()
    special = [mask_id, pad_id_of(tokenizer), *(number for number, token in added if token.special)]
    ordinary = torch.ones(max(tokenizer.get_vocab().values()) + 1, dtype=torch.bool)
    ordinary[special] = False
    return Masking(mask_id, ordinary)


def attach_masking(model: Any, masking: Masking, tokens: Tokens) -> None:
    """Let a ForMaskedLM model of transformers mask its input: `model(input_ids, attention_mask)["loss"]`.

    Embeddings are added for tokens that the model does not have. A new head starts with the frequencies of the
    tokens.

    Args:
        model: changed in place.
        masking: of its tokenizer.
        tokens: of the training texts.
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
        masked, selected = masking.apply(input_ids)
        total = total_loss(self, masked, attention_mask, input_ids, selected)
        return {"loss": total / selected.sum().clamp(min=1)}

    model.forward = MethodType(forward, model)


def total_loss(
    model: Any, masked: Tensor, attention_mask: Tensor, input_ids: Tensor, selected: Tensor
) -> Tensor:
    """Return the summed cross-entropy of the selected tokens, in nats: a scalar.

    Args:
        model: a ForMaskedLM model of transformers.
        masked: int64 (B, L), the batch with masked tokens.
        attention_mask: int64 (B, L).
        input_ids: int64 (B, L), the original batch.
        selected: bool (B, L), the tokens to predict.
    """
    states = model.base_model(input_ids=masked, attention_mask=attention_mask).last_hidden_state
    head = model.cls if hasattr(model, "cls") else model.lm_head  # BERT and DeBERTa; RoBERTa
    return cross_entropy(head(states[selected]).float(), input_ids[selected], reduction="sum")


def held_out_loss(model: Any, masking: Masking, tokens: Tokens, pad_id: int, seed: int) -> float:
    """Return the mean cross-entropy of masked tokens, in nats; calls with the same seed mask the same tokens.

    Args:
        model: a ForMaskedLM model of transformers.
        masking: of its tokenizer.
        tokens: of the texts.
        pad_id: id of the padding token.
        seed: of the masks.
    """
    generator = torch.Generator().manual_seed(seed)
    total, count = 0.0, 0
    was, device = model.training, next(model.parameters()).device
    model.eval()
    with torch.inference_mode(), progress("measuring the held-out loss", len(tokens)) as advance:
        for rows in batches_by_length(tokens.lengths, np.arange(len(tokens)), _ROWS):
            ids, mask = map(torch.from_numpy, pad_rows(tokens, rows, pad_id))
            masked, selected = masking.apply(ids, generator)
            batch = (tensor.to(device) for tensor in (masked, mask, ids, selected))
            total += float(total_loss(model, *batch))
            count += int(selected.sum())
            advance(len(rows))
    model.train(was)
    return total / max(count, 1)
