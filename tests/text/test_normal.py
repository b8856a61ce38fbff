"""The one form of texts that look equal."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.table import Columns, read_frame, table_of_texts
from pricekit.text.normal import normal_text, normal_texts

ODD = " \t\n\r\v\x1c\x85aé1\u0301\u0344\u00a0\u2003\u3000\u200b\u200d\ufeff\u00ad२٣１\u2028\u1100\u1161\u11a8\uac00٬٫．"
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=12)


@pytest.mark.parametrize(
    "written",
    [
        "Té vert 12 kg",
        "Té vert 12\u00a0kg",
        "Té  vert\t12 kg ",
        "Te\u0301 vert 12 kg",
        "Té vert １２ kg",
        "Té vert ۱۲ kg",
        "Té vert १२ kg",
        "\ufeffTé ver\u200bt 12 k\u00adg",
        "Té\u3000vert\u200912\u202fkg",
    ],
)
def test_texts_that_look_equal_are_equal(written):
    assert normal_text(written) == "Té vert 12 kg"
    assert table_of_texts([written]).text.tolist() == ["Té vert 12 kg"]
    assert table_of_texts([written]).frame["text"].tolist() == [written]


@pytest.mark.parametrize(
    "text", ["USB 3.0", "v1.10", "1E5", "007", "Größe: XL\nFarbe: blau", "m² ½ №", "", "\n\n", "ﬁ ＡＢ"]
)
def test_other_texts_stay_as_they_are(text):
    assert normal_text(text) == text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("123\u202f456\u202f789,5 km", "123456789,5 km"),
        ("1\u00a0500 W, 12\u00a05 cm, 12\u00a01500", "1500 W, 12 5 cm, 12 1500"),
        ("iPhone 12 128 GB", "iPhone 12 128 GB"),
        ("۱\u00a0۲۳۴", "1234"),
        ("۲۱۲٬۸۰۵ km, ١٬٢٣٤٫٥ kg", "212805 km, 1234.5 kg"),
        ("１．５ kg", "1.5 kg"),
    ],
)
def test_marks_between_digits_have_one_form(written, expected):
    assert normal_text(written) == expected


@given(st.lists(TEXTS, min_size=1, max_size=50))
def test_many_texts_become_what_each_becomes_alone(texts):
    many = (texts * 40)[:40]
    expected = list(map(normal_text, many))
    assert normal_texts(pa.array(many, pa.large_string())).to_pylist() == expected
    assert normal_texts(pa.array(["", *many], pa.large_string()).slice(1)).to_pylist() == expected


@given(TEXTS)
def test_a_normal_text_is_its_own_form(text):
    assert normal_text(normal_text(text)) == normal_text(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_of_ascii_only_blanks_change(text):
    assert normal_text(text).split() == text.split()


def test_columns_are_joined_in_the_same_form():
    frame = pd.DataFrame({"title": ["Te\u0301", "Té"], "size": ["１２\u00a0kg", "12 kg"]})
    text = read_frame(frame, Columns(("title", "size"), None, None)).text
    assert text[0] == text[1] == "title: Té\nsize: 12 kg"


def test_explanations_show_what_was_written():
    import pricekit as pk

    model = pk.train(pk.make_catalog(60), epochs=1, features="fast15", max_length=16)
    written = "Item Name: The\u0301\u00a0vert, １２ Count"
    plain = "Item Name: Thé vert, 12 Count"
    explained, same = model.explain([written, plain])
    assert (explained.price, len(explained.factors)) == (same.price, len(same.factors))
    assert written in explained.cells.values()
    shown = "".join(factor.text for factor in explained.factors)
    assert "e\u0301\u00a0v" in shown
    assert np.isclose(explained.price, model.predict([plain])[0])
