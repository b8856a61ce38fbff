import re
import zlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.text import likeness
from pricekit.text.likeness import MIN_PAIRS, PERMUTATIONS, normal_words, signatures

WORDS = st.sampled_from(["tea", "ink", "12", "oz", "pot", "3kg", "ͺ", "a", "b", "c", "!"])


def permutations():
    random = np.random.RandomState(1)
    factor = [2 * int(n) + 1 for n in random.randint(1 << 31, size=PERMUTATIONS, dtype=np.uint32)]
    offset = random.randint(1 << 32, size=PERMUTATIONS, dtype=np.uint32).tolist()
    return list(zip(factor, offset, strict=True))


def mixed(number):
    number = (number ^ number >> 16) * 0x85EBCA6B % 2**32
    number = (number ^ number >> 13) * 0xC2B2AE35 % 2**32
    return number ^ number >> 16


def expected(text):
    """Return the signature of one text in plain Python, None with few pairs."""
    words = re.sub("[0-9]+", "0", text.replace("!", "").replace("ͺ", " \u0345")).split()
    codes = [zlib.crc32(word.encode()) for word in words]
    pairs = {(one * 0x9E3779B1 + other) % 2**64 for one, other in pairwise(codes)}
    pairs = {(pair ^ pair >> 32) % 2**32 for pair in pairs}
    if len(pairs) < MIN_PAIRS:
        return None
    values = [mixed(pair) for pair in pairs]
    return [min((factor * value + offset) % 2**32 for value in values) for factor, offset in permutations()]


def check(texts):
    rows, found = signatures(normal_words(pa.array(texts, pa.large_string())))
    wanted = [expected(text) for text in texts]
    assert rows.tolist() == [row for row, signature in enumerate(wanted) if signature is not None]
    for row, signature in zip(rows.tolist(), found, strict=True):
        assert np.array_equal(signature, wanted[row])
    return len(rows)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=20).map(" ".join), max_size=8))
def test_signatures_are_those_of_plain_python(texts):
    check(texts)


def test_many_texts_of_different_lengths(monkeypatch):
    rng = np.random.default_rng(0)
    words = [f"w{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    texts = [" ".join(rng.choice(words, size)) for size in rng.integers(0, 200, 60)]
    assert check(texts) > 50
    monkeypatch.setattr(likeness, "_BLOCK", 100)
    assert check(texts) > 50


def test_different_pairs_may_come_late():
    texts = ["a b " * 50 + "one two three four", "a b " * 50 + "one two", "a b " * 50, "tea pot " * 3]
    assert check(texts) == 1


def test_the_first_values_stay():
    """They are those that datasketch 2.0 gives."""
    _, found = signatures(
        normal_words(pa.array(["one two three four five six seven eight"], pa.large_string()))
    )
    assert found[0, :4].tolist() == [175854814, 570846075, 576309072, 126557098]
