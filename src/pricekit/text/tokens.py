"""Texts to token ids; training and prediction use the same code."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from pricekit.errors import BundleError, is_panic
from pricekit.text.kernel import kernel
from pricekit.text.labelled_lines import FEW_TEXTS, Strings, bytes_of, in_parts, offsets_of, ranges
from pricekit.wording import shorten

CHARS_PER_TOKEN = 6
"""A text is cut to this many characters for each token of `max_length` before it is tokenised."""

_LOCK = threading.RLock()
"""Several threads may predict. They share a tokenizer's truncation setting and a `WordCache`."""


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread tokenises, so that the child has tokenizers in their normal state.
    os.register_at_fork(
        before=lambda: _LOCK.acquire(), after_in_parent=lambda: _LOCK.release(), after_in_child=_renew_lock
    )

_OTHER_SPACES = "\x1c\x1d\x1e\x1f"
"""Characters that pyarrow and Python split at and the tokenizer does not."""

_BATCH_CHARS = 1 << 26
"""Characters that are tokenised in one batch, which takes about five times as many bytes."""

_CACHED_WORDS = 1 << 17
"""A cache with more words than this is cleared."""

_CACHED_WORD_BYTES = 64
"""Longer words are not cached: in languages without spaces, a word is a whole text, which does not recur."""

_CACHED_BYTES = 1 << 23
"""A compiled cache with more bytes of words than this is cleared."""

_CACHED_WORDS_PER_WORD = 8
"""A lookup scans the whole cache. It is worthwhile up to this many cached words per word that is looked up."""

_WORDS_PER_CALL = 1024


@dataclass(frozen=True)
class Tokens:
    """The token ids of N texts, without padding: row i is `ids[offsets[i]:offsets[i + 1]]`.

    Attributes:
        ids: int32 (T,), row after row; each row has at least one id.
        offsets: int64 (N + 1,).
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: np.ndarray) -> Tokens:
        """Return the tokens of rows, int (M,), in the given order."""
        return self._slices(self.offsets[rows], self.lengths[rows])

    def slice(self, start: int, stop: int) -> Tokens:
        """Return the tokens of consecutive rows, as a view."""
        offsets = self.offsets[start : stop + 1]
        return Tokens(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])

    def truncate(self, max_length: int) -> Tokens:
        """Return the tokens with each row cut to `max_length`."""
        if self.lengths.max(initial=0) <= max_length:
            return self
        return self._slices(self.offsets[:-1], np.minimum(self.lengths, max_length))

    def _slices(self, starts: np.ndarray, lengths: np.ndarray) -> Tokens:
        return Tokens(self.ids[ranges(starts, lengths)], offsets_of(lengths))

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row, int64 (N,)."""
        return np.diff(self.offsets)


def pad_id_of(tokenizer: Tokenizer) -> int:
    """Return the id that the tokenizer pads with, 0 if it has none."""
    return int(tokenizer.padding["pad_id"]) if tokenizer.padding else 0


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    max_length: int,
    pad_id: int,
    cache: WordCache | None = None,
) -> Tokens:
    """Tokenise texts, each cut to `max_length` tokens; a text without tokens becomes one `pad_id`.

    Raises BundleError if the tokenizer fails, for example because it has no token for unknown characters.

    Args:
        tokenizer: the model's tokenizer.
        texts: N texts; equal ones are tokenised once.
        max_length: the maximum number of tokens per text.
        pad_id: the padding id.
        cache: words of earlier calls with this tokenizer; new words are added. It is used only if the tokenizer
            processes each word separately.
    """
    cache = cache or WordCache()
    if len(texts) <= FEW_TEXTS:
        return _encode_few(tokenizer, texts, max_length, pad_id, cache)
    distinct: dict[str, int] = {}
    index = np.fromiter((distinct.setdefault(text, len(distinct)) for text in texts), np.int64, len(texts))
    cut = [text[: CHARS_PER_TOKEN * max_length] for text in distinct]
    sizes = np.fromiter(map(len, cut), np.int64, len(cut))
    parts = [
        _tokenize(tokenizer, cut[first:last], max_length, cache)
        for first, last in in_parts(sizes, _BATCH_CHARS)
    ]
    offsets = offsets_of(np.concatenate([part.lengths for part in parts]))
    filled = _fill_empty_rows(Tokens(np.concatenate([part.ids for part in parts]), offsets), pad_id)
    return filled if len(distinct) == len(texts) else filled.take(index)


