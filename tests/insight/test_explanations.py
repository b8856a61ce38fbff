"""The contributions of parts: their sum, exact cases, and how many prices they need."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.insight.explanations import Node, attribution
from pricekit.insight.parts import Part, parts_of_cell

TEXT = (
    "Item Name: Green Tea, 20 Count (Pack of 6)\nFresh and mild. From the hills of Assam, in tins\nValue: 20"
)


class Found(NamedTuple):
    full: float
    root: Node


def attribute(text, value, evaluations=1000):
    """Attribute a function of the words that are left in a text."""
    row = Part("row", "", 0, 0, "", parts_of_cell("text", text))
    rounds, asked = attribution(row, evaluations), 0
    removals = next(rounds)
    while True:
        asked += len(removals)
        try:
            removals = rounds.send([value(_words(row, removed)) for removed in removals])
        except StopIteration as end:
            return Found(*end.value), asked


def _words(part, removed):
    if any(part is one for one in removed):
        return []
    return (
        [part.text] if not part.parts else [word for inner in part.parts for word in _words(inner, removed)]
    )


def _leaves(node):
    return [node] if not node.nodes else [leaf for inner in node.nodes for leaf in _leaves(inner)]


def _check_sums(node):
    if node.nodes:
        assert sum(inner.value for inner in node.nodes) == pytest.approx(node.value, abs=1e-9)
    for inner in node.nodes:
        _check_sums(inner)


@given(st.integers(0, 2**32 - 1), st.integers(2, 300))
def test_contributions_add_up_at_every_level(seed, evaluations):
    def value(words):
        return float(np.random.default_rng([seed, hash(tuple(words)) % 2**32]).normal())

    found, _ = attribute(TEXT, value, evaluations)
    assert found.root.value == pytest.approx(found.full - found.root.without)
    _check_sums(found.root)


def test_effects_that_add_up_are_found_exactly():
    effects = {"Green": 0.3, "6": 0.7, "Assam": -0.4, "Value: 20": 0.1}
    found, _ = attribute(TEXT, lambda words: 2 + sum(effects.get(word, 0) for word in words))
    assert found.root.without == 2
    values = {leaf.part.text: leaf.value for leaf in _leaves(found.root)}
    assert {text: round(value, 9) for text, value in values.items() if abs(value) > 1e-9} == effects


def test_words_that_repeat_each_other_share_their_effect():
    found, _ = attribute("cheap tea cheap cup", lambda words: float("cheap" in words))
    values = [(leaf.part.text, leaf.value) for leaf in _leaves(found.root)]
    assert values == [("cheap", 0.5), ("tea", 0.0), ("cheap", 0.5), ("cup", 0.0)]


def test_the_number_of_prices_is_bounded_and_the_largest_contributions_are_divided_first():
    def value(words):
        return sum({"6": 3.0, "Fresh": 0.5}.get(word, 0.001) for word in words)

    for evaluations in (2, 10, 20, 40):
        found, asked = attribute(TEXT, value, evaluations)
        assert asked <= max(evaluations, 2 + 2 * 3)
    found, _ = attribute(TEXT, value, 30)
    assert "6" in [leaf.part.text for leaf in _leaves(found.root)]
    assert [node.part.kind for node in found.root.nodes] == ["line"] * 3


def test_a_row_without_parts_has_no_contributions():
    found, asked = attribute(" \n", lambda words: 1.5)
    assert (found.full, found.root.without, found.root.nodes, asked) == (1.5, 1.5, [], 2)


def test_a_single_line_has_the_contribution_of_the_row():
    found, _ = attribute("tea", lambda words: float(len(words)))
    assert [(node.part.text, node.value) for node in found.root.nodes] == [("tea", 1.0)]
