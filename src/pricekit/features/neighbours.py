"""Feature `neighbours`: the prices of the training rows with the most similar texts, and the index that finds them.

Similarity is the cosine of TF-IDF vectors.

The terms of a text are its words and its pairs of neighbouring words, each counted once. A term in `df` of N rows has
the weight 1 + log((1 + N) / (1 + df)) (Salton and Buckley 1988, smoothed as in scikit-learn). The most frequent terms
are left out, so that a search reads `VISITS` rows on average: words such as "the" are in most rows of prose, cost most
of the time, and distinguish least.

Squared weights are rounded to whole numbers, whose sums are exact in float64. So a similarity has the same bits in
every order of summation: for a row alone and in a batch, and for two rows with the same terms.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from pricekit.config import Search, Section
from pricekit.core.contracts import Feature, State
from pricekit.io.packing import pack, unpack
from pricekit.table import Table
from pricekit.text.labelled_lines import Block, Bools, Floats, Ints, LastOpened, as_list, distinct, evenly
from pricekit.wording import shorten

VISITS = 50_000
"""Mean number of rows that a search reads, counted once for each term that they share with the text."""

MOST_ROWS, MOST_TERMS, MOST_PLACES = 1_000_000, 1_000_000, 20_000_000
"""Limits of an index: rows, terms, and pairs of a term and a row that has it."""

WORDS_OF_A_TEXT = 512
"""Words of a text after this many are not read."""
_WORD = re.compile(r"[^\W_]{1,40}")  # longer runs of letters and digits are codes or damage, and are cut
_WHOLE = 1 << 20
"""Squared weights are rounded to multiples of 1 / 2^20; the sum over a text stays below 2^53 such parts."""
_BLOCK = 128
"""Rows whose highest score is found first, see `_best`."""


@dataclass(frozen=True)
class Index:
    """N texts by their T terms.

    Attributes:
        words: the number of each word that occurs in a term, below W.
        terms: codes in ascending order, int64 (T,): a word has its number, and a pair of words W + W · first + second.
        start: where the rows of each term begin in `rows`, and the end of the last ones, int64 (T + 1,).
        rows: the rows of each term, ascending, int32.
        weights: the squared weight of each term, whole numbers as float64 (T,).
        scale: one divided by the length of each row's vector, 0 for a row without terms, float64 (N,).
    """

    words: Mapping[str, int]
    terms: Ints
    start: Ints
    rows: npt.NDArray[np.int32]
    weights: Floats
    scale: Floats

    def __len__(self) -> int:
        return len(self.scale)


def index_texts(texts: Iterable[str], *, most_terms: int) -> dict[str, Any]:
    """Return the index of N texts as JSON values, which `open_index` reads.

    Args:
        texts: at most `MOST_ROWS`.
        most_terms: the number of terms to keep, the most frequent ones first, of equally frequent ones words first.
    """
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    word, length = _numbers(texts, number.__getitem__)
    codes, rows = _terms_of(word, length, len(number))
    most = max(len(length), 1)
    places = distinct(codes * most + rows)  # one number for each pair of a term and a row
    first = np.flatnonzero(np.diff(places // most, prepend=-1))
    codes, count = places[first] // most, np.diff(np.append(first, len(places)))
    kept = _chosen(count, most, most_terms)
    place = np.repeat(np.arange(np.count_nonzero(kept)), count[kept]) * most
    place += places[np.repeat(kept, count)] % most
    words, codes = _renumbered(list(number), codes[kept])
    return {
        "rows": len(length),
        "words": " ".join(words),
        "terms": pack(np.diff(codes, prepend=0)),
        "places": pack(np.diff(place, prepend=0).astype(np.int32)),
    }


def open_index(state: Mapping[str, Any]) -> Index:
    """Return the index that `index_texts` described.

    Raises:
        ValueError, TypeError, KeyError: the state is damaged, or exceeds the limits of an index.
    """
    count = _checked(state["rows"], MOST_ROWS, "rows")
    _checked(state["words"].count(" "), 2 * MOST_TERMS, "words")
    words = {word: number for number, word in enumerate(state["words"].split())}
    terms = _rising(unpack(state["terms"], np.int64, most=MOST_TERMS), len(words) * (len(words) + 1))
    place = _rising(unpack(state["places"], np.int32, most=MOST_PLACES), len(terms) * count)
    start = np.searchsorted(place, np.arange(len(terms) + 1) * count)
    rows_of = np.diff(start)
    place -= np.repeat(np.arange(len(terms)) * count, rows_of)
    rows = place.astype(np.int32)
    weights = np.rint(_WHOLE * np.square(np.log((1 + count) / (1 + rows_of)) + 1))
    squared = np.bincount(rows, np.repeat(weights, rows_of), minlength=count)
    scale = np.divide(1, np.sqrt(squared), out=np.zeros(count), where=squared > 0)
    return Index(words, terms, start, rows, weights, scale)


def nearest(
    index: Index, texts: Sequence[str], k: int, allowed: Callable[[int], Bools] | None = None
) -> tuple[Ints, Floats]:
    """Return the k most similar rows of each text, the most similar first; of equally similar rows the first.

    Args:
        index: of N rows.
        texts: Q texts.
        k: at least 1.
        allowed: returns for the number of a text which rows may be found, bool (N,); None: all of them.

    Returns:
        Row numbers, int64 (Q, k), and their cosine similarities above 0 up to 1, float64 (Q, k). A text that shares
        terms with fewer than k rows has -1 and 0 in the other places.
    """
    rows, similarity = np.full((len(texts), k), -1, np.int64), np.zeros((len(texts), k))
    if not len(index.terms):
        return rows, similarity
    numbers, length = _numbers(texts, lambda word: index.words.get(word, -1))
    codes, text = _terms_of(numbers, length, len(index.words))
    term = np.searchsorted(index.terms[:-1], codes)  # the last term stands for those after it, too
    known = index.terms[term] == codes
    text, term = np.divmod(distinct(text[known] * len(index.terms) + term[known]), len(index.terms))
    cut = np.searchsorted(text, np.arange(len(texts) + 1)).tolist()
    for number, (a, b) in enumerate(itertools.pairwise(cut)):
        if a < b:
            best, cosine = _search(index, term[a:b], k, None if allowed is None else allowed(number))
            rows[number, : len(best)], similarity[number, : len(best)] = best, cosine
    return rows, similarity


def _search(index: Index, terms: Ints, k: int, allowed: Bools | None) -> tuple[Ints, Floats]:
    """Return up to k allowed rows that share one of at least one distinct terms, and their similarities."""
    start, end, weights = index.start[terms], index.start[terms + 1], index.weights[terms]
    shared = np.concatenate([index.rows[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)])
    score: Floats = index.scale * np.bincount(shared, np.repeat(weights, end - start), minlength=len(index))
    if allowed is not None:
        score[~allowed] = 0
    best = _best(score, k)
    return best, np.minimum(score[best] / np.sqrt(weights.sum()), 1.0)


def _best(score: Floats, k: int) -> Ints:
    """Return the places of the k highest scores above 0, the highest first.

    Each of the k blocks with the highest maxima has a score that is at least the lowest of these maxima, so only scores
    from there on are sorted.
    """
    blocks = len(score) // _BLOCK
    least = 0.0
    if blocks > k:
        highest = score[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        least = np.partition(highest, blocks - k)[blocks - k]
    places = np.flatnonzero(score >= least) if least > 0 else np.flatnonzero(score)
    return places[np.lexsort((places, -score[places]))[:k]]


def _numbers(texts: Iterable[str], number: Callable[[str], int]) -> tuple[Ints, Ints]:
    """Return the number of each word of the texts, int64 (L,), and the words of each text, int64 (Q,)."""
    word, length = array("q"), array("q")  # a list of Python's numbers would take several times the memory
    for text in texts:
        words = _WORD.findall(text.lower())[:WORDS_OF_A_TEXT]
        length.append(len(words))
        word.extend(map(number, words))
    return np.array(word, np.int64), np.array(length, np.int64)


def _terms_of(word: Ints, length: Ints, words: int) -> tuple[Ints, Ints]:
    """Return the code and the text of each term, with repetitions; a word with a negative number is in no term."""
    text = np.repeat(np.arange(len(length)), length)
    known = word >= 0
    pair = known[1:] & known[:-1] & (text[1:] == text[:-1])
    pairs = words + words * word[:-1][pair] + word[1:][pair]
    return np.concatenate([word[known], pairs]), np.concatenate([text[known], text[1:][pair]])


def _chosen(count: Ints, rows: int, most_terms: int) -> Bools:
    """Return which terms to keep: not the rarest ones beyond `most_terms`, and not the most frequent ones.

    A search for a text like the training texts reads the sum of count² / rows over the terms on average.
    """
    frequent = np.argsort(-count, kind="stable")[:most_terms]
    order = frequent[::-1]
    reads, places = np.cumsum(np.square(count[order], dtype=np.float64)) / rows, np.cumsum(count[order])
    kept = np.zeros(len(count), bool)
    kept[order[(reads <= VISITS) & (places <= MOST_PLACES)]] = True
    return kept


def _renumbered(words: list[str], codes: Ints) -> tuple[list[str], Ints]:
    """Leave out the words that occur in no term; return the others and the codes with their numbers."""
    of = len(words)
    alone = codes[codes < of]
    first, second = np.divmod(codes[len(alone) :] - of, max(of, 1))
    used = np.unique(np.concatenate([alone, first, second]))
    alone, first, second = (np.searchsorted(used, old) for old in (alone, first, second))
    pairs = len(used) + len(used) * first + second
    return [words[old] for old in used.tolist()], np.concatenate([alone, pairs])


def _rising(steps: npt.NDArray[Any], end: int) -> Ints:
    """Return the sums of steps; raise ValueError unless they rise from at least 0 to below an end."""
    if len(steps) and (steps[0] < 0 or steps[1:].min(initial=1) < 1 or steps.max() >= max(end, 1)):
        raise ValueError("its numbers do not rise")
    sums = np.cumsum(steps, dtype=np.int64)
    if len(sums) and sums[-1] >= end:
        raise ValueError(f"it contains {sums[-1]:,}, expected a number below {end:,}")
    return sums


def _checked(count: Any, most: int, what: str) -> int:
    if not isinstance(count, int) or not 0 <= count <= most:
        raise ValueError(f"it has {shorten(str(count))} {what}, expected {most:,} at most")
    return count


_TEXTS = 1_000
"""Texts that are searched together; more take more memory and no less time."""
_HIGHEST = 700.0
"""The log of every price is closer to 0 than this."""


class Neighbours(Feature):
    """The prices of the training rows with the most similar texts, see `nearest`.

    | column | meaning |
    |---|---|
    | neighbour_log_price | mean log price of the k nearest rows, weighted by similarity to the power of `power` |
    | nearest_log_price | log price of the nearest row |
    | nearest_similarity | its similarity, from 0 to 1 |

    A text that shares no term with a training row has the mean log price of all training rows and the similarity 0.
    """

    names = ("neighbour_log_price", "nearest_log_price", "nearest_similarity")
    uses_price = True
    holds_training_rows = True

    def describe(self, state: State) -> dict[str, str]:
        """Return what the columns are."""
        what = (
            "prices of similar training rows",
            "price of the nearest training row",
            "similarity of that row",
        )
        return dict(zip(self.names, what, strict=True))

    class Options(Section):
        """Options of `neighbours`."""

        k: Annotated[int, Search(4, 24, log=True)] = Field(
            8, ge=1, le=256, description="number of neighbours"
        )
        power: Annotated[float, Search(1.0, 6.0)] = Field(
            3.0, ge=0, le=20, description="power of the similarity that weighs a neighbour"
        )
        terms: int = Field(500_000, ge=1, le=MOST_TERMS, description="maximum number of words and word pairs")
        rows: int = Field(
            100_000,
            ge=1,
            le=MOST_ROWS,
            description="maximum number of training rows; of more, some are chosen evenly",
        )

    def __init__(self, options: Options) -> None:
        self.options = options
        self._open = LastOpened(_Priced)

    def fit(self, table: Table, price: np.ndarray) -> State:  # type: ignore[override]
        """Index N training rows.

        Returns:
            {"index": see `index_texts`, "log_price": of its rows, packed float32, "mean": of all log prices}.
        """
        every = np.log(price)
        rows = evenly(len(table), self.options.rows)
        texts = as_list(table.text.iloc[rows])
        return {
            "index": index_texts(texts, most_terms=self.options.terms),
            "log_price": pack(every[rows].astype(np.float32)),
            "mean": float(every.mean()) if len(every) else 0.0,
        }

    def check_state(self, state: State) -> None:
        """Open a state for `transform`; raises ValueError or another exception if it is damaged."""
        self._open(state)

    def transform(self, table: Table, state: State) -> Block:
        """Return the columns, float32 (N, 3)."""
        priced = self._open(state)
        block = np.empty((len(table), len(self.names)), np.float32)
        texts = as_list(table.text)
        for start in range(0, len(texts), _TEXTS):
            similar = nearest(priced.index, texts[start : start + _TEXTS], self.options.k)
            for row, (rows, similarity) in enumerate(zip(*similar, strict=True), start):
                block[row] = self._columns(priced, rows[similarity > 0], similarity[similarity > 0])
        return block

    def _columns(self, priced: _Priced, rows: Ints, similarity: Floats) -> Floats:
        """Return the columns of one text from its neighbours; one by one, so that no sum depends on other texts."""
        if not len(rows):
            return np.array([priced.mean, priced.mean, 0.0])
        price, weight = priced.log_price[rows], similarity**self.options.power
        mean = float((price * weight).sum() / weight.sum())
        return np.array([mean, price[0], similarity[0]])


class _Priced:
    """An index whose rows have prices."""

    def __init__(self, state: State) -> None:
        self.index: Index = open_index(state["index"])
        self.log_price = unpack(state["log_price"], np.float32, most=MOST_ROWS).astype(np.float64)
        self.mean = float(state["mean"])
        if len(self.log_price) != len(self.index):
            raise ValueError(f"it has {len(self.log_price):,} prices for {len(self.index):,} rows")
        if not (np.abs([*self.log_price, self.mean]) < _HIGHEST).all():
            raise ValueError("a price is not positive and finite")
