"""Texts to token ids: the same code trains and predicts."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer, normalizers, pre_tokenizers

_ONE_AT_A_TIME = threading.Lock()
"""Several threads may predict, but a tokenizer's truncation and the words it knows are shared."""

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
        return self._pieces(self.offsets[rows], self.lengths[rows])

    def cut(self, max_length: int) -> Tokens:
        """Return the tokens with each row cut to `max_length`."""
        if self.lengths.max(initial=0) <= max_length:
            return self
        return self._pieces(self.offsets[:-1], np.minimum(self.lengths, max_length))

    def _pieces(self, starts: np.ndarray, lengths: np.ndarray) -> Tokens:
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        place = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Tokens(self.ids[place], offsets)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row, int64 (N,)."""
        return np.diff(self.offsets)


def pad_id_of(tokenizer: Tokenizer) -> int:
    """Return the id that the tokenizer pads with, 0 where it names none."""
    return int(tokenizer.padding["pad_id"]) if tokenizer.padding else 0


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    max_length: int,
    pad_id: int,
    known: KnownWords | None = None,
) -> Tokens:
    """Tokenise texts, each cut to `max_length` tokens; a text without tokens becomes one `pad_id`.

    Args:
        tokenizer: that of the model.
        texts: N of them; equal ones are tokenised once.
        max_length: tokens at most.
        pad_id: what pads.
        known: words of earlier calls with this tokenizer, looked up and added to, where each word can be tokenised by
            itself.
    """
    places: dict[str, int] = {}
    of = np.fromiter((places.setdefault(text, len(places)) for text in texts), np.int64, len(texts))
    cut = [text[: CHARS_PER_TOKEN * max_length] for text in places]
    known = known or KnownWords()
    some = _joined([_some(tokenizer, texts, max_length, known) for texts in _slices(cut)])
    found = _with_one_at_least(some, pad_id)
    return found if len(places) == len(texts) else found.take(of)


def _slices(texts: list[str]) -> Iterator[list[str]]:
    """Yield texts of about `_CHARS_AT_ONCE` characters together, a longer one by itself."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    cuts = np.flatnonzero(np.diff(ends[:-1] // _CHARS_AT_ONCE, prepend=0)) + 1
    for start, end in pairwise([0, *cuts.tolist(), len(texts)]):
        yield texts[start:end]


def _joined(parts: list[Tokens]) -> Tokens:
    """Return the tokens of all parts, at least one, one after the other."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths for part in parts])
    return Tokens(np.concatenate([part.ids for part in parts]), np.concatenate([[0], np.cumsum(lengths)]))


def _some(tokenizer: Tokenizer, texts: list[str], max_length: int, known: KnownWords) -> Tokens:
    with _ONE_AT_A_TIME:
        if splits_at_spaces(tokenizer) and not any(mark in text for text in texts for mark in _MARKS):
            return _by_words(tokenizer, texts, max_length, known)
        return _by_texts(tokenizer, texts, max_length)


def splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Say whether a text's tokens are those of its words, one after the other, as they stand between spaces."""
    first = tokenizer.pre_tokenizer
    if isinstance(first, pre_tokenizers.Sequence):
        first = first[0]
    return (
        isinstance(first, pre_tokenizers.Whitespace | pre_tokenizers.WhitespaceSplit)
        and isinstance(tokenizer.normalizer, normalizers.Lowercase | None)
        and tokenizer.post_processor is None
        and not any(
            token.lstrip or token.rstrip or token.content.split() != [token.content]
            for token in tokenizer.get_added_tokens_decoder().values()
        )
    )


_MARKS = "\x1c\x1d\x1e\x1f"
"""What pyarrow takes for spaces and the tokenizer does not."""

_CHARS_AT_ONCE = 1 << 26
"""Of texts tokenised together; pyarrow's strings are 2 GB at most."""

_MAX_KNOWN = 1 << 17
_LONGEST_KNOWN = 64
"""Bytes of a word that is kept; where nothing stands between words a text is one, which is not met again."""

_LOOKED_THROUGH = 8
"""Known words that are looked through in the time that one takes to tokenise: all are, at each call."""

_WORDS_AT_ONCE = 1024


