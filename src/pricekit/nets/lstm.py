"""Backbone `lstm`: a bidirectional LSTM from scratch, with a tokenizer trained on the training texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import Field
from tokenizers import Tokenizer
from torch import Tensor, nn

from pricekit.config import Search, Section
from pricekit.core.contracts import Backbone, Encoder, State
from pricekit.text.tokens import Tokens, train_bpe

PAD, UNK = "[PAD]", "[UNK]"


class Lstm(Backbone):
    """The plugin: trains the tokenizer and creates the encoder."""

    max_length = None
    weights_source = None

    class Options(Section):
        """Options of `lstm`."""

        vocab_size: int = Field(16_000, ge=256, description="maximum size of the vocabulary")
        embedding: int = Field(128, ge=1, description="width of the token embeddings")
        width: int = Field(128, ge=1, description="width of the hidden state in each direction")
        layers: int = Field(2, ge=1)
        dropout: Annotated[float, Search(0.0, 0.5)] = Field(
            0.2, ge=0, lt=1, description="dropout before each layer"
        )

    def __init__(self, options: Options) -> None:
        self.options = options

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Train the tokenizer."""
        return train_bpe(texts, self.options.vocab_size, [PAD, UNK], unknown=UNK)

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return nothing: options and tokenizer suffice to build the encoder."""
        return {}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> LstmEncoder:
        """Return an encoder with random weights."""
        return LstmEncoder(tokenizer.get_vocab_size(), self.options)


class LstmEncoder(Encoder, nn.Module):
    """The mean over a text's tokens of the last layer's states, both directions concatenated."""

    def __init__(self, vocab_size: int, options: Lstm.Options) -> None:
        super().__init__()
        self.hidden_size = 2 * options.width
        self.embedding = nn.Embedding(vocab_size, options.embedding)
        self.dropout = nn.Dropout(options.dropout)
        widths = [options.embedding] + [self.hidden_size] * (options.layers - 1)
        self.forwards, self.backwards = (
            nn.ModuleList(nn.LSTM(width, options.width, batch_first=True) for width in widths)
            for _ in range(2)
        )

    @property
    def layers(self) -> list[nn.Module]:  # type: ignore[override]
        """The embedding, then each layer."""
        pairs = zip(self.forwards, self.backwards, strict=True)
        return [self.embedding, *(nn.ModuleList(pair) for pair in pairs)]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the encoding, float32 (B, 2·width).

        The backward direction reads each text reversed, with the padding still at the end. Otherwise it would begin
        with the padding.
        """
        position = torch.cumsum(torch.ones_like(attention_mask), 1) - 1
        last = attention_mask.sum(1, keepdim=True) - 1
        reversed_position = torch.where(position <= last, last - position, position)
        states = self.embedding(input_ids)
        for onward, back in zip(self.forwards, self.backwards, strict=True):
            states = self.dropout(states)
            backward = _run(back, _at(states, reversed_position))
            states = torch.cat([_run(onward, states), _at(backward, reversed_position)], 2)
        weights = attention_mask[:, :, None].float()
        pooled: Tensor = (states.float() * weights).sum(1) / weights.sum(1).clamp(min=1)
        return pooled


def _run(layer: nn.Module, states: Tensor) -> Tensor:
    """Return the states of one layer in one direction, (B, L, H).

    An export sees one operation. It would otherwise replace the layer by its steps, as many as the example is long:
    torch keeps the layer only in some versions, and only in the first export of a process.
    """
    weights = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
    result: Tensor = one_direction(states, *weights) if torch.compiler.is_exporting() else layer(states)[0]
    return result


@torch.library.custom_op("pricekit::lstm", mutates_args=())
def one_direction(
    states: Tensor, weight: Tensor, state_weight: Tensor, bias: Tensor, state_bias: Tensor
) -> Tensor:
    """Return what `torch.nn.LSTM` with these weights does: float32 (B, L, W) -> (B, L, H)."""
    start = states.new_zeros(1, len(states), state_weight.shape[1])
    weights = (weight, state_weight, bias, state_bias)
    return torch.lstm(states, (start, start), weights, True, 1, 0.0, False, False, True)[0]


@one_direction.register_fake
def _shape(states: Tensor, weight: Tensor, state_weight: Tensor, bias: Tensor, state_bias: Tensor) -> Tensor:
    return states.new_empty(states.shape[0], states.shape[1], state_weight.shape[1])


def _at(states: Tensor, position: Tensor) -> Tensor:
    """Return states (B, L, H) in the order of positions (B, L)."""
    return states.gather(1, position[:, :, None].expand(-1, -1, states.shape[2]))
