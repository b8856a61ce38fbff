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
        "In short",
        "Columns and prices",
        "Values, words and missing cells",
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


def _sentences(drift):
    return [sentence for _, sentence in drift_sections(drift)[0].blocks[0].sentences]


def _tables(drift):
    blocks = [block for section in drift_sections(drift) for block in section.blocks]
    return {block.caption: block for block in blocks if block.block == "table"}


def test_three_sentences_say_what_has_changed_and_what_to_do(model, found):
    verdict, largest, then = _sentences(found)
    assert verdict == found.verdict
    assert largest.startswith("Unit '<script>alert(1)</script> ")
    assert largest.endswith(" is new: 0.6 of 100 rows then, 100 now.")
    assert then.startswith("Find out whether the source of the table")
    same = _sentences(model.drift(pk.make_catalog(200, seed=9)))
    assert same[2] == "Nothing: the model may price this table."
    few = _sentences(model.drift(pk.make_catalog(30, seed=9)))
    assert few[2].startswith("Compare at least 100 rows")


@pytest.fixture(scope="module")
def of_columns(tmp_path_factory):
    """The drift of a table that lacks a column, of a model whose features are numbers of columns."""
    table = pk.make_catalog(200)
    table["points"] = [f"{80 + n % 20}" for n in range(200)]
    table["maker"] = [f"Maker {n % 3}" for n in range(200)]
    tiny = {"epochs": 1, "features": ["optimized22", "columns"], "max_length": 32}
    run = pk.train(
        table, text=["catalog_content", "points", "maker"], out=tmp_path_factory.mktemp("wide") / "r", **tiny
    )
    changed = table.assign(points=[f"{10 + n % 20}" for n in range(200)]).drop(columns="maker")
    return run.drift(changed)


def test_features_have_names_that_say_what_they_are(of_columns):
    names = [row[0] for row in _tables(of_columns)["What differs"].rows]
    assert "number in points" in names
    assert not [name for name in names if "_" in name]
    assert "number in points" in " ".join(of_columns.alarms)
    shown = of_columns.features.set_index("name")["words"]
    assert shown["vocab_richness"] == "share of different words"
    assert shown["points"] == "points"


def test_a_missing_column_is_named_once(of_columns):
    _, largest, then = _sentences(of_columns)
    assert largest == "The table lacks maker, which the model reads."
    assert then.startswith("Add the missing columns")
    assert of_columns.alarms[0] == "Columns are missing: maker."
    assert not [alarm for alarm in of_columns.alarms if alarm.startswith("More rows lack")]
    assert ["maker", "0.0", "100.0"] in _tables(of_columns)["Rows without a cell"].rows


def test_what_does_not_differ_is_counted_only(of_columns):
    rows = _tables(of_columns)["What differs"].rows
    assert len(rows) < len(of_columns.features)
    texts = [getattr(block, "text", "") for block in drift_sections(of_columns)[1].blocks]
    assert f"{len(of_columns.features) - len(rows)} more do not differ." in texts