def _encode_few(
    tokenizer: Tokenizer, texts: Sequence[str], max_length: int, pad_id: int, cache: WordCache
) -> Tokens:
    """Return what `encode` returns of a few texts."""
    texts = [text[: CHARS_PER_TOKEN * max_length] for text in texts]
    with _LOCK:
        if cache.splits(tokenizer) and not _has_other_spaces(texts):
            rows = [ids[:max_length] for ids in cache.ids_of(tokenizer, [text.split() for text in texts])]
        else:
            rows = _ids_of_texts(tokenizer, texts, max_length)
    return _tokens_of([row or [pad_id] for row in rows])


def _tokens_of(rows: Sequence[list[int]]) -> Tokens:
    offsets = np.fromiter(accumulate(map(len, rows), initial=0), np.int64, len(rows) + 1)
    return Tokens(np.fromiter(chain.from_iterable(rows), np.int32, offsets[-1]), offsets)


def _has_other_spaces(texts: Iterable[str]) -> bool:
    return any(space in text for text in texts for space in _OTHER_SPACES)


def encode_compiled(
    tokenizer: Tokenizer, texts: Strings, max_length: int, pad_id: int, cache: WordCache, short: int
) -> Tokens | None:
    """Return what `encode` returns of texts whose short lines were moved behind the first one.

    It is None without a kernel, for a few texts, and if the tokenizer does not process each word separately.

    Args:
        tokenizer: as of `encode`.
        texts: N texts, without nulls.
        max_length: as of `encode`.
        pad_id: as of `encode`.
        cache: as of `encode`.
        short: maximum number of characters of a short line; -1: lines stay where they are.
    """
    with _LOCK:
        if cache.compiled is None or len(texts) <= FEW_TEXTS or not cache.splits(tokenizer):
            return None
        offset, data = bytes_of(texts)
        tokenize, characters = partial(_ids_of_words, tokenizer), CHARS_PER_TOKEN * max_length
        ids, lengths = cache.compiled(data, offset, max_length, characters, short, tokenize)
    return _fill_empty_rows(Tokens(ids, offsets_of(lengths)), pad_id)


def _tokenize(tokenizer: Tokenizer, texts: list[str], max_length: int, cache: WordCache) -> Tokens:
    with _LOCK:
        if not cache.splits(tokenizer) or _has_other_spaces(texts):
            return _tokens_of(_ids_of_texts(tokenizer, texts, max_length))
        return _tokenize_distinct_words(tokenizer, texts, max_length, cache)


def splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Return whether the tokens of a text are the tokens of its space-separated words, in order."""
    first = tokenizer.pre_tokenizer
    if isinstance(first, pre_tokenizers.Sequence):
        first = next(iter(first), None)
    return (
        isinstance(first, pre_tokenizers.Whitespace | pre_tokenizers.WhitespaceSplit)
        and isinstance(tokenizer.normalizer, normalizers.Lowercase | None)
        and tokenizer.post_processor is None
        and not any(
            token.lstrip or token.rstrip or token.content.split() != [token.content]
            for token in tokenizer.get_added_tokens_decoder().values()
        )
    )


def _tokenize_distinct_words(
    tokenizer: Tokenizer, texts: list[str], max_length: int, cache: WordCache
) -> Tokens:
    """Tokenise each distinct word once. The ids equal those of whole texts, in a fraction of the time."""
    split = pc.utf8_split_whitespace(pa.array(texts, pa.large_string()))
    encoded = split.flatten().dictionary_encode()
    words = cache.tokens_of(tokenizer, encoded.dictionary).take(encoded.indices)  # of all texts, in order
    offsets = words.offsets.to_numpy()[split.offsets.to_numpy()]
    return Tokens(words.values.to_numpy(), offsets).truncate(max_length)


class WordCache:
    """The tokens of words seen before; the tokenizer is the same one in every call.

    Attributes:
        compiled: that of a kernel, which replaces this one for many texts; None without a kernel.
        words: the words of many texts, (W,).
        tokens: the ids of each word, a list array of int32 (W,).
        ids: the ids of each word of a few texts.
    """

    words: pa.LargeStringArray
    tokens: pa.ListArray
    ids: dict[str, list[int]]

    def __init__(self) -> None:
        compiled = kernel()
        self.compiled = None if compiled is None else compiled.word_ids(_CACHED_WORDS, _CACHED_BYTES)
        self._splits: bool | None = None
        self.ids = {}
        self._clear()

    def splits(self, tokenizer: Tokenizer) -> bool:
        """Return `splits_at_spaces` of the tokenizer, which is computed once."""
        if self._splits is None:
            self._splits = splits_at_spaces(tokenizer)
        return self._splits

    def ids_of(self, tokenizer: Tokenizer, texts: Sequence[list[str]]) -> list[list[int]]:
        """Return the ids of a few texts from their words; new words are tokenised and added."""
        if len(self.ids) > _CACHED_WORDS:
            self.ids = {}
        distinct = dict.fromkeys(chain.from_iterable(texts))
        new = [word for word in distinct if word not in self.ids]
        added: dict[str, list[int]] = {word: [] for word in new}
        if new:
            with _ready(tokenizer):
                encoding = tokenizer.encode(new, is_pretokenized=True)
            for token, number in zip(encoding.ids, encoding.word_ids, strict=True):
                if number is not None:
                    added[new[number]].append(token)
        known = self.ids | added if any(len(word) > _CACHED_WORD_BYTES for word in new) else self.ids
        self.ids.update((word, ids) for word, ids in added.items() if len(word) <= _CACHED_WORD_BYTES)
        return [[token for word in words for token in known[word]] for words in texts]

    def tokens_of(self, tokenizer: Tokenizer, words: pa.LargeStringArray) -> pa.ListArray:
        """Return the tokens of each word, int32 (N,) lists; new words are tokenised and added.

        Args:
            tokenizer: of the words.
            words: distinct words, (N,).
        """
        if len(words) * _CACHED_WORDS_PER_WORD < len(self.words):
            return _tokenize_words(tokenizer, words.to_pylist())
        if len(self.words) > _CACHED_WORDS:
            self._clear()
        place = pc.index_in(words, self.words)
        positions = pc.fill_null(place, -1).to_numpy().astype(np.int64)
        new = words.filter(place.is_null())
        tokens = _tokenize_words(tokenizer, new.to_pylist())
        positions[positions < 0] = len(self.words) + np.arange(len(new))
        result = pa.concat_arrays([self.tokens, tokens]).take(pa.array(positions))
        short = pc.less_equal(pc.binary_length(new), _CACHED_WORD_BYTES)
        self.words = pa.concat_arrays([self.words, new.filter(short)])
        self.tokens = pa.concat_arrays([self.tokens, tokens.filter(short)])
        return result

    def _clear(self) -> None:
        self.words = pa.array([], pa.large_string())
        self.tokens = pa.array([], pa.list_(pa.int32()))


def _tokenize_words(tokenizer: Tokenizer, words: list[str]) -> pa.ListArray:
    """Return the tokens of each word, many words in one call."""
    groups = [words[i : i + _WORDS_PER_CALL] for i in range(0, len(words), _WORDS_PER_CALL)]
    ids, word = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    with _ready(tokenizer):
        encodings = tokenizer.encode_batch(groups, is_pretokenized=True)
    for number, encoding in enumerate(encodings):
        ids.append(np.array(encoding.ids, np.int32))
        word.append(np.array(encoding.word_ids, np.int64) + number * _WORDS_PER_CALL)
    offsets = np.zeros(len(words) + 1, np.int32)
    np.cumsum(np.bincount(np.concatenate(word), minlength=len(words)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(ids)))


def _ids_of_words(tokenizer: Tokenizer, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of words, int32 (T,), and where those of each begin and end, int64 (W + 1,)."""
    tokens = _tokenize_words(tokenizer, words)
    return tokens.values.to_numpy(), tokens.offsets.to_numpy().astype(np.int64)


def _ids_of_texts(tokenizer: Tokenizer, texts: list[str], max_length: int) -> list[list[int]]:
    with _ready(tokenizer):
        tokenizer.enable_truncation(max_length)
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]


