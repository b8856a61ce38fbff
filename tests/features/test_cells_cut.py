"""Cells of texts."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pricekit.features.cells import cut, find_labels
from pricekit.text.labelled_lines import Texts, join_texts


def texts_of(texts: list[str]) -> Texts:
    """Join texts."""
    return join_texts(pa.array(texts, pa.large_string()))


def cells(texts: list[str], labels: list[str]) -> dict[str, list[str]]:
    """Return the cells of each label."""
    found = cut(texts_of(texts), labels)
    return {label: found.column(place).to_pylist() for place, label in enumerate(labels)}


def test_a_cell_reaches_to_the_next_label() -> None:
    texts = ["Tea\nsize: 250 g\nnote: a\nb", "size: 1 kg\nother: c\nnote: d", "", "Jam"]
    assert cells(texts, ["", "size", "note"]) == {
        "": ["Tea", "", "", "Jam"],
        "size": ["250 g", "1 kg\nother: c", "", ""],
        "note": ["a\nb", "d", "", ""],
    }


def test_the_first_of_equal_labels_counts() -> None:
    assert cells(["size: 1\nsize: 2"], ["size"]) == {"size": ["1"]}


def test_a_cut_cell_ends_at_a_character() -> None:
    found = cut(texts_of(["größe", "日本"]), [""])
    assert [found.column(0, size).to_pylist() for size in (3, 4, 5)] == [
        ["gr", "日"],
        ["grö", "日"],
        ["grö", "日"],
    ]


def test_the_first_word_has_no_marks() -> None:
    texts = ["(big) red", "größe-xl", "", "...", "a\nb", "!", "日本 茶"]
    assert cut(texts_of(texts), [""]).first_words().column(0).to_pylist() == [
        "big",
        "größe",
        "",
        "",
        "a",
        "",
        "日本",
    ]


def test_common_labels_are_found_in_their_order() -> None:
    texts = [f"Item {n}\nsize: {n} g\nnote {n}: x\ncolour: red" for n in range(40)]
    assert find_labels(texts_of(texts)) == ["", "size", "colour"]
    assert find_labels(texts_of(["size: 3", "colour: red\nsize: 4"])) == ["colour", "size"]
    assert find_labels(texts_of([])) == []


LINES = st.lists(st.text("ab: \né日0", max_size=8), max_size=5).map("\n".join)


@given(st.lists(LINES, max_size=5))
def test_cells_are_parts_of_their_text(texts: list[str]) -> None:
    labels = ["", "a", "b", "aé"]
    together = cells(texts, labels)
    for row, text in enumerate(texts):
        alone = cells([text], labels)
        for label in labels:
            assert together[label][row] == alone[label][0]
            assert together[label][row] in text
