"""The languages of texts."""

import pytest

from pricekit.report import sections
from pricekit.report.sections import describe_languages, language_of

ENGLISH = "Green tea with lemon and honey, in bags that keep it fresh for a long time"
GERMAN = "Grüner Tee mit Zitrone und Honig, in Beuteln, die ihn lange frisch halten"
VIETNAMESE = "Trà xanh với chanh và mật ong, đựng trong túi giữ được lâu và thơm ngon"


def test_languages_are_named_with_their_shares():
    found = describe_languages([ENGLISH] * 3 + [GERMAN])
    assert found == "Languages of 4 texts: English 75%, German 25%."
    assert language_of(VIETNAMESE) == "Vietnamese"


def test_texts_without_words_are_undetermined():
    assert describe_languages(["12", "x"]) == "Languages of 2 texts: rare or undetermined 100%."
    assert describe_languages([]) == ""


def test_of_many_texts_some_are_drawn(monkeypatch):
    monkeypatch.setattr(sections, "MOST_TEXTS", 10)
    assert describe_languages([ENGLISH] * 100) == "Languages of 10 texts: English 100%."


@pytest.mark.parametrize("hostile", ["\x00\udcff", "<script>", "\u202e" * 100, "😀" * 500, "a" * 50_000])
def test_hostile_texts_are_read(hostile):
    assert describe_languages([hostile]).startswith("Languages of 1 text: ")
