"""What users see of an explanation."""

import json
import math

import pytest

import pricekit as pk
from pricekit.insight.explanations import Explanation, Factor, name_of

HOSTILE = '<script>alert("1")</script> & <b>"tea"</b> \u202eabc\u202c 🥭 it\'s'


@pytest.fixture
def found():
    words = (Factor("word", "title", "Green", 0, 5, 2.0), Factor("word", "title", "Tea", 6, 9, 1.5))
    phrase = Factor("phrase", "title", "Green Tea", 0, 9, 3.0, words)
    pack = Factor("phrase", "title", "Pack of 6", 11, 20, 0.5)
    line = Factor("line", "title", "Green Tea, Pack of 6", 0, 20, 1.5, (phrase, pack))
    stars = Factor("column", "stars", "4.5", 0, 0, 1.1)
    return Explanation("p1", 16.5, 10.0, (line, stars), {"title": "Green Tea, Pack of 6"}, "EUR")


def test_phrases_and_words_are_sorted_by_their_effect(found):
    assert [each.text for each in found.phrases()] == ["Green Tea", "Pack of 6", "4.5"]
    assert [each.text for each in found.words()] == ["Green", "Pack of 6", "Tea", "4.5"]
    assert found.phrases()[0].log == pytest.approx(math.log(3))


def test_json_has_the_tree_of_factors(found):
    record = json.loads(found.to_json())
    assert record == found.to_dict()
    assert (record["id"], record["price"], record["base"], record["currency"]) == ("p1", 16.5, 10.0, "EUR")
    line, stars = record["factors"]
    assert [part["text"] for part in line["parts"][0]["parts"]] == ["Green", "Tea"]
    assert stars == {"kind": "column", "column": "stars", "text": "4.5", "start": 0, "end": 0, "factor": 1.1}


def test_the_repr_names_the_largest_factors(found):
    assert repr(found) == (
        "Explanation('p1': 16.50 = 10.00 × 3.00 (Green Tea) × 0.50 (Pack of 6) × 1.10 (stars: 4.5))"
    )


def test_html_colours_each_word_by_its_effect(found):
    page = found._repr_html_()
    assert '<span style="background:rgba(42,111,176,1.00)" title="× 2">Green</span> ' in page
    assert '<span style="background:rgba(213,94,0,1.00)" title="× 0.5">Pack of 6</span>' in page
    assert "stars: 4.5 × 1.1" in page


def test_hostile_texts_are_shown_as_text(bundle):
    found = pk.load(bundle, "ort-cpu").explain([f"Item Name: {HOSTILE}\n{HOSTILE}" + "x" * 50_000])[0]
    page = found._repr_html_()
    assert "<script" not in page
    assert "<b>&quot;" not in page
    assert "&lt;script&gt;" in page
    assert json.loads(found.to_json())["factors"]


def test_names_are_short_and_on_one_line():
    name = name_of(Factor("line", "t", "tea\n" + "very " * 50, 0, 10, 1.0))
    assert "\n" not in name
    assert len(name) <= 60
