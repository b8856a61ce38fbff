"""Word counts of many texts, computed with pyarrow and scipy.

A word is a run of characters without whitespace, in lower case, without punctuation at either end.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix

from pricekit.plugin import as_strings, numpy_of


@dataclass(frozen=True)
class Words:
    """The W words of N texts, in order.

    Attributes:
        word: large strings, (W,); "" for a word of punctuation only.
        row: the text of each word, (W,).
        rows: N.
    """

    word: pa.LargeStringArray
    row: npt.NDArray[np.int64]
    rows: int


def split_words(texts: pd.Series[str]) -> Words:
    """Split texts into their words."""
    found = pc.ascii_split_whitespace(pc.utf8_lower(as_strings(texts)))
    word = pc.ascii_trim(found.flatten(), characters=string.punctuation)
    return Words(word, numpy_of(pc.list_parent_indices(found)), len(found))


def most_common(words: Words, most: int, least_rows: int) -> list[str]:
    """Return the words that occur in the most texts, most frequent first.

    Args:
        words: the words of the training rows.
        most: maximum number of words to return.
        least_rows: minimum number of texts that a word must occur in.
    """
    coded = words.word.dictionary_encode()
    kinds = len(coded.dictionary)
    once = np.unique(words.row * kinds + numpy_of(coded.indices))
    rows_of = np.bincount(once % max(kinds, 1), minlength=kinds)
    rows_of[numpy_of(pc.equal(coded.dictionary, ""))] = 0
    # Equally frequent words are ordered by their first occurrence.
    order = np.argsort(-rows_of, kind="stable")[:most]
    chosen = order[rows_of[order] >= least_rows]
    return [str(word) for word in coded.dictionary.take(pa.array(chosen)).to_pylist()]


def count_words(words: Words, vocabulary: Sequence[str]) -> csr_matrix:
    """Count how often each of the V words of a vocabulary occurs in each text, float32 (N, V)."""
    place = pc.index_in(words.word, value_set=pa.array(vocabulary, pa.large_string()))
    column = numpy_of(pc.fill_null(place, -1))
    known = column >= 0
    ones = np.ones(int(known.sum()), np.float32)
    return csr_matrix((ones, (words.row[known], column[known])), shape=(words.rows, len(vocabulary)))
