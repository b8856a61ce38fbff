import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.text.labelled_lines import join_texts
from pricekit.text.words import WORD_BYTES, Words

WORD = re.compile("[a-z0-9\x80-\U0010ffff]+")
TEXTS = st.lists(
    st.text(st.characters(codec="utf-8") | st.sampled_from("aA b.!?,\n9é")), min_size=1, max_size=6
)


def words(*texts: str) -> Words:
    return Words(join_texts(pa.array(texts, pa.large_string())))


def lower(text: str) -> str:
    return text.encode().lower().decode()


@given(TEXTS)
@settings(max_examples=100)
def test_counts_equal_plain_python(texts: list[str]) -> None:
    found = words(*texts)
    expected = [WORD.findall(lower(text)) for text in texts]
    counts = np.array([len(w) for w in expected])
    assert found.count.tolist() == counts.tolist()
    assert found.commas().tolist() == [text.count(",") for text in texts]
    sizes = np.array([sum(map(len, w)) for w in expected])
    assert found.mean_length().tolist() == (sizes / np.maximum(counts, 1)).tolist()
    different = np.array([len({word.encode()[:WORD_BYTES] for word in w}) for w in expected])
    assert found.richness().tolist() == (different / np.maximum(counts, 1)).tolist()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", 0),
        ("one", 1),
        ("One. Two! Three?", 3),
        ("1.5 oz", 1),
        ("Wait...", 1),
        ("a.\nb.", 2),
        ("...", 1),
        ("—", 1),
    ],
)
def test_sentences(text: str, sentences: int) -> None:
    assert words(text, "next text").sentences()[0] == sentences


@pytest.mark.parametrize(
    ("text", "different"),
    [
        ("Red red RED", 1 / 3),
        ("abcdefgh abcdefgi", 1),
        ("abcdefghi abcdefghi", 1 / 2),
        ("abcdefghx abcdefghy", 1),
        ("a" * WORD_BYTES + "x " + "a" * WORD_BYTES + "y", 1 / 2),
        ("", 0),
    ],
)
def test_richness(text: str, different: float) -> None:
    assert words(text).richness().tolist() == [different]


def test_words_of_neighbouring_texts_stay_apart() -> None:
    found = words("ab", "", "ab", "cd")
    assert found.count.tolist() == [1, 0, 1, 1]
    assert found.richness().tolist() == [1, 0, 1, 1]
