"""Brand, unit and size of products, so that like is compared with like.

The brand is what a brand line states. Without one, it is the beginning of the item name, see `begin_brands`. Unit and
size are those that the built-in features find: grams, millilitres, pieces or millimetres.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from pricekit.features.brand_category import common_label, labelled, leading_words
from pricekit.features.catalog import compute, size_labels
from pricekit.features.labelled_lines import as_strings, batches, join_texts, split_lines
from pricekit.features.quantity import MEASURES

_COLUMNS = ("unit_type", "total_quantity")
_MOST = 0.5
"""A word belongs to the brand if at least this share of the rows that begin alike continue with it."""
_SHORTEST = 4
"""Shorter beginnings, such as "the" and "la", take the next word along, if another row has it, too."""


@dataclass(frozen=True)
class Facts:
    """What N products are.

    Attributes:
        name: the item names, (N,).
        brand: in lower case, "" if none was found, (N,).
        unit: "g", "ml", "pieces", "mm" or "", (N,).
        size: in that unit, 0 if none was found, float64 (N,).
    """

    name: list[str]
    brand: list[str]
    unit: list[str]
    size: npt.NDArray[np.float64]


def learn_labels(texts: pd.Series) -> dict[str, Any]:
    """Return which labels of texts, (N,), begin most of them and state sizes, for `facts_of`."""
    strings = as_strings(texts)
    label = common_label(split_lines(join_texts(strings)).first_lines())
    return {"label": label, "sizes": size_labels(strings, label)}


def facts_of(texts: pd.Series, labels: Mapping[str, Any], brands: Collection[str] | None = None) -> Facts:
    """Find the facts of texts.

    Args:
        texts: strings, (N,).
        labels: the result of `learn_labels` for the products.
        brands: the known brands, with which an item name may begin; None learns them from the texts.
    """
    names: list[str] = []
    stated: list[str] = []
    begun: list[tuple[str, str, str]] = []
    for part in batches(as_strings(texts)):
        lines = split_lines(join_texts(part))
        title = lines.titles(labels["label"])
        one, two, three = (found.to_pylist() for found in leading_words(pc.utf8_lower(title)))
        names += title.to_pylist()
        stated += labelled(lines, "brand").to_pylist()
        begun += zip(one, two, three, strict=True)
    found = begin_brands(begun) if brands is None else [_known(words, brands) for words in begun]
    brand = [said or other for said, other in zip(stated, found, strict=True)]
    block = compute(texts, _COLUMNS, dict(labels))
    unit = [MEASURES[int(kind)] for kind in block[:, 0]]
    return Facts(names, brand, unit, block[:, 1].astype(np.float64))


def begin_brands(begun: list[tuple[str, str, str]]) -> list[str]:
    """Return the brand with which each item name begins: its first word, and the next ones while they belong to it.

    A word belongs to the brand if most of the rows that begin alike continue with it. So "la victoria sauce" among
    others of La Victoria has the brand "la victoria", and "trident white gum" among other gum of Trident "trident".

    Args:
        begun: the first one, two and three words of each name, "" if there are fewer, (N,).
    """
    rows: dict[str, int] = {}
    for words in begun:
        for beginning in words:
            rows[beginning] = rows.get(beginning, 0) + 1
    found = []
    for words in begun:
        brand = words[0]
        for longer in words[1:]:
            least = 2 if len(brand) < _SHORTEST else max(2, _MOST * rows[brand])
            if rows[longer] < least or not longer[-1:].isalnum():
                break
            brand = longer
        found.append(brand)
    return found


def _known(words: tuple[str, str, str], brands: Collection[str]) -> str:
    """Return the longest beginning that is a known brand, else the first word."""
    return next((beginning for beginning in reversed(words) if beginning and beginning in brands), words[0])