def _by_words(tokenizer: Tokenizer, texts: list[str], max_length: int, known: KnownWords) -> Tokens:
    """Tokenise each word once and look it up afterwards: the same ids in a fraction of the time."""
    split = pc.utf8_split_whitespace(pa.array(texts, pa.string()))
    coded = split.flatten().dictionary_encode()
    every = known.tokens_of(tokenizer, coded.dictionary).take(coded.indices)  # of all texts, word after word
    return Tokens(every.values.to_numpy(), every.offsets.to_numpy()[split.offsets.to_numpy()]).cut(max_length)


class KnownWords:
    """The tokens of words that were met before.

    Attributes:
        words: those words, (W,).
        tokens: of each word, a list array of int32 (W,).
    """

    words: pa.StringArray
    tokens: pa.ListArray

    def __init__(self) -> None:
        self._clear()

    def tokens_of(self, tokenizer: Tokenizer, words: pa.StringArray) -> pa.ListArray:
        """Return the tokens of each word, int32 (N,) lists; new words are tokenised and added.

        Args:
            tokenizer: the same in every call.
            words: different ones, (N,).
        """
        if len(words) * _LOOKED_THROUGH < len(self.words):
            return _of_words(tokenizer, words.to_pylist())
        if len(self.words) > _MAX_KNOWN:
            self._clear()
        found = pc.index_in(words, self.words)
        places = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        new = words.filter(found.is_null())
        tokens = _of_words(tokenizer, new.to_pylist())
        places[places < 0] = len(self.words) + np.arange(len(new))
        result = pa.concat_arrays([self.tokens, tokens]).take(pa.array(places))
        short = pc.less_equal(pc.binary_length(new), _LONGEST_KNOWN)
        self.words = pa.concat_arrays([self.words, new.filter(short)])
        self.tokens = pa.concat_arrays([self.tokens, tokens.filter(short)])
        return result

    def _clear(self) -> None:
        self.words = pa.array([], pa.string())
        self.tokens = pa.array([], pa.list_(pa.int32()))


def _of_words(tokenizer: Tokenizer, words: list[str]) -> pa.ListArray:
    """Return the tokens of each word, many words in one call."""
    groups = [words[i : i + _WORDS_AT_ONCE] for i in range(0, len(words), _WORDS_AT_ONCE)]
    ids, of = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for number, encoding in enumerate(tokenizer.encode_batch(groups, is_pretokenized=True)):
        ids.append(np.array(encoding.ids, np.int32))
        of.append(np.array(encoding.word_ids, np.int64) + number * _WORDS_AT_ONCE)
    offsets = np.zeros(len(words) + 1, np.int32)
    np.cumsum(np.bincount(np.concatenate(of), minlength=len(words)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(ids)))


def _by_texts(tokenizer: Tokenizer, texts: list[str], max_length: int) -> Tokens:
    padding = tokenizer.padding
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    encodings = tokenizer.encode_batch_fast(texts)
    tokenizer.no_truncation()  # as it was: the tokenizer's JSON names the model, not its last call
    if padding:
        tokenizer.enable_padding(**padding)
    return _together([encoding.ids for encoding in encodings])


def _together(rows: Sequence[Sequence[int]]) -> Tokens:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return Tokens(np.fromiter(chain.from_iterable(rows), np.int32, offsets[-1]), offsets)


def _with_one_at_least(tokens: Tokens, pad_id: int) -> Tokens:
    """Return the tokens with one `pad_id` for each row that has none."""
    empty = np.flatnonzero(tokens.lengths == 0)
    ids = np.insert(tokens.ids, tokens.offsets[empty], pad_id)
    return Tokens(ids, tokens.offsets + np.searchsorted(empty, np.arange(len(tokens.offsets))))


def rounded_up(lengths: np.ndarray, multiple_of: int, max_length: int | None) -> np.ndarray:
    """Return lengths, int (N,), rounded up to `multiple_of`, but not above `max_length`."""
    rounded = -(-lengths // multiple_of) * multiple_of
    return rounded if max_length is None else np.minimum(rounded, max_length)


def pad(
    tokens: Tokens, rows: np.ndarray, pad_id: int, multiple_of: int = 1, max_length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return `input_ids` and `attention_mask` of some rows, both int64 (B, L).

    L is the length of the longest of them, `rounded_up`; no row is longer than `max_length`.
    """
    starts = tokens.offsets[rows]
    lengths = tokens.offsets[rows + 1] - starts
    position = np.arange(rounded_up(lengths, multiple_of, max_length).max())
    mask = position < lengths[:, None]
    input_ids = tokens.ids.take(starts[:, None] + position, mode="clip").astype(np.int64)
    input_ids[~mask] = pad_id
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
