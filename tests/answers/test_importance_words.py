"""The effects of words over many explanations."""

import math
import sys

import numpy as np
import pandas as pd
import pytest

from pricekit.answers import importance
from pricekit.answers.importance import LEAST_ROWS_OF_A_WORD, MOST_WORDS, explain_some, word_effects
from pricekit.insight.explanations import Explanation, Factor
from tests.answers.models_of_importance import member, share


def _explanation(*parts):
    """An explanation of a row with parts: kind, text, contribution."""
    factors = tuple(Factor(kind, "text", text, 0, 1, math.exp(log)) for kind, text, log in parts)
    return Explanation("id", 1.0, 1.0, factors, {"text": ""})


def test_words_are_joined_over_rows():
    logs = [0.1, 0.2, 0.3, -0.1, 0.5]
    rows = [
        _explanation(("word", "Tea" if n % 2 else "tea", log), ("word", "rare", 1.0 if n else 0.0))
        for n, log in enumerate(logs)
    ]
    rows[0] = _explanation(("word", "TEA", 0.04), ("word", "Tea", 0.06))  # twice in a row: the sum counts
    (found,) = word_effects(rows).itertuples(index=False)
    assert (found.word, found.rows) == ("tea", 5)
    assert found.factor == pytest.approx(math.exp(np.mean(logs)))
    assert found.size == pytest.approx(np.mean(np.abs(logs)))
    margin = 2.776445 * np.std(logs, ddof=1) / math.sqrt(5)  # of a table of Student's t, 4 degrees of freedom
    assert math.log(found.low) == pytest.approx(np.mean(logs) - margin, rel=1e-5)
    assert math.log(found.high) == pytest.approx(np.mean(logs) + margin, rel=1e-5)


def test_undivided_phrases_and_lines_are_no_words():
    parts = [
        ("phrase", "Pack of 6", 0.5),
        ("phrase", "Organic", 0.1),
        ("line", "Tea", 0.2),
        ("column", "9", 0.3),
    ]
    found = word_effects([_explanation(*parts)] * LEAST_ROWS_OF_A_WORD)
    assert found["word"].tolist() == ["organic"]


def test_the_largest_sums_come_first():
    rows = [
        _explanation(*(("word", f"w{n}", 0.01 * n) for n in range(60))) for _ in range(LEAST_ROWS_OF_A_WORD)
    ]
    rows += [_explanation(("word", "w1", 0.02))] * 200
    found = word_effects(rows)
    assert len(found) == MOST_WORDS
    assert found["word"].tolist()[:3] == ["w1", "w59", "w58"]


def test_no_words_give_an_empty_frame():
    assert list(word_effects([])) == ["word", "rows", "factor", "low", "high", "size"]


def test_without_scipy_there_are_no_intervals(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    found = word_effects([_explanation(("word", "tea", 0.1 * n)) for n in range(6)])
    assert found["factor"][0] == pytest.approx(math.exp(0.25))
    assert np.isnan(found["low"][0])


def test_a_sample_of_rows_of_all_shares_is_explained(monkeypatch):
    monkeypatch.setattr(importance, "EXPLAINED", 30)
    model = member(["length"], lambda t: t.text.str.len(), lambda f, _: np.exp(0.01 * f[:, 0]))
    frames = [pd.DataFrame({"text": [f"red tea {s}{n}" for n in range(25)], "price": 2.0}) for s in "ab"]
    shares = [share(frame, model) for frame in frames]
    found = explain_some(shares)
    texts = [each.cells["text"] for each in found]
    assert len(set(texts)) == 30
    assert {text[8] for text in texts} == {"a", "b"}
    assert [each.cells["text"] for each in explain_some(shares)] == texts
    assert word_effects(found)["word"].tolist()[:2] == ["red", "tea"]
