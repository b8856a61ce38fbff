"""Numbers as people write them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.text.labelled_lines import join_texts
from pricekit.text.normal import normal_text
from pricekit.text.numbers import marks_code, parse, plain_bytes, read_numbers


def numbers_of(cells: list[str], *, dot: bool = False, comma: bool = True) -> list[list[float]]:
    """Return the numbers of each cell as a table is read; no cell is empty."""
    texts = join_texts(pa.array(map(normal_text, cells), pa.large_string()))
    codes = np.full(len(cells), marks_code(dot=dot, comma=comma), np.int8)
    found = read_numbers(plain_bytes(texts.data), texts.offset[:-1], texts.offset[1:] - 1, codes)
    return [found.value[found.cell == cell].tolist() for cell in range(len(cells))]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("42", [42]),
        ("123 456 km", [123456]),
        ("123\u202f456\u202f789,5 km", [123456789.5]),
        ("1'234.5", [1234.5]),
        ("1’234’567", [1234567]),
        ("1,234,567.89", [1234567.89]),
        ("1.234.567,89", [1234567.89]),
        ("1,234", [1234]),
        ("1.234", [1.234]),
        ("0,125 l", [0.125]),
        ("12,5", [12.5]),
        ("2.0 l / 163 hp", [2, 163]),
        ("4.5 out of 5 stars", [4.5, 5]),
        ("iPhone 12 128 GB", [12, 128]),
        ("20 x 30 x 5 cm", [20, 30, 5]),
        ("10-20", [10, 20]),
        ("10–20", [10, 20]),
        ("-5 °C", [-5]),
        ("−5", [-5]),
        ("(-3.5)", [-3.5]),
        (".5 oz", [0.5]),
        ("3/4 cup", [0.75]),
        ("1 1/2 lb", [1.5]),
        ("5-1/2 in", [5.5]),
        ("1/2/2013", [1, 2, 2013]),
        ("12.05.2013", [12, 5, 2013]),
        ("2013-05-01T10:30", [2013, 5, 1, 10, 30]),
        ("v1.2.3", [1, 2, 3]),
        ("1,20,000 km", [120000]),
        ("₹ 12,34,567.50", [1234567.5]),
        ("1e+05", [100000]),
        ("2.5E-3 m", [0.0025]),
        ("2.011e3", [2011]),
        ("1E5", [1, 5]),
        ("1e+05 5e-1 x", [100000, 0.5]),
        ("0 123", [0, 123]),
        ("no number", []),
        ("9" * 400, []),
        ("0.00001e+5", [1]),
        ("1,000,000,000,000,000,000e+5", [1e23]),
        ("." + "5" * 17, []),
    ],
)
def test_a_number_is_read_as_people_write_it(cell: str, expected: list[float]) -> None:
    assert numbers_of([cell]) == [expected]


def test_the_column_decides_about_one_group() -> None:
    assert numbers_of(["1.234", "1,234"], dot=True, comma=False) == [[1234], [1.234]]
    assert numbers_of(["1.234", "1,234"], dot=False, comma=True) == [[1.234], [1234]]


@pytest.mark.parametrize(("group", "mark"), [(",", "."), (".", ","), (" ", ","), ("'", "."), ("\u00a0", ",")])
@given(whole=st.integers(1000, 10**12), cents=st.integers(0, 99))
def test_every_grouping_gives_the_same_number(group: str, mark: str, whole: int, cents: int) -> None:
    written = f"{whole:,}".replace(",", group) + f"{mark}{cents:02d}"
    assert numbers_of([written]) == [[float(f"{whole}.{cents:02d}")]]


@given(st.lists(st.text(min_size=1).filter(lambda text: "\n" not in text), min_size=1, max_size=5))
def test_a_cell_gives_the_same_numbers_alone_and_among_others(cells: list[str]) -> None:
    together = numbers_of(cells)
    assert together == [numbers_of([cell])[0] for cell in cells]
    assert all(np.isfinite(value) for found in together for value in found)


@given(st.text("0123456789.,' ", min_size=1, max_size=30))
def test_parts_of_a_chain_lie_inside_it(written: str) -> None:
    for value, start, end in parse(written, False, True):
        assert value >= 0
        assert 0 <= start < end <= len(written)
