"""Scores on a terminal."""

from rich.console import Console

from pricekit.cli.show import direction, fit_width, room_for_text
from pricekit.evaluation.groups import (
    amount,
)


def test_amounts_and_texts_are_short():
    assert [amount(price) for price in (0.001234, 0.5, 999.994, 1234567.8)] == [
        "0.00123",
        "0.50",
        "999.99",
        "1,234,568",
    ]
    assert [direction(bias) for bias in (0.9, 12.4, -61)] == ["level", "12% too high", "61% too low"]
    assert fit_width("two\r\nlines\x1b[31m and\u202e more", 80) == r"two lines\x1b[31m and\u202e more"
    assert fit_width("a" * 30, 10) == "a" * 9 + "…"
    assert fit_width("茶" * 8, 10) == "茶" * 4 + "…"  # a wide character takes two columns


def test_wide_terminals_are_used(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert room_for_text({"price": ["1.00"]}) == Console(stderr=True).width - 12
