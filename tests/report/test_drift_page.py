"""The page about drift."""

import pytest

import pricekit as pk
from pricekit.report.drift_page import drift_sections
from pricekit.report.page import render

HOSTILE = "<script>alert(1)</script> $x_1$ {{ 7 * 7 }}"


@pytest.fixture(scope="module")
def model(bundle):
    return pk.load(bundle, "ort-cpu")


@pytest.fixture(scope="module")
def found(model):
    frame = pk.make_catalog(200, seed=9)
    frame["catalog_content"] = frame["catalog_content"].str.replace("Unit: .*", "", regex=True)
    frame["catalog_content"] += f"\nUnit: {HOSTILE}"
    return model.drift(frame)


def test_the_sections_come_in_a_fixed_order(found):
    assert [section.title for section in drift_sections(found)] == [
        "Whether the table has drifted",
        "Features and prices",
        "Values, words and missing fields",
        "Rows least like the training rows",
        "How to read this",
    ]


def test_hostile_texts_are_shown_as_text(found):
    page = render("Drift of <b>", drift_sections(found))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert page.count("data:image/svg") == 2


def test_what_cannot_be_shown_becomes_a_sentence(model):
    import pandas as pd

    sections = drift_sections(model.drift(pd.DataFrame({"other": ["x"] * 60})))
    texts = [getattr(block, "text", "") for section in sections for block in section.blocks]
    assert "Not shown: no feature could be compared" in texts
    assert "Not shown: no prices could be compared" in texts
    assert "Columns are missing: catalog_content." in texts
