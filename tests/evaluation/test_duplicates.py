from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.evaluation import duplicates
from pricekit.evaluation.duplicates import (
    are_labels,
    find_duplicates,
    find_variants,
    split_groups_of,
)
from pricekit.metrics import smape
from pricekit.text.likeness import equal_texts

WORDS = ["quiet", "river", "lantern", "copper", "maple", "harbour", "velvet", "cinder", "saffron", "meadow"]


def duplicate_groups(texts: pd.Series) -> np.ndarray:
    return split_groups_of(texts, np.ones(len(texts)))  # equal prices, so the texts are no labels


def series(texts):
    return pd.Series(texts, dtype="str")


def text_of(rng, words=30):
    return " ".join(
        f"{WORDS[i]}{j}" for i, j in zip(rng.integers(10, size=words), "abcdefghij" * 3, strict=False)
    )


def test_sizes_of_a_product_are_one_group_and_other_products_are_not():
    rng = np.random.default_rng(0)
    products = [text_of(rng, 10) for _ in range(50)]
    texts = [f"{product}, pack of {pack}: {9 * pack} oz" for product in products for pack in (6, 12, 24)]
    groups = duplicate_groups(series(texts))
    assert np.array_equal(groups, np.repeat(groups[::3], 3))
    assert len(set(groups)) == 50


def test_an_extra_word_does_not_make_a_long_text_distinct():
    rng = np.random.default_rng(1)
    long, short = text_of(rng), "red cotton shirt"
    groups = duplicate_groups(series([long, long + " new", short, short + " new", text_of(rng)]))
    assert groups[0] == groups[1]
    assert len(set(groups)) == 4


@pytest.mark.parametrize("texts", [["shirt", "lamp", "shirt", "", "12", "13", ""], ["..", "!", "", " "]])
def test_short_texts_are_duplicates_only_if_they_are_equal(texts):
    assert np.array_equal(duplicate_groups(series(texts)), equal_texts(series(texts)))


def test_a_chain_of_similar_texts_is_split(logged):
    """Each text has one word less of the first and one more of the last: neighbours are similar, the ends are not."""
    names = [f"{a}{b}" for a in "abcdefghijklmnopqrstuvwxyz" for b in "pqrs"]
    chain = [" ".join(names[start : start + 40]) for start in range(60)]
    alone = [text_of(np.random.default_rng(seed)) for seed in range(140)]
    groups = duplicate_groups(series(chain + alone))
    assert np.bincount(groups).max() <= 10
    assert "near-duplicate texts connect" in logged()
    assert len(set(groups[60:])) == 140


def test_the_irreducible_error_by_hand():
    same = np.array([0, 0, 1, 1, 2, 3, 3, 3])
    price = np.array([10.0, 30.0, 5.0, 5.0, 7.0, 1.0, 2.0, 4.0])
    error = find_duplicates(same, price)
    # One price for (10, 30): 0 + 100 = 200·20/40 of one row. For (1, 2, 4) the middle: 200/3 twice.
    assert (error.distinct_texts, error.conflicting_rows) == (4, 5)
    assert error.conflicting_smape == pytest.approx((100 + 2 * 200 / 3) / 5)
    assert error.lowest_smape == pytest.approx((100 + 2 * 200 / 3) / 8)
    assert "5 rows have equal texts but different prices" in error.sentence()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=12), st.floats(0.1, 1e4))
def test_no_constant_is_below_the_irreducible_error(prices, constant):
    price = np.array(prices)
    error = find_duplicates(np.zeros(len(price), int), price)
    if error.conflicting_rows:
        assert smape(np.full_like(price, constant), price) >= error.conflicting_smape - 1e-9
    else:
        assert len(set(prices)) == 1


def test_the_error_of_many_rows_per_text_is_nearly_exact(monkeypatch):
    price = np.exp(np.random.default_rng(0).normal(size=900))
    few = find_duplicates(np.zeros(900, int), price).conflicting_smape
    monkeypatch.setattr(duplicates, "_MAX_CANDIDATES", 1000)
    assert few == pytest.approx(find_duplicates(np.zeros(900, int), price).conflicting_smape, abs=0.05)


