"""The products that are most similar to rows, and rows whose prices are far from those of such products."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError
from pricekit.features.neighbours import nearest
from pricekit.insight import PRODUCTS
from pricekit.insight.products import MOST_CHARACTERS, Facts, Products, facts_of
from pricekit.io.progress import tracked
from pricekit.table import Table
from pricekit.text.labelled_lines import as_list
from pricekit.wording import did_you_mean, shorten

LEAST_PRODUCTS = 3
"""With fewer comparables, no price is far from them."""
LEAST_SIMILARITY = 0.15
"""Less similar products say nothing about a price."""
FAR = 2.0
"""A price is far if it is outside of the comparables' range, and differs from their median by more than this factor."""
_LONGEST = 60
_PER = {"g": (100, "100 g"), "ml": (100, "100 ml"), "pieces": (1, "piece"), "mm": (1000, "m")}


@dataclass(frozen=True)
class Comparable:
    """A product with a known price that is similar to a row.

    Attributes:
        id: its id in the table of products.
        name: its item name.
        price: its known price.
        similarity: the cosine similarity of the texts, above 0, 1 for equal ones.
        brand: "" if none was found.
        unit: "g", "ml", "pieces", "mm" or "".
        size: in that unit, 0 if none was found.
        more: words of its name that the row's name lacks.
        less: words of the row's name that its name lacks.
        text: the beginning of its text.
    """

    id: str
    name: str
    price: float
    similarity: float
    brand: str
    unit: str
    size: float
    more: tuple[str, ...]
    less: tuple[str, ...]
    text: str

    @property
    def unit_price(self) -> tuple[float, str] | None:
        """The price for 100 g, 100 ml, a piece or a metre, with the words for it; None without a size."""
        if self.unit not in _PER or not self.size:
            return None
        amount, words = _PER[self.unit]
        return self.price / self.size * amount, words

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self) | {"more": list(self.more), "less": list(self.less)}


