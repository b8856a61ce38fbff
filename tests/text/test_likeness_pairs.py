import mmap

import numpy as np
import pandas as pd
import pytest

from pricekit.text import likeness
from pricekit.text.likeness import compare, equal_texts, similar_pairs

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"


def series(texts):
    return pd.Series(texts, dtype="str")


def test_equal_texts_have_one_number_and_one_signature_counts():
    texts = series([LONG, "tea", LONG.upper(), f"{LONG} seventeen", "tea"])
    found = compare(texts)
    assert found.same.tolist() == equal_texts(texts).tolist() == [0, 1, 0, 2, 1]
    assert found.number.tolist() == [0, 2]
    likeness, similarity = similar_pairs(found)
    assert likeness.tolist() == [[0, 2]]
    assert similarity[0] == pytest.approx(15 / 16, abs=0.1)


def test_texts_of_a_template_make_few_pairs():
    """All of them share a band, and all pairs would be 4,950."""
    texts = series([f"{LONG} {chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(100)])
    likeness, similarity = similar_pairs(compare(texts))
    assert len(set(likeness.ravel().tolist())) == 100
    assert len(likeness) < 2000
    assert (likeness[:, 0] < likeness[:, 1]).all()
    assert similarity.min() > 0.7


def test_parts_and_threads_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    names = [f"w{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    texts = series([" ".join(rng.choice(names[:6], size)) for size in rng.integers(0, 12, 300)])
    whole = compare(texts)
    monkeypatch.setattr(likeness, "PART_BYTES", 100)
    monkeypatch.setattr("pricekit.io.cpus.usable_cpus", lambda: 1)
    parts = compare(texts)
    assert np.array_equal(whole.same, parts.same)
    for one, other in zip(similar_pairs(whole), similar_pairs(parts), strict=True):
        assert len(one)
        assert np.array_equal(one, other)


@pytest.mark.parametrize("texts", [[], ["tea"], ["", ""]])
def test_texts_without_pairs(texts):
    likeness, similarity = similar_pairs(compare(series(texts)))
    assert likeness.shape == (0, 2)
    assert len(similarity) == 0


def test_signatures_in_a_file_are_compared_alike(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    names = [f"w{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    texts = series([" ".join(rng.choice(names[:5], size)) for size in rng.integers(5, 12, 300)])
    whole = similar_pairs(compare(texts))
    monkeypatch.setattr(likeness, "_TEXTS_AT_ONCE", 7)
    found = compare(texts, folder=tmp_path)
    assert isinstance(found.signature.base.base.obj, mmap.mmap)
    assert not list(tmp_path.iterdir())
    for one, other in zip(whole, similar_pairs(found), strict=True):
        assert len(one)
        assert np.array_equal(one, other)


def test_the_error_for_a_file_that_cannot_be_written_names_the_folder(tmp_path, raises):
    with raises(OSError):
        compare(series([LONG]), folder=tmp_path / "missing")