def test_labels_differ_from_a_table_of_copies(logged):
    rng = np.random.default_rng(0)
    words = series(rng.choice(["shirt", "lamp", "pen"], 300))
    price = np.exp(rng.normal(size=300))
    assert are_labels(equal_texts(words), price)
    assert len(set(split_groups_of(words, price))) == 300
    assert "the texts are labels (3 distinct texts for 300 rows" in logged()
    copies = series([text_of(np.random.default_rng(seed)) for seed in range(20)] * 15)
    same = equal_texts(copies)
    assert not are_labels(same, np.tile(price[:20], 15))
    assert np.array_equal(split_groups_of(copies, np.tile(price[:20], 15)), same)
    assert not are_labels(np.zeros(0, int), np.zeros(0))


NAMES = [
    "Amber",
    "Basil",
    "Cedar",
    "Dune",
    "Ember",
    "Fjord",
    "Grove",
    "Heath",
    "Iris",
    "Jade",
    "Kelp",
    "Lotus",
    "Moss",
]
SIZES = ["250 g", "500g", "1 kg", "2 kg"]


def shop(products=75, *, same_price=True, seed=0):
    """Products in four sizes, and as many rows of products in one size."""
    rng = np.random.default_rng(seed)
    made = [f"{a} {b} {c}" for a, b in combinations(NAMES, 2) for c in ("rice", "soap", "tea", "wax", "oil")]
    names = rng.choice(made, 5 * products, replace=False)
    level = rng.lognormal(2, 1, len(names))
    rows = [
        (f"{name} {size}", (k + 1) ** 0.3 * level[i])
        for i, name in enumerate(names[:products])
        for k, size in enumerate(SIZES)
    ]
    rows += [(f"{name} {rng.choice(SIZES)}", level[products + i]) for i, name in enumerate(names[products:])]
    texts, price = zip(*rows, strict=True)
    price = np.array(price) if same_price else rng.permutation(price)
    order = rng.permutation(len(texts))
    return series(np.array(texts, object)[order].tolist()), price[order]


def product_of(text):
    return " ".join(text.split(" ")[:3])


def found(texts, price):
    return find_variants(texts, price, split_groups_of(texts, price))


def test_sizes_of_short_titles_are_variants_of_a_product_and_new_products_are_harder():
    texts, price = shop()
    variants = found(texts, price)
    assert (variants.rows, variants.products, variants.total) == (300, 75, 600)
    assert variants.new_product_smape > variants.known_product_smape + 20
    products = texts.map(product_of)
    assert (
        len(set(zip(products, variants.groups.tolist(), strict=True)))
        == products.nunique()
        == len(set(variants.groups))
    )
    assert variants.sentence().startswith("300 of 600 rows are variants, such as sizes, of 75 products")


def test_equal_names_at_unrelated_prices_are_no_variants():
    assert found(*shop(same_price=False)) is None


def test_few_variants_and_texts_of_one_word_do_not_group_a_table():
    texts, price = shop()
    first = texts.map(product_of).duplicated()
    assert found(texts[~first].reset_index(drop=True), price[~first]) is None
    assert (
        found(series([f"Amber{k % 50} {k} g".replace(str(k % 50), "") for k in range(300)]), price[:300])
        is None
    )


def test_a_label_of_all_lines_is_no_part_of_a_name_and_other_lines_do_not_count():
    texts, price = shop()
    labelled = series([f"title: {text}\nmade: {k}" for k, text in enumerate(texts)])
    assert found(labelled, price).products == 75
    rng = np.random.default_rng(0)
    hidden = series([f"made: {k}\ntitle: {text}\n{text_of(rng, 12)}" for k, text in enumerate(texts)])
    assert found(hidden, price) is None


def test_equal_texts_alone_are_not_variants():
    texts, price = shop()
    first = ~texts.map(product_of).duplicated()
    texts, price = texts[first].reset_index(drop=True), price[first]
    twice = pd.concat([texts, texts], ignore_index=True)
    assert found(twice, np.tile(price, 2)) is None


def test_texts_without_words_have_no_variants():
    assert found(series(["!!", "", "12 kg", "?"] * 10), np.arange(1.0, 41)) is None
