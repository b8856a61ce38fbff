import re
import zlib

import numpy as np
import pyarrow as pa
from datasketch import MinHash
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.likeness import minhash
from pricekit.likeness.minhash import MIN_PAIRS, PERMUTATIONS, signatures
from pricekit.likeness.words import normal_words

WORDS = st.sampled_from(["tea", "ink", "12", "oz", "pot", "3kg", "ͺ", "a", "b", "c", "!"])


def expected(text):
    """Return the signature of one text by datasketch, None with few pairs."""
    words = re.sub("[0-9]+", "0", text.replace("!", "").replace("ͺ", " \u0345")).split()
    codes = np.array([zlib.crc32(word.encode()) for word in words], np.uint64)
    mixed = codes[:-1] * np.uint64(0x9E3779B1) + codes[1:]
    pairs = np.unique((mixed ^ (mixed >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).tolist()
    found = MinHash(PERMUTATIONS, hashfunc=int)
    found.update_batch(pairs)
    return found.hashvalues if len(pairs) >= MIN_PAIRS else None


def check(texts):
    rows, found = signatures(normal_words(pa.array(texts, pa.large_string())))
    wanted = [expected(text) for text in texts]
    assert rows.tolist() == [row for row, signature in enumerate(wanted) if signature is not None]
    for row, signature in zip(rows.tolist(), found, strict=True):
        assert np.array_equal(signature, wanted[row])
    return len(rows)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=20).map(" ".join), max_size=8))
def test_signatures_are_those_of_datasketch(texts):
    check(texts)


def test_many_texts_of_different_lengths(monkeypatch):
    rng = np.random.default_rng(0)
    words = [f"w{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    texts = [" ".join(rng.choice(words, size)) for size in rng.integers(0, 200, 60)]
    assert check(texts) > 50
    monkeypatch.setattr(minhash, "_BLOCK", 100)
    assert check(texts) > 50
