"""Backbone `bag`: a weighted bag of token and hashed-bigram embeddings.

No download: the tokenizer is trained on the training texts and the embeddings start from noise. The
bigrams are hashed from `input_ids` inside the graph, so it exports like any other encoder.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from pydantic import Field
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from pricekit.config import Section
from pricekit.core.contracts import State
from pricekit.model.backbones.bpe import train_bpe
from pricekit.tokens import Tokens

PAD, UNK = "[PAD]", "[UNK]"
_SPAN = 16
_MOST_TOKENS = 1_000_000
_FIRST, _SECOND, _PRIME = 509, 263, 1_999_993
"""Bigrams are hashed within 32 bits, and for 20,000 tokens within 24: OpenVINO computes integers as float32."""


class Bag:
    """The plugin: trains the tokenizer and makes the encoder."""

    max_length = None

    class Options(Section):
        """Options of `bag`."""

        vocab_size: int = Field(
            20_000, ge=256, le=_MOST_TOKENS, description="tokens of the vocabulary at most"
        )
        buckets: int = Field(1 << 16, ge=1, description="rows that bigrams are hashed into")
        width: int = Field(32, ge=1, description="width of an embedding, each member")
        members: int = Field(4, ge=1, description="models trained side by side and averaged")
        token_dropout: float = Field(0.4, ge=0, lt=1, description="share of terms dropped in training")
        span_dropout: float = Field(
            0.3, ge=0, lt=1, description=f"share of spans of {_SPAN} terms dropped in training, too"
        )
        lead: float = Field(
            12.0, ge=0, description="extra weight of the first token; fades over `lead_tokens`"
        )
        lead_tokens: float = Field(40.0, gt=0, description="tokens over which the extra weight falls to 1/e")

    def __init__(self, options: Options) -> None:
        self.options = options

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Train the tokenizer."""
        return train_bpe(texts, self.options.vocab_size, [PAD, UNK], unknown=UNK, punctuation=False)

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return nothing: the options and the tokenizer say it all."""
        return {}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> BagEncoder:
        """Make the encoder; its weights of tokens and bigrams are fitted on the training tokens."""
        encoder = BagEncoder(tokenizer.get_vocab_size(), self.options)
        if tokens is not None:
            encoder.fit(tokens)
        return encoder


class BagEncoder(nn.Module):
    """Σ w·E over tokens and bigrams, the weights w of a text scaled to length 1.

    w is the idf of the token or bucket, log((1 + n) / (1 + df)), times 1 + lead·exp(-position /
    lead_tokens): names come first in catalogue texts. Each member has a group of columns of E, and in
    training drops tokens of its own.
    """

    idf: Tensor

    def __init__(self, vocab_size: int, options: Bag.Options) -> None:
        super().__init__()
        self.options = options
        self.vocab_size = vocab_size
        self.members = options.members
        self.hidden_size = options.members * options.width
        self.rows = vocab_size + options.buckets
        self.embedding = nn.Embedding(self.rows, self.hidden_size, sparse=True)
        nn.init.normal_(self.embedding.weight, std=0.01)
        self.register_buffer("idf", torch.zeros(self.rows))

    def fit(self, tokens: Tokens) -> None:
        """Fit the idf of tokens and buckets, 0 for those that no training text has."""
        frequency = np.zeros(self.rows, np.int64)
        for start, end in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True):
            ids = torch.from_numpy(tokens.ids[start:end].astype(np.int64))
            frequency[np.unique(torch.cat([ids, self._bigrams(ids[:-1], ids[1:])]).numpy())] += 1
        idf = np.where(frequency > 0, np.log((1 + len(tokens)) / (1 + frequency)), 0.0)
        self.idf.copy_(torch.from_numpy(idf))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the encoding, (B, members·width)."""
        rows, weights = self._terms(input_ids, attention_mask)
        if self.training:
            return self._dropped_bag(rows, weights)
        # (B, 1, 2L) x (B, 2L, H): gather and matmul, which every runtime has.
        vectors = functional.embedding(rows, self.embedding.weight)
        return torch.bmm(weights[:, None, :], vectors)[:, 0]

    def _terms(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of all tokens and bigrams and their weights, both (B, 2L)."""
        following = functional.pad(input_ids[:, 1:], (0, 1))
        has_following = functional.pad(attention_mask[:, 1:], (0, 1))
        rows = torch.cat([input_ids, self._bigrams(input_ids, following)], 1)
        mask = torch.cat([attention_mask, attention_mask * has_following], 1)
        position = torch.cumsum(torch.ones_like(input_ids), 1) - 1
        lead = 1 + self.options.lead * torch.exp(-position.float() / self.options.lead_tokens)
        idf = functional.embedding(rows, self.idf[:, None])[:, :, 0]  # exports as Gather; indexing is slower
        weights = idf * mask * torch.cat([lead, lead], 1)
        return rows, weights / weights.square().sum(1, keepdim=True).clamp(min=1e-12).sqrt()

    def _bigrams(self, first: Tensor, second: Tensor) -> Tensor:
        # The prime scatters what is linear in the ids before it is cut to the number of buckets.
        hashed = (first * _FIRST + second * _SECOND) % _PRIME % self.options.buckets
        return hashed + self.vocab_size

    def _dropped_bag(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Return the bag with terms dropped, each member its own; gradients reach the batch's rows only.

        Each distinct row is looked up once, as (U, M·D) seen as (U·M, D), and all members are summed
        by one call, which takes only the terms that were kept.
        """
        live = weights > 0
        unique, index = torch.unique(rows[live], return_inverse=True)
        vectors = self.embedding(unique).view(-1, self.options.width)
        place = torch.zeros_like(rows)
        place[live] = index * self.members
        kept = self._kept(rows) & live[:, None]
        member = torch.arange(self.members, device=rows.device)[:, None]
        counts = kept.sum(2).flatten()
        bags = functional.embedding_bag(
            (place[:, None] + member)[kept],
            vectors,
            counts.cumsum(0) - counts,
            mode="sum",
            per_sample_weights=weights[:, None].expand_as(kept)[kept] / self._share_kept,
        )
        return bags.view(len(rows), self.hidden_size)

    @property
    def _share_kept(self) -> float:
        return (1 - self.options.token_dropout) * (1 - self.options.span_dropout)

    def _kept(self, rows: Tensor) -> Tensor:
        """Return which terms each member keeps, bool (B, M, 2L): single ones and whole spans are dropped."""
        shape = len(rows), self.members, rows.shape[1]
        spans = torch.rand(*shape[:2], -(-shape[2] // _SPAN), device=rows.device) >= self.options.span_dropout
        terms = torch.rand(shape, device=rows.device) >= self.options.token_dropout
        return terms & spans.repeat_interleave(_SPAN, 2)[:, :, : shape[2]]
