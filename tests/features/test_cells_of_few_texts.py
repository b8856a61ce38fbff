"""A few texts are read one by one in Python, many together: the results are the same."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pricekit.features.cells import Categories, Column, values_of
from pricekit.text.labelled_lines import FEW_TEXTS, joined_texts
from pricekit.text.words import WordTable, words_of

NUMBERS = (
    "0",
    "1",
    "2",
    "12",
    "250",
    "1.5",
    "0,7",
    "1.234",
    "1,234",
    "1,234.5",
    "123 456",
    "1'000",
    "1’000",
    ".5",
)
NUMBERS += (
    "1/2",
    "3/4",
    "1 1/2",
    "1/2/2013",
    "1e+05",
    "2.5e3",
    "1E5",
    "0.00001e+5",
    "9" * 16,
    "." + "5" * 17,
    "007",
    "0.00001",
)
UNITS = (
    "g",
    "kg",
    "ml",
    "fl. oz",
    "fl oz",
    "us cup",
    "sq ft",
    "in",
    "in 1",
    "cm",
    "mm",
    "m²",
    '"',
    "%",
    "'s",
    "’s",
)
UNITS += (
    "lb",
    "oz",
    "ct",
    "pcs",
    "k",
    "lakh",
    "tsd.",
    "Stück",
    "г",
    "KG",
    "İn",
    "x",
    "×",
    "* ",
    " x ",
    "Pack of ",
)
UNITS += (
    "case of ",
    "box of",
    "/",
    "-",
    "−",
    "–",
    "(",
    ")",
    ",",
    ".",
    "e",
    "E",
    "e+",
    " ",
    "\t",
    "\u00a0",
    "tea",
)
LABELS = ("size", "Item Name", "größe", "other")
CELL = st.lists(st.sampled_from(NUMBERS + UNITS) | st.text(max_size=3), max_size=9).map("".join)
LINE = st.builds("{}{}{}".format, st.sampled_from(LABELS), st.sampled_from([":", ": ", "", " : "]), CELL)
TEXTS = st.lists(st.lists(LINE | CELL, max_size=4).map("\n".join), min_size=1, max_size=6)
LONG = "size: " + "tea " * 58 + "1/2 kg, Pack of 6\nsize: 2"


def column(label: str, cells: list[str], *, dot: bool = False) -> Column:
    return Column(
        label=label,
        share=1,
        dot_groups=dot,
        comma_groups=not dot,
        places=3,
        measured=True,
        cells=cells,
        words=["tea", "1", "größe", "12"],
        long=False,
        dates=None,
    )


COLUMNS = [
    column("", ["tea"]),
    column("size", ["1 kg", "2", "tea", "b" * 60]),
    column("Item Name", []),
    column("größe", [], dot=True),
]


def together(texts: list[str]) -> pd.Series:
    """Return texts behind others, so many that they are read together."""
    return pd.Series([""] * FEW_TEXTS + texts, dtype="str")


@given(TEXTS)
@example(["size: 20 x 30 x 5 cm\nItem Name: 4 x 5 x 200 g", "2 lb 3 oz (Pack of 6)", "größe: 1.234 km"])
@example(
    [
        "size: 2 lb of tea and of jam 3 oz",
        "size: 3 million" + "n" * 30,
        "5/1/2 kg",
        "12\x01 345",
        "size: " + "b" * 61,
    ]
)
@example([LONG, "size:" + "1 " * 40, "size: 12 fl. oz 10's", "Item Name: \x00tea 1.5e+3 g"])
@example(
    ["size: " + "\u00e9" * 40, "size: " + "a" * 59 + "\u00e9", "größe : 1", ":1", "size:    \t  1 kg      "]
)
def test_cells_are_the_same(texts: list[str]) -> None:
    few, many = values_of(pd.Series(texts, dtype="str"), COLUMNS), values_of(together(texts), COLUMNS)
    cells = few.cells.start.size
    np.testing.assert_array_equal(few.number, many.number[FEW_TEXTS:])
    np.testing.assert_array_equal(few.unit, many.unit[FEW_TEXTS:])
    for name in ("kind", "amount", "pack"):
        np.testing.assert_array_equal(getattr(few.total, name), getattr(many.total, name)[-cells:])
    for label in range(len(COLUMNS)):
        assert few.cells.column(label).to_pylist() == many.cells.column(label).to_pylist()[FEW_TEXTS:]
    known = Categories(COLUMNS)
    assert known.codes(few.cells).tolist() == known.codes(many.cells)[FEW_TEXTS:].tolist()


@given(TEXTS)
@example(["Tea. " + "w" * 70 + "! É,é\nTea?", "a" * 8 + " " + "b" * 64 + " B" + "b" * 64, "no. 5"])
def test_words_are_the_same(texts: list[str]) -> None:
    (few,) = words_of(pd.Series(texts, dtype="str"))
    (many,) = words_of(together(texts))
    assert few.hashes.tolist() == many.hashes.tolist()
    assert [few.word(n) for n in range(len(few.hashes))] == [many.word(n) for n in range(len(many.hashes))]
    for name in ("sentences", "commas", "mean_length", "richness"):
        np.testing.assert_array_equal(getattr(few, name)(), getattr(many, name)()[FEW_TEXTS:], name)
    np.testing.assert_array_equal(few.count, many.count[FEW_TEXTS:])
    np.testing.assert_array_equal(few.first_lines(3)[1], many.first_lines(3)[1][FEW_TEXTS:])
    table = WordTable(["tea", "1", "kg"])
    (row, word), (row_of_many, word_of_many) = table.find(few), table.find(many)
    np.testing.assert_array_equal(row, row_of_many - FEW_TEXTS)
    np.testing.assert_array_equal(word, word_of_many)


@pytest.mark.parametrize("text", ["", "tea", "Té 1 kg\n"])
def test_texts_end_to_end_are_the_same(text: str) -> None:
    few, many = joined_texts(pd.Series([text], dtype="str")), joined_texts(together([text]))
    assert few.data.tobytes() == many.data.tobytes()[FEW_TEXTS:]
    assert few.characters.tolist() == many.characters[FEW_TEXTS:].tolist()
