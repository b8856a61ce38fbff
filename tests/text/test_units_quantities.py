"""Units of numbers, and the amounts of cells."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.text.labelled_lines import join_texts
from pricekit.text.numbers import marks_code, plain_bytes, read_numbers
from pricekit.text.units import KINDS, MOST_TOTAL, measure, totals


def amounts(cells: list[str]) -> list[tuple[str, float, float]]:
    """Return class, amount and packs of each cell; no cell is empty."""
    texts = join_texts(pa.array(cells, pa.large_string()))
    plain, start, end = plain_bytes(texts.data), texts.offset[:-1], texts.offset[1:] - 1
    numbers = read_numbers(plain, start, end, np.full(len(cells), marks_code(dot=False, comma=True), np.int8))
    total = totals(numbers, measure(plain, numbers, start, end), len(cells))
    kinds = [KINDS[kind] for kind in total.kind]
    return list(zip(kinds, total.amount.tolist(), total.pack.tolist(), strict=True))


@pytest.mark.parametrize(
    ("cell", "kind", "amount", "packs"),
    [
        ("750 ml", "volume", 750, 1),
        ("10's", "count", 10, 10),
        ("Strip of 15’s tablets", "count", 15, 15),
        ("4 x 1.5 L", "volume", 6000, 4),
        ("0,7 L", "volume", 700, 1),
        ("1.5 Ltr", "volume", 1500, 1),
        ("500 г", "weight", 500, 1),
        ("12 fl. oz.", "volume", 12 * 29.5735295625, 1),
        ("12 Fl Oz Bottle", "volume", 12 * 29.5735295625, 1),
        ("2 lb 3 oz", "weight", 2 * 453.59237 + 3 * 28.349523125, 1),
        ("1h 30min", "time", 90, 1),
        ("5 ft 3 in", "length", 5 * 304.8 + 3 * 25.4, 1),
        ("3 x 200 g", "weight", 600, 3),
        ("3×200g", "weight", 600, 3),
        ("200 g x 3", "weight", 600, 3),
        ("2 x 3 x 200 g", "weight", 1200, 6),
        ("tea 12 oz (Pack of 6)", "weight", 72 * 28.349523125, 6),
        ("4 oz, 10 count", "weight", 4 * 28.349523125, 10),
        ("Pack of 6", "count", 6, 6),
        ("12 pcs", "count", 12, 12),
        ("10 Stück", "count", 10, 10),
        ("20 cm x 30 cm", "area", 0.06, 1),
        ("20 x 30 x 5 cm", "box", 3e6, 1),
        ("80 sq ft", "area", 80 * 0.09290304, 1),
        ("128GB", "storage", 128, 1),
        ("5000 mAh, 20 W", "charge", 5000, 1),
        ("whisky 40% 70 cl", "volume", 700, 1),
        ("123 456 km", "distance", 123456, 1),
        ("2 in 1 shampoo", "none", 0, 1),
        ("model 300", "none", 0, 1),
        ("green tea", "none", 0, 1),
        ("0 g", "none", 0, 1),
    ],
)
def test_a_cell_states_an_amount(cell: str, kind: str, amount: float, packs: float) -> None:
    [found] = amounts([cell])
    assert found == (kind, pytest.approx(amount), packs)


TEXTS = st.text("0123456789 x.,-/%gkml²²éж\u00a0 of pack", min_size=1, max_size=40).filter(str.strip)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_a_cell_states_the_same_alone_and_among_others(cells: list[str]) -> None:
    together = amounts(cells)
    assert together == [amounts([cell])[0] for cell in cells]
    assert all(0 <= amount <= MOST_TOTAL and 1 <= packs <= MOST_TOTAL for _, amount, packs in together)


@given(number=st.integers(1, 999), packs=st.integers(2, 99))
def test_packs_multiply(number: int, packs: int) -> None:
    [once, first, then] = amounts([f"{number} g", f"{packs} x {number} g", f"{number} g x {packs}"])
    assert first == then == ("weight", once[1] * packs, packs)
