"""The distinct words of texts."""

from pricekit.insight.fields import documents_of


def test_a_word_counts_once_for_each_text():
    found = documents_of(["Tea tea TEA 20", "", "Été tea"])
    assert found.vocabulary == ["tea", "été"]
    assert found.rows.tolist() == [2, 1]
    assert found.words_of(1) == []
    assert found.words_of(2) == ["été", "tea"]


def test_pairs_outside_of_known_words_are_found():
    found = documents_of(["a b", "b c"])
    assert found.outside({"b": 2}).tolist() == [True, False, False, True]


def test_a_long_run_of_letters_is_cut():
    assert max(map(len, documents_of(["x" * 200]).vocabulary)) == 40