@contextmanager
def _ready(tokenizer: Tokenizer) -> Iterator[None]:
    """Turn off padding and truncation; restore the padding, because the tokenizer's JSON is part of the model.

    Raises:
        BundleError: the tokenizer fails, or the library panics.
    """
    try:
        padding = tokenizer.padding
        try:
            tokenizer.no_padding()
            tokenizer.no_truncation()
            yield
        finally:
            tokenizer.no_truncation()
            if padding:
                tokenizer.enable_padding(**padding)
    except BaseException as error:  # the library raises bare Exceptions, and panics
        if type(error) is not Exception and not is_panic(error):
            raise
        raise BundleError(
            f"the model's tokenizer ({type(tokenizer.model).__name__}) cannot tokenise these texts: "
            f"{shorten(str(error), 300)}. Train or export the model again; do not trust one of others that does this"
        ) from error


def _fill_empty_rows(tokens: Tokens, pad_id: int) -> Tokens:
    """Return the tokens with one `pad_id` in each row that has none."""
    empty = np.flatnonzero(tokens.lengths == 0)
    if not len(empty):
        return tokens
    ids = np.insert(tokens.ids, tokens.offsets[empty], pad_id)
    return Tokens(ids, tokens.offsets + np.searchsorted(empty, np.arange(len(tokens.offsets))))


def round_up(lengths: np.ndarray, multiple_of: int, max_length: int | None) -> np.ndarray:
    """Return lengths, int (N,), rounded up to a multiple of `multiple_of`, but not above `max_length`."""
    rounded = -(-lengths // multiple_of) * multiple_of
    return rounded if max_length is None else np.minimum(rounded, max_length)


def pad_rows(
    tokens: Tokens, rows: np.ndarray, pad_id: int, multiple_of: int = 1, max_length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the padded `input_ids` and the `attention_mask` of rows, both int64 (B, L).

    L is the length of the longest row, rounded by `round_up`; no row may be longer than `max_length`.
    """
    starts = tokens.offsets[rows]
    lengths = tokens.offsets[rows + 1] - starts
    length = int(round_up(lengths, multiple_of, max_length).max())
    if (compiled := kernel()) is not None:
        return compiled.pad(tokens.ids, tokens.offsets, rows, pad_id, length)
    position = np.arange(length)
    mask = position < lengths[:, None]
    input_ids = tokens.ids.take(starts[:, None] + position, mode="clip").astype(np.int64)
    input_ids[~mask] = pad_id
    return input_ids, mask.astype(np.int64)


def batches_by_length(
    lengths: np.ndarray, rows: np.ndarray, batch_size: int, batch_tokens: int | None = None
) -> Iterator[np.ndarray]:
    """Split rows into batches of similar length, shortest first, to keep padding small.

    Args:
        lengths: the length of every row, int (N,).
        rows: the rows to split, int (M,).
        batch_size: the maximum number of rows per batch.
        batch_tokens: the maximum number of tokens per batch, padding included; a longer row is a separate batch.
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


LONGEST_WORD = 100
"""Characters of a token that a tokenizer learns: longer words are Thai or Chinese sentences, or data."""


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    unknown: str,
    around: tuple[str, str] | None = None,
    punctuation: bool = True,
) -> Tokenizer:
    """Train a lower-casing BPE tokenizer.

    WordPiece is no alternative: its trainer breaks ties in a different order each time, so runs would not be
    reproducible.

    Args:
        texts: the training texts.
        vocab_size: maximum size of the vocabulary.
        special_tokens: get the first ids, in order.
        unknown: the special token for characters outside the vocabulary.
        around: special tokens that begin and end every text.
        punctuation: whether punctuation becomes tokens; otherwise only letters and digits do.
    """
    tokenizer = Tokenizer(models.BPE(unk_token=unknown, ignore_merges=True))
    # Tokenising limits the speed of prediction; these two are twice as fast as NFKC and BERT's rules.
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace() if punctuation else _words()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=list(special_tokens),
        show_progress=False,
        max_token_length=LONGEST_WORD,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if around:
        ids = [(token, tokenizer.token_to_id(token)) for token in around]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{around[0]} $A {around[1]}", special_tokens=ids
        )
    return tokenizer


def _words() -> pre_tokenizers.PreTokenizer:
    words = pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True)
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), words])
