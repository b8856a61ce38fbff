import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.text import likeness
from pricekit.text.likeness import equal_texts, few_distinct


def series(texts):
    return pd.Series(texts, dtype="str")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Dark Roast, 12 oz", "dark  roast 12 OZ!", True),
        ("Dark Roast, 12 oz", "Dark Roast, 13 oz", False),
        ("1.5 l", "15 l", False),
        ("का", "की", False),  # marks are letters' parts
        ("１２ oz", "12 oz", True),
        ("!!", "??", False),
        ("", "", True),
    ],
)
def test_texts_that_differ_in_case_and_punctuation_are_equal(one, other, same):
    assert len(set(equal_texts(series([one, other])))) == (1 if same else 2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=8), max_size=30))
def test_equal_texts_are_numbered_as_they_appear(texts):
    codes = equal_texts(series(texts))
    assert len(codes) == len(texts)
    assert sorted(set(codes)) == list(range(len(set(codes))))
    assert all(codes[i] == codes[texts.index(text)] for i, text in enumerate(texts))


def test_parts_of_a_table_are_compared_with_each_other(monkeypatch):
    texts = series(["Green tea", "", "ink", "!", "green TEA.", "ink"] * 5)
    whole = equal_texts(texts)
    monkeypatch.setattr(likeness, "PART_BYTES", 8)
    assert len(list(likeness.text_parts(texts))) > 5
    assert np.array_equal(equal_texts(texts[::1].map(str)), whole)
    assert whole[:6].tolist() == [0, 1, 2, 3, 0, 2]


def test_the_numbers_of_texts_are_computed_once(monkeypatch):
    texts = series(["tea", "ink", "Tea"])
    numbers = equal_texts(texts)
    monkeypatch.setattr(likeness, "normal_words", None)
    assert equal_texts(texts) is equal_texts(texts.copy()) is numbers
    monkeypatch.undo()
    texts.iloc[2] = "pot"
    assert equal_texts(texts).tolist() == [0, 1, 2]


def test_few_distinct_texts_are_labels():
    assert few_distinct(np.zeros(6, int))
    assert not few_distinct(np.arange(6))
    assert not few_distinct(np.zeros(0, int))
