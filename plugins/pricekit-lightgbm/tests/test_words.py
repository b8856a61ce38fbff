import string

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pricekit_lightgbm.words import count_words, most_common, split_words


def texts_of(*texts):
    return pd.Series(texts, dtype="str")


def test_words_are_lower_case_and_without_punctuation_around_them():
    words = split_words(texts_of("Green TEA, (Pack of 6)", "", " -- 12.5 oz; é½!"))
    assert words.word.to_pylist()[:5] == ["green", "tea", "pack", "of", "6"]
    assert [w for w in words.word.to_pylist()[5:] if w] == ["12.5", "oz", "é½"]
    assert words.row.tolist()[:5] == [0] * 5
    assert words.rows == 3


def test_words_are_ranked_by_the_number_of_texts():
    words = split_words(texts_of("tea tea tea tea", "a cup", "a jar", "cup a", "- . -"))
    assert most_common(words, 9, 1) == ["a", "cup", "tea", "jar"]  # of equals the one that was met first
    assert most_common(words, 9, 2) == ["a", "cup"]
    assert most_common(words, 1, 1) == ["a"]
    assert most_common(words, 0, 1) == []


def test_words_are_counted():
    counts = count_words(split_words(texts_of("tea, a tea", "", "cup")), ["tea", "cup", "jar"])
    assert counts.toarray().tolist() == [[2, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert counts.dtype == np.float32


@pytest.mark.parametrize("texts", [[], [""], ["", " \n "], ["-"]])
def test_texts_without_words(texts):
    words = split_words(texts_of(*texts))
    assert most_common(words, 9, 1) == []
    assert count_words(words, []).shape == (len(texts), 0)
    assert count_words(words, ["tea"]).toarray().tolist() == [[0]] * len(texts)


@settings(max_examples=60)
@given(st.lists(st.text("aB1.-, \n\té½", max_size=20), max_size=6))
def test_the_counts_equal_those_of_plain_python(texts):
    expected = [[w.strip(string.punctuation) for w in text.lower().split()] for text in texts]
    words = split_words(texts_of(*texts))
    vocabulary = most_common(words, 1000, 1)
    assert set(vocabulary) == {w for row in expected for w in row if w}
    counted = count_words(words, vocabulary).toarray()
    assert counted.tolist() == [[row.count(word) for word in vocabulary] for row in expected]
