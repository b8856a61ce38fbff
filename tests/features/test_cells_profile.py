"""What the labels of texts yield."""

import math

import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from pricekit.features.cells import (
    Categories,
    Column,
    StoredColumns,
    profile_columns,
    to_json,
    values_of,
)


def strings(texts: list[str]) -> pa.LargeStringArray:
    """Return an Arrow array."""
    return pa.array(texts, pa.large_string())


TEXTS = strings(
    [
        f"Tea {n}\nsize: {n + 1} x {100 + n} g\nkm: {n + 1}.{n:03d}\nstate: {'used car' if n % 2 else 'new'}\n"
        f"note: {'good ' * 9}"
        for n in range(60)
    ]
)


def test_each_label_is_described() -> None:
    found = {column.label: column for column in profile_columns(TEXTS)}
    assert list(found) == ["", "size", "km", "state", "note"]
    assert (found["size"].places, found["size"].measured) == (2, True)
    assert (found["state"].cells, found["state"].words) == (["new", "used car"], ["new", "used"])
    assert found["note"].long
    assert [found[label].describe() for label in ("size", "state", "note")] == [
        "2 numbers, amounts",
        "2 categories",
        "words",
    ]
    assert all(column.share == 1.0 for column in found.values())


def test_values_are_read_by_label_and_place() -> None:
    columns = profile_columns(TEXTS)
    values = values_of(pd.Series(["Tea 7\nsize: 3 x 200 g\nkm: 5", "plain"]), columns)
    size = [column.label for column in columns].index("size")
    assert values.number[0, size].tolist()[:2] == [3, 200]
    assert math.isnan(values.number[0, size, 2])
    assert math.isnan(values.number[1, size, 0])
    assert values.total.amount.reshape(2, -1)[:, size].tolist() == [600, 0]
    assert values.total.pack.reshape(2, -1)[:, size].tolist() == [3, 1]


def test_the_column_decides_what_separates_thousands() -> None:
    def marks(cells: list[str]) -> tuple[bool, bool]:
        [column] = profile_columns(strings([f"km: {cell}" for cell in cells]))
        return column.dot_groups, column.comma_groups

    assert marks(["1.234,5", "2.345,6", "3.456"]) == (True, False)
    assert marks(["1,234.5", "2,345", "3.5"]) == (False, True)
    assert marks(["565.000", "129.000", "1.290.000"]) == (True, True)
    assert marks(["1.125", "0.250", "2.375"]) == (False, True)
    assert marks(["1,5", "2,25", "3"]) == (True, False)


def test_categories_tell_missing_known_and_others_apart() -> None:
    def column(label: str, cells: list[str], words: list[str]) -> Column:
        facts = dict.fromkeys(("dot_groups", "comma_groups", "measured", "long"), False)
        return Column(label=label, share=1.0, places=0, cells=cells, words=words, dates=None, **facts)

    columns = [column("colour", ["blue", "red"], []), column("size", [], ["big", "red", "big"])]
    texts = ["", "colour: RED\nsize: red wine", "size: big one\ncolour: blue", "colour: green\nsize: blue"]
    for repeated in (1, 20_000):  # of many texts, columns are looked up one after the other
        values = values_of(pd.Series(texts * repeated), columns)
        known = Categories(columns)
        assert known.counts == [2, 0, 0, 3]
        codes = known.codes(values.cells)
        assert codes.tolist() == [[0, 0, 0, 0], [2, 0, 0, 2], [1, 0, 0, 1], [3, 0, 0, 4]] * repeated


def test_a_profile_survives_json() -> None:
    columns = profile_columns(TEXTS)
    assert TypeAdapter(StoredColumns).validate_python(to_json(columns)) == columns


@settings(max_examples=40)
@given(st.lists(st.text(max_size=60), max_size=6))
def test_any_texts_have_a_profile(texts: list[str]) -> None:
    columns = profile_columns(strings(texts))
    values = values_of(pd.Series(texts), columns)
    assert values.number.shape == (len(texts), len(columns), 3)
