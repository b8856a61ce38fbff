import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.wording import duration, printable, printable_json


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.2, "1 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3000, "50 min"),
        (3600, "1 h"),
        (7530, "2 h 5 min"),
    ],
)
def test_durations_have_two_units_at_most(seconds, expected):
    assert duration(seconds) == expected


@given(st.text(st.characters(max_codepoint=0x2100)))
def test_printable_text_has_no_control_characters_and_is_otherwise_the_same(text):
    found = printable(text)
    kinds = {unicodedata.category(letter) for letter in found if letter not in "\t\n"}
    assert "Cc" not in kinds
    plain = all(letter in "\t\n" or unicodedata.category(letter) not in ("Cc", "Cf") for letter in text)
    assert found == text or not plain


def test_escaped_json_has_the_same_values_and_no_control_characters():
    value = {"name": "tea \x1b[2J\x9b\u202e ü"}
    found = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(found) == value
    assert printable(found) == found
    assert "ü" in found
