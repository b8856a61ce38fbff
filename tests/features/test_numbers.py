"""The feature `numbers`: its labels and the numbers after them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.features.numbers import Numbers
from pricekit.table import Table


def table(texts):
    frame = pd.DataFrame({"text": pd.Series(texts, dtype="str")})
    return Table(pd.Series(range(len(frame))), frame.text, None, frame)


def numbers(columns=8):
    return Numbers(Numbers.Options(columns=columns))


CARS = table(
    [f"name: car {i}\nyear: {1990 + i}\nodometer: {i}0,000km\nseats: {4 + i % 2}" for i in range(1, 30)]
)


def test_labels_with_a_number_are_found_most_frequent_first():
    some = table([*CARS.text, *(f"name: bus {i}\nyear: {i}\nseats: many" for i in range(9))])
    assert numbers().fit(some) == {"labels": ["year", "odometer"]}
    assert numbers(columns=1).fit(some) == {"labels": ["year"]}


def test_a_label_of_few_rows_is_omitted():
    rare = [f"name: bus\nlength: {i}" for i in range(7)]
    assert numbers().fit(table([*CARS.text, *rare])) == {"labels": ["year", "odometer"]}
    assert "length" in numbers().fit(table([*CARS.text, *(f"length: {i}" for i in range(8))]))["labels"]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a: 2004", 2004),
        ("a:7", 7),
        ("a: 150,000km", 150_000),
        ("a: 1,234,567.5 m", 1_234_567.5),
        ("a: 1,5 l", 1.5),
        ("a: 0.75", 0.75),
        ("a: .75", 0.75),
        ("a: -.5", -0.5),
        ("a: ,25 kg", 0.25),
        ("a: $.75", 0.75),
        ("a: ½.75", 0.75),
        ("a: Rs.500", 500),
        ("a: né.500", 500),
        ("a: 0,125 kg", 0.125),
        ("a: 12345,678", 12345.678),
        ("a: 2e+07", 2e7),
        ("a: 1.5e-3", 0.0015),
        ("ä" * 30 + ": 3", 0),
        ("a: -12 °C", -12),
        ("a: $9.99", 9.99),
        ("a: 1e400", 0),
        ("a: 9e99", 1e12),
        ("a: " + "9" * 60, 1e12),
        ("a: 2004-05-01", 0),
        ("a: twelve", 0),
        ("a: 3 of the best things one can buy", 0),
        ("b: 5", 0),
        ("no label 5", 0),
        ("a: 5\na: 6", 5),
        ("x: 1\na: 5\n\nb: 6", 5),
        ("", 0),
    ],
)
def test_the_numbers_that_lines_contain(line, value):
    found = numbers(columns=2).transform(table([line]), {"labels": ["a"]})
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[value, 0]], rtol=1e-6)


LINES = st.tuples(
    st.sampled_from(["a", "a ", "Ä", "b", "", "a:"]),
    st.sampled_from(["", " ", "\t", "\v", "$", "Rs.", "€", "né.", "\u2009", "ǅ.", "½.", "\x00"]),
    st.from_regex(r"-?[0-9]{0,3}(,[0-9]{3}){0,2}[.,]?[0-9]{0,3}(e[-+]?[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(["", " km", "é", "\r", "\v", "x" * 21, "9"])
    | st.text(st.characters(codec="utf-8"), max_size=4),
).map(lambda parts: f"{parts[0]}:{''.join(parts[1:])}")


@given(st.lists(st.lists(LINES, max_size=4).map("\n".join), min_size=1, max_size=6))
@settings(deadline=None)
def test_a_text_has_the_same_numbers_alone_and_among_others(texts):
    state = {"labels": ["a", "Ä", "b"]}
    together = numbers().transform(table(texts), state)
    alone = np.vstack([numbers().transform(table([text]), state) for text in texts])
    assert alone.tobytes() == together.tobytes()


WORDS = st.text("abc XYZ.,'-°0", max_size=12)


@given(st.lists(st.tuples(WORDS, st.none() | st.integers(0, 10**9), WORDS), max_size=12))
@settings(deadline=None)
def test_each_text_has_its_own_numbers(rows):
    texts = [
        f"{before}\nsize: {n}\n{after}" if n is not None else f"{before}\n{after}"
        for before, n, after in rows
    ]
    found = numbers(columns=1).transform(table(texts), {"labels": ["size"]})
    np.testing.assert_array_equal(found[:, 0], np.array([n or 0 for _, n, _ in rows], np.float32))


def test_labels_of_a_long_table_are_searched_in_all_parts_of_it(monkeypatch):
    monkeypatch.setattr("pricekit.features.numbers.FIT_ROWS", 10)
    late = table([*["plain words"] * 50, *(f"size: {i}" for i in range(50))])
    assert numbers().fit(late) == {"labels": ["size"]}


LABELS = st.text(st.characters(exclude_characters=":\n", exclude_categories=("Cs",)), min_size=1, max_size=40)


@given(LABELS)
def test_any_label_is_found_again(label):
    some = table([f"{label}: {i}" for i in range(5)])
    state = numbers().fit(some)
    assert state == {"labels": [label]}
    assert numbers().transform(some, state)[:, 0].tolist() == [0, 1, 2, 3, 4]
