"""The feature `columns`."""

import numpy as np

from pricekit.features.cells import CellNumbers
from pricekit.table import table_of_texts

FEATURE = CellNumbers(CellNumbers.Options(columns=4))
TABLE = table_of_texts(
    [f"car {n % 2}\nengine: {n % 9 + 1}.0 l / {60 + n} hp\nmileage: {n} {n:03d} km" for n in range(1, 60)]
)


def test_words_for_powers_of_ten_count_where_they_are_the_whole_cell() -> None:
    cells = ["120k", "2 lakh", "1,5 Mio", "3 crore", "14k gold", "500"]
    table = table_of_texts([f"tea\nsold: {cell}" for cell in cells * 10])
    feature = CellNumbers(CellNumbers.Options(columns=1))
    block = feature.transform(table, feature.fit(table))
    assert block[:6, 0].tolist() == [120_000, 200_000, 1_500_000, 30_000_000, 14, 500]


def test_numbers_are_columns_by_position_and_in_a_common_measure() -> None:
    state = FEATURE.fit(TABLE)
    found = FEATURE.transform(table_of_texts(["car\nengine: 2.0 l / 100 hp\nmileage: 123 456 km"]), state)
    assert sorted(found[0].tolist()) == [0, 2000, np.float32(74569.98716), 123456]


def test_a_missing_cell_is_zero() -> None:
    assert not FEATURE.transform(table_of_texts(["", "car"]), FEATURE.fit(TABLE)).any()


def test_large_and_small_units_compare() -> None:
    table = table_of_texts(
        [f"tea\nsize: {n} g" if n % 2 else f"tea\nsize: {n / 1000} kg" for n in range(1, 60)]
    )
    found = FEATURE.transform(table, FEATURE.fit(table))
    assert np.allclose(found[:, 0], np.arange(1, 60))


def test_each_value_says_which_number_of_which_column_it_is() -> None:
    texts = [f"tea {n} and {n * 3}\nsize: {n + 1} kg\npoints: {n % 20}" for n in range(60)]
    feature = CellNumbers(CellNumbers.Options(columns=8))
    words = feature.describe(feature.fit(table_of_texts(texts)))
    assert set(words.values()) == {
        "number 1 in the text",
        "number 2 in the text",
        "number in size",
        "number in points",
    }
    assert set(words) <= set(feature.names)
