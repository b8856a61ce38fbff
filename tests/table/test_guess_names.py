"""Words in the names of columns."""

from __future__ import annotations

import pytest

from pricekit.table.name_words import COUNTER, RECORDED, words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("yearOfRegistration", ["year", "of", "registration"]),
        ("item_condition_id", ["item", "condition", "id"]),
        ("ProductID", ["product", "id"]),
        ("", []),
    ],
)
def test_names_are_split(name: str, words: list[str]) -> None:
    assert words_of(name) == words


def test_counters_and_dates_of_records() -> None:
    assert all(
        COUNTER.search(name) for name in ("views", "number of reviews", "销量", "aufrufe", "просмотры")
    )
    assert not any(COUNTER.search(name) for name in ("view", "overview", "year", "mileage", "brand", "pages"))
    assert all(RECORDED.search(name) for name in ("date created", "last seen", "erstellt am", "posting date"))
    assert not any(RECORDED.search(name) for name in ("publication date", "release date", "vintage"))