@dataclass(frozen=True, repr=False)
class Comparables:
    """The nearest products of a row, the most similar first.

    Attributes:
        id: of the row.
        name: its item name.
        price: the predicted price.
        products: at most k; fewer if fewer share a word with the row, or agree with it in what was demanded.
        currency: of all prices; None if it is unknown.
    """

    id: Any
    name: str
    price: float
    products: tuple[Comparable, ...]
    currency: str | None = None

    @cached_property
    def similar(self) -> tuple[Comparable, ...]:
        """The products with a similarity of at least 0.15; others say nothing about the price."""
        return tuple(each for each in self.products if each.similarity >= LEAST_SIMILARITY)

    @cached_property
    def median(self) -> float | None:
        """The median price of the similar products, geometric between two; None without any."""
        if not self.similar:
            return None
        return float(np.exp(np.median([math.log(each.price) for each in self.similar])))

    @property
    def far(self) -> bool:
        """Whether the predicted price is far from those of the comparables; see `is_far`."""
        return self.is_far(self.price)

    @property
    def distance(self) -> float:
        """The absolute logarithm of the predicted price divided by the median; 0 without similar products."""
        return 0.0 if self.median is None else abs(math.log(self.price / self.median))

    def is_far(self, price: float) -> bool:
        """Return whether a price is outside of the comparables' range, and over twice or under half of their median.

        Only the similar products count, and fewer than three of them say nothing.
        """
        prices = [each.price for each in self.similar]
        if self.median is None or len(prices) < LEAST_PRODUCTS or min(prices) <= price <= max(prices):
            return False
        return abs(math.log(price / self.median)) > math.log(FAR)

    def to_frame(self) -> pd.DataFrame:
        """Return one line per product, with the columns of `Comparable`."""
        return pd.DataFrame(
            [each.to_dict() for each in self.products], columns=list(Comparable.__annotations__)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "id": self.id,
            "name": self.name,
            "price": self.price,
            "currency": self.currency,
            "median": self.median,
            "far": self.far,
            "products": [each.to_dict() for each in self.products],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def __repr__(self) -> str:
        nearest = ", ".join(f"{each.price:.2f} ({shorten(each.name, _LONGEST)})" for each in self.products)
        return f"Comparables({self.id!r}: {self.price:.2f}; {nearest or 'no similar product'})"

    def _repr_html_(self) -> str:
        unit = f" {html.escape(self.currency)}" if self.currency else ""
        title = f"<p><b>{html.escape(str(self.id))}</b> {html.escape(shorten(self.name, _LONGEST))}: "
        title += f"{self.price:,.2f}{unit}</p>"
        rows = "".join(
            f"<tr><td>{each.price:,.2f}</td><td>{each.similarity:.2f}</td>"
            f"<td>{html.escape(shorten(each.name, _LONGEST))}</td></tr>"
            for each in self.products
        )
        return f"<div>{title}<table><tr><th>price</th><th>similarity</th><th>product</th></tr>{rows}</table></div>"


MOST = 1_000
"""Highest number of products for a row."""
SAME = ("brand", "unit", "size")
"""What a product may have to have in common with the row."""
SIZES = 1.25
"""Sizes are alike up to this factor."""
_DIFFERENCES = 8
_WORD = re.compile(r"[^\W_]+(?:[.,'’-][^\W_]+)*")
_ROWS_AT_A_TIME = 256


def find_comparables(
    table: Table,
    prices: np.ndarray,
    products: Products,
    k: int = PRODUCTS,
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
    comparables: list[Comparables] = []
    with tracked("comparing", list(table.windows(_ROWS_AT_A_TIME)), len) as windows:
        for window in windows:
            texts, ids = as_list(window.text), window.ids
            facts = facts_of(window.text, products.labels, products.brand_number)
            own = [_itself(products, *each) for each in zip(ids.astype("str"), texts, strict=True)]
            places, similarities = nearest(products.index, texts, k, _allowed(products, facts, own, same))
            for row, id_ in enumerate(ids.tolist()):
                each = zip(places[row].tolist(), similarities[row].tolist(), strict=True)
                nearby = (_comparable(products, *one, facts.name[row]) for one in each if one[1] > 0)
                price = float(prices[len(comparables)])
                comparables.append(Comparables(id_, facts.name[row], price, tuple(nearby), currency))
    return comparables


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


def _itself(products: Products, id_: str, text: str) -> int | None:
    """Return the place of the row among the products, if it is one of them."""
    place = products.rows_by_id.get(id_)
    return place if place is not None and text[:MOST_CHARACTERS] == products.text[place] else None


def _allowed(
    products: Products, facts: Facts, own: Sequence[int | None], same: Sequence[str]
) -> Callable[[int], np.ndarray] | None:
    """Return which products each row may be compared with; None if with all."""
    if not same and all(place is None for place in own):
        return None

    def allowed(row: int) -> np.ndarray:
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
        similarity=similarity,
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


MOST_COMPARED = 1_000
"""Rows of an error table, the worst ones, that are compared with products."""

FAR_CELLS = {(False, False): "", (True, False): "price", (False, True): "predicted", (True, True): "both"}
"""The cells of the column `far`, by whether the true and the predicted price are far."""


def compare_rows(rows: pd.DataFrame, products: Products, currency: str | None = None) -> list[Comparables]:
    """Return the comparables of rows of an error table, see `pricekit.evaluation.groups.error_table`."""
    ids = rows["id"].astype("str").mask(rows["id"] == "", rows["row"].astype("str"))
    table = Table(
        ids.reset_index(drop=True),
        rows["text"].reset_index(drop=True),
        None,
        pd.DataFrame(index=range(len(rows))),
    )
    return find_comparables(table, rows["predicted"].to_numpy(np.float32), products, PRODUCTS, (), currency)


def mark_far(rows: pd.DataFrame, products: Products) -> pd.DataFrame:
    """Return an error table with two more columns, for its first 1,000 rows.

    `comparable_price` is the median price of up to five similar products, NaN without any. `far` says what is far from
    them: "price", "predicted", "both" or "".
    """
    comparables = compare_rows(rows.head(MOST_COMPARED), products)
    typical = np.full(len(rows), np.nan)
    far = [""] * len(rows)
    for place, (each, price) in enumerate(zip(comparables, rows["price"], strict=False)):
        if each.median is not None:
            typical[place] = each.median
            far[place] = FAR_CELLS[each.is_far(float(price)), each.far]
    marked = rows.copy()
    before_text = list(marked).index("text")
    marked.insert(before_text, "comparable_price", typical)
    marked.insert(before_text + 1, "far", far)
    return marked
