"""What users see of comparables: the nearest products of a row, as text, HTML and JSON."""

from __future__ import annotations

import html
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pricekit.support.text import shorten

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
