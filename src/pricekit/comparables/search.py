"""The nearest products of many rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pricekit.comparables.facts import Facts, facts_of
from pricekit.comparables.products import MOST_CHARACTERS, Products
from pricekit.comparables.result import Comparable, Comparables
from pricekit.errors import ConfigError
from pricekit.features.labelled_lines import as_list
from pricekit.features.neighbours.nearest import nearest
from pricekit.support.progress import progress
from pricekit.support.text import did_you_mean
from pricekit.table import Table

K = 5
"""Default number of products for a row."""
MOST = 1_000
"""Highest number of them."""
SAME = ("brand", "unit", "size")
"""What a product may have to have in common with the row."""
SIZES = 1.25
"""Sizes are alike up to this factor."""
_DIFFERENCES = 8
_WORD = re.compile(r"[^\W_]+(?:[.,'’-][^\W_]+)*")
_ROWS_AT_A_TIME = 256

Mask = npt.NDArray[np.bool_]


def find_comparables(
    table: Table,
    prices: npt.NDArray[np.float32],
    products: Products,
    k: int = K,
    same: Sequence[str] = (),
    currency: str | None = None,
) -> list[Comparables]:
    """Return the nearest products of each row. A product with the id and the text of the row is the row, and left out.

    Args:
        table: N rows.
        prices: predicted, (N,).
        products: with known prices.
        k: the number of products, 1 to 1,000.
        same: what the products must have in common with the row: "brand", "unit", "size" (up to a factor of 1.25).
        currency: of all prices.

    Raises:
        ConfigError: `k` or `same` is not one of the above.
    """
    check_request(k, same)
    found: list[Comparables] = []
    with progress("comparing", max(1, len(table))) as advance:
        for start in range(0, len(table), _ROWS_AT_A_TIME):
            window = np.arange(start, min(start + _ROWS_AT_A_TIME, len(table)))
            found += _find(table.take(window), prices[window], products, k, same, currency)
            advance(len(window))
    return found


def check_request(k: int, same: Collection[str]) -> None:
    """Raise ConfigError unless `k` and `same` are valid."""
    if not 1 <= k <= MOST:
        raise ConfigError(f"k is {k}; expected a number from 1 to {MOST:,}", parameters=("k",))
    for name in same:
        if name not in SAME:
            raise ConfigError(
                f"products cannot be compared by {name!r}; expected {', '.join(SAME)}.{did_you_mean(name, SAME)}",
                parameters=("same",),
            )


def _find(
    table: Table, prices: Any, products: Products, k: int, same: Sequence[str], currency: str | None
) -> list[Comparables]:
    texts = as_list(table.text)
    facts = facts_of(table.text, products.labels, products.brand_number)
    own = [_itself(products, id_, text) for id_, text in zip(table.ids.astype("str"), texts, strict=True)]
    places, similarities = nearest(products.index, texts, k, _allowed(products, facts, own, same))
    found = []
    for row, id_ in enumerate(table.ids.tolist()):
        name, there = facts.name[row], similarities[row] > 0
        nearby = tuple(
            _comparable(products, place, similarity, name)
            for place, similarity in zip(places[row][there].tolist(), similarities[row][there], strict=True)
        )
        found.append(Comparables(id_, name, float(prices[row]), nearby, currency))
    return found


def _itself(products: Products, id_: str, text: str) -> int | None:
    """Return the place of the row among the products, if it is one of them."""
    place = products.rows_by_id.get(id_)
    return place if place is not None and text[:MOST_CHARACTERS] == products.text[place] else None


def _allowed(
    products: Products, facts: Facts, own: Sequence[int | None], same: Sequence[str]
) -> Callable[[int], Mask] | None:
    """Return which products each row may be compared with; None if with all."""
    if not same and all(place is None for place in own):
        return None

    def allowed(row: int) -> Mask:
        mask = np.ones(len(products), bool)
        if "brand" in same:
            mask &= products.brands == products.brand_number.get(facts.brand[row], -1)
        if "unit" in same or "size" in same:
            mask &= products.units == facts.unit[row]
        if "size" in same:
            size = facts.size[row]
            mask &= (products.facts.size <= size * SIZES) & (products.facts.size * SIZES >= size)
        if (place := own[row]) is not None:
            mask[place] = False
        return mask

    return allowed


def _comparable(products: Products, place: int, similarity: float, name: str) -> Comparable:
    facts = products.facts
    other = facts.name[place]
    return Comparable(
        id=products.ids[place],
        name=other,
        price=float(products.price[place]),
        similarity=float(similarity),
        brand=facts.brand[place],
        unit=facts.unit[place],
        size=float(facts.size[place]),
        more=_words_only_in(other, name),
        less=_words_only_in(name, other),
        text=products.text[place],
    )


def _words_only_in(one: str, other: str) -> tuple[str, ...]:
    known = {word.casefold() for word in _WORD.findall(other)}
    words = {word.casefold(): word for word in reversed(_WORD.findall(one)) if word.casefold() not in known}
    return tuple(reversed(words.values()))[:_DIFFERENCES]
