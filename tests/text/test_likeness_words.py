import re
import unicodedata
from itertools import pairwise

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pricekit.text.likeness import normal_words, text_parts

LETTERS = "ab Zé½²①ͺİΣ\u0301\u00a0\u2003\u1680–™１\x00\x1c!_ẞ"


def array(texts):
    return pa.array(texts, pa.large_string())


def plain(text):
    """Return the words of a text, one character after the other."""
    spaced = "".join(" " if unicodedata.category(letter)[0] in "PSZC" else letter for letter in text)
    folded = unicodedata.normalize("NFKC", re.sub(" +", " ", spaced).strip(" "))
    return "".join(map(lower, folded)).split(" ") if folded else []


def lower(letter):
    return "i" if letter == "İ" else letter.lower()  # Arrow maps each character to one


def found(texts):
    result = normal_words(array(texts))
    every = result.known.take(pa.array(result.word)).to_pylist()
    return [every[start:end] for start, end in pairwise(result.ends.tolist())]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(LETTERS, max_size=12), max_size=8))
@example(["ͺ", "ͺa–b", "", "a", "b"])
def test_words_are_those_of_each_text_alone(texts):
    assert found(texts) == [plain(text) for text in texts]


def test_words_end_with_their_text():
    assert found(["green", "tea", "", "pot"]) == [["green"], ["tea"], [], ["pot"]]
    assert found([]) == []


def test_a_slice_of_texts_has_its_own_words():
    texts = array(["green tea", "Black Tea", "ink"])
    result = normal_words(texts.slice(1, 1))
    assert result.known.take(pa.array(result.word)).to_pylist() == ["black", "tea"]


@pytest.mark.parametrize("kind", [pd.StringDtype(na_value=float("nan")), pd.StringDtype("python"), object])
def test_parts_are_consecutive(monkeypatch, kind):
    monkeypatch.setattr("pricekit.text.likeness.PART_BYTES", 5)
    texts = pd.Series(["tea", "green", "", "ink", "é" * 9, "a"], dtype=kind)
    parts = list(text_parts(texts))
    assert [cell for part in parts for cell in part.to_pylist()] == texts.tolist()
    assert len(parts) > 2
