"""`rowwise` gives the same columns as `vectorized`, to the bit."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pricekit.core.contracts import State
from pricekit.datasets import make_catalog
from pricekit.features import catalog
from pricekit.features.catalog import ULTRA25, compute, fit_names
from pricekit.features.parsed import FEW
from pricekit.text import quantity
from pricekit.text.labelled_lines import KINDS, as_list, as_strings

LABELS = [
    "Item Name",
    "name",
    "Title",
    "Value",
    "Unit",
    "Brand",
    "category_name",
    "type",
    "Bullet Point 1",
    "desc",
]
NUMBERS = [
    "0",
    "1",
    "12",
    "1/2",
    "6/12",
    "1 1/2",
    "1,000",
    "1,5",
    "1.5",
    ".5",
    "99999",
    "1e308",
    "nan",
    "9" * 20,
    "½",
    "⁄",
]
WORDS = [
    "pack of",
    "case of",
    "per case",
    "x",
    "×",
    "- pack",
    "-pack",
    "of protein",
    "with",
    " - ",
    "premium",
    "bulk",
]
HOSTILE = [
    "\x00",
    "\x1c",
    "\x85",
    "\xa0",
    "\u2028",
    "\u200b",
    "İ",
    "ſ",
    "K",
    "é",
    "ÿ",
    "ɏ",
    "ɐ",
    "名",
    "🍿",
    "\ufeff",
    "_",
    "\v",
]
FRAGMENT = st.one_of(
    st.sampled_from(LABELS).map(lambda label: f"\n{label}: "),
    st.sampled_from(NUMBERS),
    st.sampled_from(sorted(quantity.UNITS)),
    st.sampled_from(WORDS),
    st.sampled_from(HOSTILE),
    st.sampled_from(
        [" ", ", ", "\n", "\r\n", ":", "(", ")", "|", "-", "–", "/", "'", "s", "acme tools", "ACME", "!"]
    ),
    st.from_regex(re.compile(quantity.SIZE, re.ASCII)),
    st.from_regex(re.compile(quantity.PACKS, re.ASCII)),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
TEXTS = st.lists(st.lists(FRAGMENT, max_size=12).map("".join), min_size=1, max_size=6)


def vectorized(texts: list[str], state: State) -> np.ndarray:
    """Compute the columns with the code for large tables."""
    many = texts + [""] * (FEW + 1)
    return compute(pd.Series(many, dtype="str"), ULTRA25, state)[: len(texts)]


def assert_same(texts: list[str], state: State) -> None:
    one_by_one = np.vstack([compute(pd.Series([text], dtype="str"), ULTRA25, state) for text in texts])
    expected = vectorized(texts, state)
    for place, name in enumerate(ULTRA25):
        np.testing.assert_array_equal(one_by_one[:, place], expected[:, place], name)
    assert one_by_one.tobytes() == expected.tobytes()


@given(TEXTS, TEXTS)
@settings(max_examples=150, deadline=None)
@example(["a"], ["tea 0,000.0 fl oz", "Value: 012,345.6", "tea 0,500 kg"])
@example(["a"], ["Item Name: acme, 12/1 oz\nValue: 1,000.5 fl. oz\nUnit: none"])
def test_any_text_has_the_same_columns(train: list[str], texts: list[str]) -> None:
    assert_same([*texts, *train], fit_names(as_strings(train * 2)))


@given(TEXTS, st.text(st.characters(codec="utf-8", exclude_characters=":\n"), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_a_common_label_is_not_part_of_names(texts: list[str], label: str) -> None:
    assert_same([f"{label}: {text}" for text in texts], {"label": label, "brand": {"a": 2}, "category": {}})


@given(TEXTS, st.text(st.characters(codec="utf-8", exclude_characters=":\n"), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
@example(["12 oz"], "a.b (c) [d]")
def test_a_column_of_sizes_has_the_same_columns(texts: list[str], label: str) -> None:
    state = {"label": "", "sizes": [label, "size"], "brand": {"a": 2}, "category": {}}
    assert_same([f"tea\n{label}: {text}\nsize:{text}" for text in texts], state)


def test_products_have_the_same_columns() -> None:
    texts = make_catalog(300, seed=3).catalog_content.tolist()
    assert_same(texts, json.loads(json.dumps(fit_names(as_strings(texts)))))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_line_is_recognised(kind: str) -> None:
    labels = [
        "bullet_point2",
        "desc",
        "Value",
        "UNITS",
        "brand name",
        "categories",
        " item name ",
        "Title",
        "maker",
    ]
    assert_same(
        [f"acme saw\n{label}: {kind} 5 kg" for label in labels], fit_names(as_strings(["acme saw, 5 kg"] * 2))
    )


def test_an_oversized_text_is_cut_in_the_same_way() -> None:
    texts = ["wörd, " * 20_000, "Value: 5" + "x" * 50_000, "\n" * 40_000, "a:" * 30_000]
    assert_same(texts, {"label": "", "brand": {}, "category": {}})


def test_few_texts_are_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table's size decides which parser runs; Arrow's costs 20 ms for one text."""
    monkeypatch.setattr(catalog, "VectorizedTexts", None)
    texts = pd.Series(["tea, 12 oz"] * FEW)
    assert compute(texts, ("value",), {"label": "", "brand": {}, "category": {}}).tolist() == [[12.0]] * FEW
    with pytest.raises(TypeError):
        compute(pd.concat([texts, texts]), ("value",), {"label": "", "brand": {}, "category": {}})


@given(TEXTS)
@settings(deadline=None)
def test_as_list_returns_the_texts_of_arrow(texts: list[str]) -> None:
    values = pd.Series([*texts, None, "x" * 40_000], dtype="str")
    assert as_list(values) == as_strings(values).to_pylist()
