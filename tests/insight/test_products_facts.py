"""Brand, unit and size of products."""

import pandas as pd

from pricekit.insight.products import begin_brands, facts_of, learn_labels


def _facts(texts, brands=None):
    series = pd.Series(texts, dtype="str")
    return facts_of(series, learn_labels(series), brands)


def test_a_brand_line_counts_before_the_beginning_of_the_name():
    found = _facts(["Item Name: Green Tea\nbrand: Acme", "Item Name: Black Tea, 20 Count"])
    assert found.brand == ["acme", "black"]
    assert found.name == ["Green Tea", "Black Tea, 20 Count"]


def test_words_belong_to_a_brand_while_most_rows_continue_with_them():
    names = [("la", "la victoria", "la victoria sauce")] * 2 + [
        ("la", "la victoria", "la victoria salsa")
    ] * 3
    names += [
        ("la", "la choy", "la choy rice"),
        ("gum", "gum white", ""),
        ("gum", "gum red", ""),
        ("gum", "", ""),
    ]
    found = begin_brands(names)
    assert found[:2] == ["la victoria"] * 2
    assert found[2:5] == ["la victoria salsa"] * 3  # most of the rows of La Victoria
    assert found[5] == "la"  # no other row begins with "la choy"
    assert found[6:] == ["gum"] * 3


def test_a_name_without_words_has_no_brand():
    assert _facts(["---", ""]).brand == ["", ""]


def test_known_brands_are_found_at_the_beginning_of_a_name():
    texts = ["Item Name: La Victoria Salsa, 8 oz", "Item Name: Nobody Knows"]
    assert _facts(texts, {"la": 0, "la victoria": 1}).brand == ["la victoria", "nobody"]


def test_sizes_are_in_common_measures():
    texts = ["Item Name: Tea, 2 kg", "Item Name: Oil, 0.5 l", "Item Name: Cups, 12 count", "Item Name: Love"]
    found = _facts(texts)
    assert found.unit == ["g", "ml", "pieces", ""]
    assert found.size.tolist() == [2000, 500, 12, 0]


def test_one_text_alone_has_the_facts_that_it_has_among_others():
    texts = [f"Titel: Acme Tee {number}\nInhalt: {number} kg" for number in range(1, 30)]
    series = pd.Series(texts, dtype="str")
    labels = learn_labels(series)
    every = facts_of(series, labels)
    one = facts_of(series.iloc[[4]].reset_index(drop=True), labels, set(every.brand))
    assert (one.name, one.brand, one.unit, one.size[0]) == (
        [every.name[4]],
        [every.brand[4]],
        [every.unit[4]],
        every.size[4],
    )
    assert every.unit[4] == "g"
