"""Backbone `bag`: a weighted bag of token and hashed-bigram embeddings.

It needs no download: the tokenizer is trained on the training texts, and the embeddings start from random values. The
graph hashes the bigrams from `input_ids`, so the encoder exports like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from pricekit.config import Search, Section
from pricekit.core.contracts import Backbone, Encoder, State
from pricekit.io.mapped import rows_read
from pricekit.text.tokens import Tokens, train_bpe

_CHECKS: Any = torch.sparse.check_sparse_tensor_invariants
if not _CHECKS.is_enabled():
    _CHECKS.disable()  # as it is; torch 2.11 warns unless somebody chooses

PAD, UNK = "[PAD]", "[UNK]"
_SPAN = 16
_MOST_TOKENS = 1_000_000
_COUNTED_ROWS = 1 << 10
_FIRST, _SECOND, _PRIME = 509, 263, 1_999_993
"""Bigrams are hashed within 32 bits, and for 20,000 tokens within 24: OpenVINO computes integers as float32."""

_PREPARED = ("places", "bag_starts", "weights", "rows", "bags_by_row", "row_starts", "weights_by_row")
"""The result of `BagEncoder.prepare_batch`: terms by bag, the rows that the batch uses, and terms by row."""


class Bag(Backbone):
    """The plugin: trains the tokenizer and makes the encoder."""

    max_length = None
    weights_source = None

    class Options(Section):
        """Options of `bag`."""

        vocab_size: int = Field(20_000, ge=256, le=_MOST_TOKENS, description="maximum size of the vocabulary")
        buckets: int = Field(1 << 16, ge=1, description="number of buckets for hashed bigrams")
        width: Annotated[int, Search(24, 64, log=True)] = Field(
            32, ge=1, description="width of each member's embeddings"
        )
        members: int = Field(4, ge=1, description="number of models that are trained together and averaged")
        token_dropout: Annotated[float, Search(0.2, 0.6)] = Field(
            0.4, ge=0, lt=1, description="share of terms dropped in training"
        )
        span_dropout: Annotated[float, Search(0.1, 0.5)] = Field(
            0.3, ge=0, lt=1, description=f"share of spans of {_SPAN} terms that are also dropped in training"
        )
        lead: Annotated[float, Search(4.0, 24.0)] = Field(
            12.0, ge=0, description="extra weight of the first token; fades over `lead_tokens`"
        )
        lead_tokens: float = Field(40.0, gt=0, description="tokens over which the extra weight falls to 1/e")

    def __init__(self, options: Options) -> None:
        self.options = options

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Train the tokenizer."""
        return train_bpe(texts, self.options.vocab_size, [PAD, UNK], unknown=UNK, punctuation=False)

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return nothing: the options and the tokenizer define the encoder."""
        return {}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> BagEncoder:
        """Create the encoder, with the weights of tokens and bigrams fitted on the training tokens."""
        encoder = BagEncoder(tokenizer.get_vocab_size(), self.options)
        if tokens is not None:
            encoder.extend(tokens)
        return encoder


class BagEncoder(Encoder, nn.Module):
    """Σ w·E over tokens and bigrams, with the weights w of a text scaled to length 1.

    w is the idf of the token or bucket, log((1 + n) / (1 + df)), times 1 + lead·exp(-position /
    lead_tokens), because names come first in catalogue texts. Each member has a group of columns of E, and
    drops different tokens in training.
    """

    idf: Tensor

    embedding: nn.Embedding

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

    def extend(self, tokens: Tokens) -> None:
        """Fit the idf of tokens and buckets that earlier training texts lacked; the others keep theirs.

        It is 0 for those that occur in no training text, such as all of them in a new encoder.
        """
        frequency = np.zeros(self.rows, np.int64)
        for first in range(0, len(tokens), _COUNTED_ROWS):
            window = tokens.slice(first, first + _COUNTED_ROWS)
            row = np.repeat(np.arange(len(window)) * self.rows, window.lengths)
            ids = torch.from_numpy(window.ids.astype(np.int64))
            bigrams = row[:-1] + self._bigrams(ids[:-1], ids[1:]).numpy()
            terms = np.sort(np.concatenate([row + ids.numpy(), bigrams[row[:-1] == row[1:]]]))
            distinct = terms[np.diff(terms, prepend=-1) > 0]
            frequency += np.bincount(distinct % self.rows, minlength=self.rows)
            rows_read(len(window))
        idf = np.where(frequency > 0, np.log((1 + len(tokens)) / (1 + frequency)), 0.0)
        self.idf.copy_(torch.where(self.idf > 0, self.idf, torch.from_numpy(idf).to(self.idf.dtype)))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **prepared: Tensor) -> Tensor:
        """Return the encoding, (B, members·width); a training batch may include the result of `prepare_batch`."""
        if self.training:
            prepared = prepared or self.prepare_batch(input_ids, attention_mask)
            bags: Tensor = _Bags.apply(  # type: ignore[no-untyped-call]
                self.embedding.weight, self.members, *(prepared[name] for name in _PREPARED)
            )
            return bags.view(len(input_ids), self.hidden_size)
        rows, weights = self._terms(input_ids, attention_mask)
        # (B, 1, 2L) x (B, 2L, H): gather and matmul, which every runtime has.
        vectors = functional.embedding(rows, self.embedding.weight)
        return torch.bmm(weights[:, None, :], vectors)[:, 0]

    def prepare_batch(
        self, input_ids: Tensor, attention_mask: Tensor, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Drop terms separately for each member, and return the contents of the bags of a batch; reads no parameter.

        The N remaining terms are listed twice: by bag, to sum them, and by row of the table, to sum the gradients.
        Each member has separate rows, (rows·M, D).

        Args:
            input_ids: int64 (B, L).
            attention_mask: int64 (B, L).
            generator: the random generator; None uses torch's default generator.
        """
        rows, weights = self._terms(input_ids, attention_mask)
        kept = self._kept(rows, generator) & (weights > 0)[:, None]
        text, member, position = kept.nonzero().unbind(1)
        bag, place = text * self.members + member, rows[text, position] * self.members + member
        weight = weights[text, position] / self._share_kept
        by_row, order = place.sort(stable=True)
        touched, number = torch.unique_consecutive(by_row // self.members, return_inverse=True)
        terms = torch.bincount(
            number * self.members + by_row % self.members, minlength=len(touched) * self.members
        )
        prepared = (
            place,
            _starts(kept.sum(2).flatten()),
            weight,
            touched,
            bag[order],
            _starts(terms),
            weight[order],
        )
        return dict(zip(_PREPARED, prepared, strict=True))

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
        # The prime scatters the linear function of the ids before the modulo by the number of buckets.
        hashed = (first * _FIRST + second * _SECOND) % _PRIME % self.options.buckets
        return hashed + self.vocab_size

    @property
    def _share_kept(self) -> float:
        return (1 - self.options.token_dropout) * (1 - self.options.span_dropout)

    def _kept(self, rows: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return which terms each member keeps, bool (B, M, 2L): single ones and whole spans are dropped."""
        shape = len(rows), self.members, rows.shape[1]
        draw = partial(torch.rand, device=rows.device, generator=generator)
        spans = draw(*shape[:2], -(-shape[2] // _SPAN)) >= self.options.span_dropout
        terms = draw(shape) >= self.options.token_dropout
        return terms & spans.repeat_interleave(_SPAN, 2)[:, :, : shape[2]]


def _starts(counts: Tensor) -> Tensor:
    """Return the start of each of several consecutive groups."""
    return counts.cumsum(0) - counts


class _Bags(torch.autograd.Function):
    """Σ w·E of each bag, (bags, D), and its sparse gradient, which contains only the rows of the batch.

    torch's own gradient sorts the terms three times, in the training thread.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, members: int, *prepared: Tensor) -> Tensor:
        places, bag_starts, weights, *backward = prepared
        ctx.shape = table.shape
        ctx.save_for_backward(*backward)
        return _sums(table.view(len(table) * members, -1), places, bag_starts, weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, bags, starts, weights = ctx.saved_tensors
        values = _sums(gradient, bags, starts, weights).view(len(rows), ctx.shape[1])
        of_table = torch.sparse_coo_tensor(
            rows[None], values, ctx.shape, is_coalesced=True, check_invariants=False
        )
        return of_table, *[None] * 8


def _sums(table: Tensor, rows: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    return functional.embedding_bag(rows, table, starts, mode="sum", per_sample_weights=weights)
