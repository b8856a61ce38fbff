"""A row on the page: its prices, its text with coloured words, the factors of its price, and similar products."""

from __future__ import annotations

from collections.abc import Sequence

from pricekit.comparables.similar import Comparables
from pricekit.evaluation.groups import amount
from pricekit.explanation.attribution import Explanation, Factor, name_of
from pricekit.reporting.blocks import Piece, Product
from pricekit.support.text import shorten

MOST_CHARACTERS = 1_500
"""Characters of such a row that are shown."""

LEAST_EFFECT = 0.03
"""Words with a smaller contribution to the log price are not coloured."""

PRODUCTS_SHOWN = 3
"""Similar products that are shown with such a row."""

LONGEST_NAME = 90
"""Characters of their names."""

COLOURS = (
    "Words that raise the price are blue and underlined; words that lower it are orange, with a dotted line."
)


def product_of(
    title: str, facts: Sequence[str], text: str, explanation: Explanation | None, beside: Comparables | None
) -> Product:
    """Return a row on the page.

    Args:
        title: its id.
        facts: what is said about its prices.
        text: shown without colours if there is no explanation.
        explanation: of its price; None if the model cannot be opened.
        beside: its comparables; None without products.
    """
    similar = () if beside is None else beside.similar[:PRODUCTS_SHOWN]
    products = [f"{amount(each.price)}  {shorten(each.name, LONGEST_NAME)}" for each in similar]
    if explanation is None:
        return Product(title, facts, [Piece(shorten(text, MOST_CHARACTERS))], (), products)
    words = f"the words below: {amount(explanation.base)} × their factors = {amount(explanation.price)}"
    factors = [f"× {each.factor:.2f}  {name_of(each)}" for each in explanation.phrases()[:5]]
    return Product(title, [*facts, words], _pieces(explanation), factors, products)


def _pieces(explanation: Explanation) -> list[Piece]:
    """Return the first text of a row, cut into coloured words and what is between them."""
    ((name, cell),) = list(explanation.cells.items())[:1]
    words: list[Factor] = [
        word for factor in explanation.factors if factor.column == name for word in factor.smallest()
    ]
    pieces, start = [], 0
    for word in sorted(words, key=lambda word: word.start):
        if word.end > MOST_CHARACTERS:
            break
        effect = word.log if abs(word.log) >= LEAST_EFFECT else 0.0
        pieces += [Piece(cell[start : word.start]), Piece(cell[word.start : word.end], effect)]
        start = word.end
    rest = cell[start:MOST_CHARACTERS] + "…" * (len(cell) > MOST_CHARACTERS)
    return [piece for piece in [*pieces, Piece(rest)] if piece.text]
