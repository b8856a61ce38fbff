"""Backbone `mlp`: no text at all; the head is a network over the feature columns."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models
from torch import Tensor, nn

from pricekit.core.contracts import Backbone, Encoder, State
from pricekit.text.tokens import Tokens

_TEXT = "[TEXT]"


class Mlp(Backbone):
    """The plugin: each text is one token, and its encoding is 0. `head.widths` are the hidden layers of the network.

    Example:
        >>> mlp = Mlp()
        >>> tokenizer = mlp.tokenizer([])
        >>> tokenizer.encode("Item Name: Green Tea").ids
        [1]
        >>> mlp.encoder({}, tokenizer, None).hidden_size
        1
    """

    max_length = None
    weights_source = None

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Return a tokenizer that turns a whole text into one token, so that prices take no time for its words."""
        return Tokenizer(models.WordLevel({"[PAD]": 0, _TEXT: 1}, unk_token=_TEXT))

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return nothing: there is nothing to build."""
        return {}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> NoEncoder:
        """Return an encoder without weights."""
        return NoEncoder()


class NoEncoder(Encoder, nn.Module):
    """The same encoding for every text: one column of zeros, which the head multiplies by a weight without effect."""

    hidden_size = 1

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return zeros, float32 (B, 1)."""
        return attention_mask[:, :1].float() * 0
