"""Texts to token ids: the same code trains and predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

CHARS_PER_TOKEN = 6
"""A text is cut at this many characters for each token of `max_length` before it is tokenised."""


@dataclass(frozen=True)
class Tokens:
    """The token ids of N texts, without padding: row i is `ids[offsets[i]:offsets[i + 1]]`.

    Attributes:
        ids: int32 (T,), all rows one after the other; every row has at least one id.
        offsets: int64 (N + 1,).
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: np.ndarray) -> Tokens:
        """Return the tokens of some rows, int (M,), in the order given."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        place = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return Tokens(self.ids[place], offsets)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row, int64 (N,)."""
        return np.diff(self.offsets)


def pad_id_of(tokenizer: Tokenizer) -> int:
    """Return the id that the tokenizer pads with, 0 where it names none."""
    return int(tokenizer.padding["pad_id"]) if tokenizer.padding else 0


def encode(tokenizer: Tokenizer, texts: Sequence[str], max_length: int, pad_id: int) -> Tokens:
    """Tokenise texts, each cut to `max_length` tokens; a text without tokens becomes one `pad_id`.

    Equal texts are tokenised once.
    """
    places: dict[str, int] = {}
    of = np.fromiter((places.setdefault(text, len(places)) for text in texts), np.int64, len(texts))
    found = _encode(tokenizer, list(places), max_length, pad_id)
    return found if len(places) == len(texts) else found.take(of)


def _encode(tokenizer: Tokenizer, texts: Sequence[str], max_length: int, pad_id: int) -> Tokens:
    padding = tokenizer.padding
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    limit = CHARS_PER_TOKEN * max_length
    encodings = tokenizer.encode_batch_fast([text[:limit] for text in texts])
    tokenizer.no_truncation()  # as it was: the tokenizer's JSON names the model, not its last call
    if padding:
        tokenizer.enable_padding(**padding)
    rows = [encoding.ids or [pad_id] for encoding in encodings]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    ids = np.empty(offsets[-1], np.int32)
    for row, start, end in zip(rows, offsets[:-1], offsets[1:], strict=True):
        ids[start:end] = row
    return Tokens(ids, offsets)


def pad(
    tokens: Tokens, rows: np.ndarray, pad_id: int, multiple_of: int = 1, max_length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return `input_ids` and `attention_mask` of some rows, both int64 (B, L).

    L is the length of the longest of them, rounded up to `multiple_of`, but not above `max_length`, which no
    row is longer than.
    """
    lengths = tokens.offsets[rows + 1] - tokens.offsets[rows]
    rounded = -(-lengths.max() // multiple_of) * multiple_of
    position = np.arange(rounded if max_length is None else min(rounded, max_length))
    mask = position < lengths[:, None]
    input_ids = np.full(mask.shape, pad_id, np.int64)
    input_ids[mask] = tokens.ids[(tokens.offsets[rows][:, None] + position)[mask]]
    return input_ids, mask.astype(np.int64)


def batches_by_length(
    lengths: np.ndarray, rows: np.ndarray, batch_size: int, batch_tokens: int | None = None
) -> Iterator[np.ndarray]:
    """Split rows into batches of alike length, shortest first, so that little is padded.

    Args:
        lengths: of all rows, int (N,).
        rows: those to split.
        batch_size: rows of a batch, at most.
        batch_tokens: tokens of a batch, padding included, at most; a row longer than that is a batch of its own.
    """
    ordered = rows[np.argsort(lengths[rows], kind="stable")]
    start = 0
    while start < len(ordered):
        end = start + batch_size
        if batch_tokens is not None:
            ahead = lengths[ordered[start:end]]
            within = ahead * np.arange(1, len(ahead) + 1) <= batch_tokens
            end = start + max(1, int(within.sum()))
        yield ordered[start:end]
        start = end
