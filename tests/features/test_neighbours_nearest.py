"""The inverted index finds what a comparison with every row finds."""

import itertools
import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.features import neighbours as module
from pricekit.features.neighbours import index_texts, nearest, open_index
from pricekit.io.packing import pack, unpack

WORDS = st.sampled_from(["tea", "Tea", "coffee", "12", "oz", "pack", "É", "-"])
TEXTS = st.lists(st.lists(WORDS).map(" ".join), max_size=30)


def terms_of(text):
    words = re.findall(r"[^\W_]+", text.lower())
    return {*words, *itertools.pairwise(words)}


def compared(texts, query, k):
    """Return the k most similar rows with their cosines, from a comparison with each row."""
    rows = [terms_of(text) for text in texts]
    df = Counter(term for row in rows for term in row)
    square = {term: (1 + math.log((1 + len(rows)) / (1 + n))) ** 2 for term, n in df.items()}

    def length(terms):
        return math.sqrt(sum(square[term] for term in terms if term in square))

    found = [
        (-sum(square[term] for term in row & terms_of(query)) / length(row) / length(terms_of(query)), number)
        for number, row in enumerate(rows)
        if row & terms_of(query)
    ]
    return [(number, -cosine) for cosine, number in sorted(found)[:k]]


def opened(texts, most_terms=1_000):
    return open_index(json.loads(json.dumps(index_texts(texts, most_terms=most_terms))))


def require_same(index, texts, queries, k):
    rows, similarity = nearest(index, queries, k)
    assert rows.shape == similarity.shape == (len(queries), k)
    for query, row, cosine in zip(queries, rows, similarity, strict=True):
        expected = compared(texts, query, k)
        assert (row[len(expected) :] == -1).all()
        assert (cosine[len(expected) :] == 0).all()
        row, cosine = row[: len(expected)].tolist(), cosine[: len(expected)]
        np.testing.assert_allclose(cosine, [found for _, found in expected], rtol=1e-5)
        every = dict(
            compared(texts, query, len(texts))
        )  # rounding may order equally similar rows differently
        np.testing.assert_allclose(cosine, [every[number] for number in row], rtol=1e-5)
        assert len(set(row)) == len(row)


@settings(max_examples=60)
@given(TEXTS, TEXTS, st.integers(1, 5))
def test_the_nearest_rows_are_those_of_a_comparison_with_every_row(texts, queries, k):
    require_same(opened(texts), texts, queries, k)


def catalogue(rows, words=300, seed=0):
    random = np.random.default_rng(seed)
    chosen = random.zipf(1.3, (rows, 9)) % words
    return [" ".join(f"w{number}" for number in row) for row in chosen]


def test_many_rows_in_blocks():
    texts = catalogue(2_000)
    require_same(opened(texts, 100_000), texts, [*catalogue(5, seed=1), *texts[-5:]], 8)


@settings(max_examples=60)
@given(TEXTS, TEXTS)
def test_a_text_has_the_same_bits_alone_and_in_a_batch(texts, queries):
    index = opened(texts)
    together = nearest(index, queries, 3)
    for number, query in enumerate(queries):
        alone = nearest(index, [query], 3)
        assert all(
            one[0].tobytes() == all_[number].tobytes() for one, all_ in zip(alone, together, strict=True)
        )


def test_the_first_of_equally_similar_rows_is_nearest():
    texts = ["green tea 12 oz", "coffee", *["12 oz of green tea"] * 3, "green tea, 12 oz!"]
    rows, similarity = nearest(opened(texts), ["Green Tea 12 oz"], 4)
    assert rows.tolist() == [[0, 5, 2, 3]]
    assert similarity[0, 0] == similarity[0, 1] == 1
    assert similarity[0, 2] == similarity[0, 3] < 1


def test_the_most_frequent_terms_are_left_out(monkeypatch):
    texts = [f"the w{number % 10}" for number in range(100)]
    monkeypatch.setattr(module, "VISITS", 20)  # each of w0 to w9 takes 10² / 100 = 1 row, "the" 100
    index = opened(texts)
    assert "the" in index.words  # a part of the pairs
    assert nearest(index, ["the"], 1)[0].tolist() == [[-1]]
    assert nearest(index, ["the w3"], 2)[0].tolist() == [[3, 13]]
    monkeypatch.setattr(module, "VISITS", 1_000)
    assert nearest(opened(texts), ["the"], 1)[0].tolist() == [[0]]


def test_frequent_terms_are_kept_and_words_before_pairs():
    texts = ["a b", "a b", "a c", "d e"]
    kept = {1: ("a", 0), 2: ("ab", 0), 3: ("ab", 1), 4: ("abc", 1), 6: ("abcde", 1), 8: ("abcde", 3)}
    for most, (words, pairs) in kept.items():
        index = opened(texts, most)
        assert set(index.words) == set(words)
        assert len(index.terms) == len(words) + pairs == most


def test_only_the_first_words_of_a_text_count():
    long = " ".join(f"w{number}" for number in range(module.WORDS_OF_A_TEXT + 1))
    index = opened([long, "tea"], 5_000)
    assert f"w{module.WORDS_OF_A_TEXT - 1}" in index.words
    assert f"w{module.WORDS_OF_A_TEXT}" not in index.words


def test_texts_of_other_scripts():
    texts = ["Grüner Tee", "Trà xanh", "緑茶", "зелёный чай"]
    rows, _ = nearest(opened(texts), ["GRÜNER", "TRÀ", "緑茶", "ЧАЙ"], 1)
    assert rows[:, 0].tolist() == [0, 1, 2, 3]


STATE = index_texts(["green tea", "green coffee", "tea"], most_terms=100)
STEPS = unpack(STATE["terms"], np.int64, most=100)
PLACES = unpack(STATE["places"], np.int32, most=100)
HUGE = 2**63 - 1


def plus(steps, number):
    """Return steps, packed, with a number added to the last one."""
    changed = steps.copy()
    changed[-1] += number
    return pack(changed)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": 3.5},
        {"rows": module.MOST_ROWS + 1},
        {"rows": 2},
        {"words": None},
        {"words": "green"},
        {"words": "a " * (2 * module.MOST_TERMS + 1)},
        {"terms": "no array"},
        {"terms": pack(-STEPS)},
        {"terms": pack(STEPS * 0)},
        {"terms": pack(np.array([0, HUGE, HUGE, 4]))},
        {"terms": plus(STEPS, 7)},
        {"terms": pack(STEPS[:2])},
        {"terms": pack(np.ones(module.MOST_TERMS + 1, np.int64))},
        {"places": pack(PLACES * 0)},
        {"places": pack(-PLACES)},
        {"places": plus(PLACES, 3)},
        {"places": pack(np.zeros(module.MOST_PLACES + 1, np.int32))},
    ],
)
def test_a_damaged_index_is_refused(change, raises):
    open_index(STATE)
    with raises((ValueError, AttributeError)):
        open_index(STATE | change)
    with pytest.raises(KeyError):
        open_index({name: value for name, value in STATE.items() if name not in change})


def test_sums_of_weights_are_exact():
    weights = opened(catalogue(500), 100_000).weights
    assert (weights % 1 == 0).all()
    assert weights.max() * module.WORDS_OF_A_TEXT * 2 < 2**53
