"""Counts of known words."""

import re
from collections import Counter

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pricekit.text.labelled_lines import as_strings, join_texts
from pricekit.text.words import MOST_WORDS, WordTable, common_words, find_words, split_words


def words_of(texts):
    """Return the words of texts, in parts."""
    return split_words(join_texts(as_strings(pd.Series(texts, dtype=object))))


def split(text):
    """Return the words of a text in plain Python."""
    return re.findall("[a-z0-9\x80-\U0010ffff]+", re.sub("[A-Z]", lambda letter: letter[0].lower(), text))


TEXTS = st.lists(st.text("abAB zé0-,.\n", max_size=30), max_size=8)


@given(TEXTS)
def test_counts_agree_with_plain_python(texts):
    known = ["ab", "a", "zé", "0", "é", "longword" * 20]
    row, word = find_words(words_of(texts), WordTable(known))
    assert (np.diff(row) >= 0).all()
    found = Counter(zip(row.tolist(), word.tolist(), strict=True))
    expected = Counter((n, known.index(w)) for n, text in enumerate(texts) for w in split(text) if w in known)
    assert found == expected


@given(TEXTS)
def test_common_words_are_those_of_most_texts(texts):
    rows = Counter(word for text in texts for word in set(split(text)))
    found = common_words(words_of(texts), 3, 2)
    assert [rows[word] for word in found] == sorted((n for n in rows.values() if n >= 2), reverse=True)[:3]


def test_words_of_many_parts_are_found():
    texts = [f"tea{n % 1000} {'x ' * 300}" for n in range(4000)]
    assert len(words_of(texts)) > 1
    found = common_words(words_of(texts), 2000, 2)
    assert found[0] == "x"
    assert sorted(found[1:]) == sorted(f"tea{n}" for n in range(1000))
    row, word = find_words(words_of(texts), WordTable(["tea7"]))
    assert row.tolist() == [7, 1007, 2007, 3007]
    assert not word.any()


def test_a_table_holds_single_words(raises):
    with raises(ValueError):
        WordTable(["two words"])
    with raises(ValueError):
        WordTable(["a"] * (MOST_WORDS + 1))
