"""The tree of a row's parts, and rows without some of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pricekit.insight.parts import LONGEST_PHRASE, MOST_LINES, MOST_PARTS, Cells, label_of, parts_of_cell
from pricekit.table import Columns, read_frame, table_of_texts
from pricekit.text.normal import normal_text

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300) | st.lists(
    st.sampled_from(["tea", "Pack", "6", ",", "(", ")", ": ", "\n", "Value: ", ". ", " ", "é", "🥭"]),
    max_size=80,
).map("".join)


def _check(cell, part):
    assert 0 <= part.start < part.end <= len(cell)
    assert part.kind != "word" or not part.parts
    end = part.start
    for inner in part.parts:
        assert end <= inner.start
        assert inner.end <= part.end
        end = inner.end
        _check(cell, inner)
    assert len(part.parts) != 1
    if part.kind == "phrase":
        assert len(part.parts) <= LONGEST_PHRASE
    elif part.parts:
        assert len(part.parts) <= MOST_PARTS


@given(TEXTS)
@example("Item Name: " + "word, " * 400)
@example("a" * 50_000)
def test_parts_are_ordered_places_within_their_part(cell):
    lines = parts_of_cell("text", cell)
    for line in lines:
        _check(cell, line)
    assert [line.text for line in lines] == [line.strip() for line in cell.split("\n") if line.strip()]


@given(TEXTS)
def test_without_its_lines_nothing_is_left_but_space(cell):
    cells = Cells(table_of_texts([cell]), Columns(("text",), None, None))
    found = cells.without([0], [cells.row(0).parts])
    assert found.text[0].strip() == ""
    assert cells.without([0], [()]).text[0] == normal_text(cell)


def test_a_part_is_cut_from_its_own_line():
    cells = Cells(
        table_of_texts(["Item Name: Green Tea (Pack of 6)\nValue: 6"]), Columns(("text",), None, None)
    )
    name, value = cells.row(0).parts
    tea, pack = name.parts
    assert [part.text for part in (*tea.parts, *pack.parts)] == ["Green", "Tea", "Pack", "of", "6"]
    found = cells.without([0, 0, 0], [[pack], [value, tea.parts[0]], [name]])
    assert found.text.tolist() == [
        "Item Name: Green Tea ()\nValue: 6",
        "Item Name: Tea (Pack of 6)\n",
        "Value: 6",
    ]


@pytest.fixture
def frame():
    return pd.DataFrame(
        {"title": ["Green Tea", "Jam"], "pieces": [20, 1], "weight": [0.5, None], "sold": [True, False]}
    )


def test_a_cell_of_a_column_that_is_not_text_is_one_part(frame):
    columns = Columns(("title", "pieces"), None, None)
    cells = Cells(read_frame(frame, columns), columns)
    title, pieces = cells.row(0).parts
    assert (title.column, title.text, pieces.kind, pieces.text) == ("title", "Green Tea", "column", "20")
    found = cells.without([0, 1, 0], [[pieces], [], [title.parts[1]]])
    assert found.text.tolist() == ["title: Green Tea", "title: Jam\npieces: 1", "title: Green\npieces: 20"]
    assert found.frame["pieces"].tolist() == [pd.NA, 1, 20]
    assert found.frame["title"].tolist() == ["Green Tea", "Jam", "Green "]


def test_other_columns_are_parts_if_they_have_a_value(frame):
    columns = Columns(("title",), None, None)
    cells = Cells(read_frame(frame, columns), columns, ("weight", "sold"))
    assert [part.column for part in cells.row(1).parts] == ["title", "sold"]
    _, weight, sold = cells.row(0).parts
    found = cells.without([0, 0], [[weight], [sold]]).frame
    assert found["weight"].isna().tolist() == [True, False]
    assert found["sold"].isna().tolist() == [False, True]


def test_the_table_itself_does_not_change(frame):
    columns = Columns(("title",), None, None)
    table = read_frame(frame, columns)
    before = table.frame.copy(deep=True)
    cells = Cells(table, columns, ("pieces",))
    cells.without([0, 1], [cells.row(0).parts, cells.row(1).parts])
    pd.testing.assert_frame_equal(table.frame, before)


def test_rows_keep_their_ids_and_the_order_of_their_columns(frame):
    frame.insert(0, "sku", pd.Series(["a", "b"], dtype=object))
    columns = Columns(("title",), None, "sku")
    cells = Cells(read_frame(frame, columns), columns, ("weight",))
    found = cells.without([1, 0, 1], [(), cells.row(0).parts, ()])
    assert found.ids.tolist() == ["b", "a", "b"]
    assert found.frame.columns.tolist() == frame.columns.tolist()
    assert found.frame["pieces"].tolist() == [1, 20, 1]
    assert cells.without([], []).ids.tolist() == []


def test_labels_are_those_of_the_parts():
    for line in (
        "Item Name: Tea",
        "Item Name:  Tea",
        "Tea",
        "Value:",
        "Value: ",
        "a:b",
        ": tea",
        "x" * 41 + ": y",
    ):
        label = label_of(line)
        (part,) = parts_of_cell("text", line)
        first = part.parts[0].start if part.parts else None
        assert label == ("Item Name" if line.startswith("Item") else "")
        assert first is None or line[:first].strip() == (f"{label}:" if label else "")


def test_swapped_cells_change_texts_and_frame():
    frame = pd.DataFrame(
        {"name": ["tea", "jam", " "], "stars": [4.5, 3, None], "shop": ["north", None, "south"]}
    )
    columns = Columns(("name", "stars"), None, None)
    cells = Cells(read_frame(frame, columns), columns, ("shop",))
    assert cells.text_columns == ("name", "stars")
    assert [cells.filled(name).tolist() for name in ("name", "stars", "shop")] == [
        [True, True, False],
        [True, True, False],
        [True, False, True],
    ]
    found = cells.swapped("stars", np.array([1, 0, 2]))
    assert found.text.tolist() == [
        "name: tea\nstars: 3",
        "name: jam\nstars: 4.5",
        cells.texts(2)["name"].strip(),
    ]
    assert found.frame["stars"].tolist()[:2] == [3, 4.5]
    found = cells.swapped("shop", np.array([2, 1, 0]))
    assert found.frame["shop"].tolist()[0] == "south"
    assert found.text.tolist()[0] == "name: tea\nstars: 4.5"


def test_other_texts_replace_those_of_a_single_column():
    cells = Cells(table_of_texts(["tea", "jam"]), Columns(("text",), None, None))
    found = cells.with_texts(["nut", ""])
    assert found.text.tolist() == found.frame["text"].tolist() == ["nut", ""]


def test_lines_of_long_texts_are_grouped():
    """Each part of a row needs two prices of the whole row, so the work would grow with the square of the lines."""
    cell = "\n".join(f"line {number}" for number in range(2_000))
    groups = parts_of_cell("text", cell)
    assert len(groups) == MOST_LINES
    assert {group.kind for group in groups} == {"group"}
    lines, waiting = [], list(groups)
    while waiting:
        part = waiting.pop(0)
        if part.kind == "line":
            lines.append(part.text)
        else:
            assert len(part.parts) <= MOST_PARTS
            waiting = [*part.parts, *waiting]
    assert lines == cell.split("\n")
    assert len(parts_of_cell("text", "a b\n" * MOST_LINES)) == MOST_LINES
