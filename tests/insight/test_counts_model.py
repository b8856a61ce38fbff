"""Counts of rows: sums, bounds of memory, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pricekit as pk
from pricekit.insight.counts import (
    MOST_NEW_VALUES,
    MOST_NEW_WORDS,
    ComparedRows,
    Counts,
    Half,
    Priced,
    _names_sum,
    count,
    see,
)
from pricekit.insight.domain import Domain
from pricekit.predict.members import table_of
from pricekit.runs.load import load_model


@pytest.fixture(scope="module")
def model(bundle):
    return load_model(bundle, "ort-cpu")


@pytest.fixture(scope="module")
def counted(model):
    """Return the counts of rows of a frame; the even ones are the first half."""

    def counts(frame, rows):
        table = table_of(frame, model.columns).take(rows)
        (inputs,) = model.prepare(table)
        priced = Priced(inputs.features, inputs.tokens.ids, model.price([inputs]))
        domain, preprocessor = Domain(model.sketch.vector, model.sketch.rows), model.members[0].preprocessor
        seen = see(model.sketch, domain, ComparedRows(table, len(table)), preprocessor.features.names, priced)
        return count(model.sketch, seen, preprocessor, rows % 2 == 0)

    return counts


@pytest.fixture(scope="module")
def frame():
    return pk.make_catalog(300, seed=9)


def test_the_sum_of_parts_is_the_whole(model, counted, frame):
    whole = counted(frame, np.arange(300))
    parts = [counted(frame, rows) for rows in np.array_split(np.arange(300), [7, 8, 150])]
    found = parts[0]
    for part in parts[1:]:
        found = found.plus(part, model.sketch)
    assert found.fits(model.sketch)
    assert found.model_copy(update={"halves": []}) == whole.model_copy(update={"halves": []})
    for one, two in zip(found.halves, whole.halves, strict=True):
        assert one.rows == two.rows
        assert one.sums == pytest.approx(two.sums)
        assert one.products == pytest.approx(two.products)
    assert whole.rows == sum(whole.text_length) == sum(whole.predicted) == 300
    assert whole.fields["Item Name"].filled == 300
    assert 0 < whole.outside < 100


def test_rows_beyond_the_range_of_the_training_rows_are_counted(counted, frame):
    long = frame.assign(catalog_content="Item Name: Tea\n" + 2000 * "long ")
    assert counted(long, np.arange(300)).outside == 300


def test_counts_contain_no_row(counted, frame):
    secret = frame.assign(catalog_content=frame["catalog_content"] + "\nNote: of Mrs Jones")
    found = counted(secret, np.arange(300)).model_dump_json()
    assert "of mrs" not in found.lower()
    assert frame["catalog_content"][0].split("\n")[0] not in found


def test_counts_are_read_as_they_were_written(counted, frame):
    found = counted(frame, np.arange(3))
    assert Counts.model_validate_json(found.model_dump_json()) == found


def test_moments_of_sums_are_those_of_the_vectors():
    vectors = np.random.default_rng(0).normal(size=(50, 4))
    mean, second = Half.of(vectors[:20]).plus(Half.of(vectors[20:])).moments()
    assert mean == pytest.approx(vectors.mean(0))
    assert second == pytest.approx(vectors.T @ vectors / 50)


def test_rows_with_more_words_and_values_than_a_file_has_are_summarised(model, counted):
    """Known names stay exact, and nothing is refused, however many new names the rows have."""

    def word(number):
        return "zq" + "".join(chr(ord("a") + number // 26**place % 26) for place in range(4))

    texts = [
        f"Item Name: {word(row)}\nUnit: {word(row)}\nProduct Description: often green "
        + " ".join(word(5 * row + place) for place in range(12))
        for row in range(3000)
    ]
    found = counted(pd.DataFrame({"catalog_content": texts, "price": 1.0}), np.arange(3000))
    assert found.fits(model.sketch)
    assert len(found.words.keys() - model.sketch.words.keys()) <= MOST_NEW_WORDS
    assert found.words["green"] == 3000
    assert 3000 * (1 - 12 / MOST_NEW_WORDS) <= found.words["often"] <= 3000
    assert found.unknown_words > 30_000
    assert model.sketch.fields["Unit"].values
    assert found.fields["Unit"].filled == 3000
    assert len(found.fields["Unit"].values) <= MOST_NEW_VALUES + len(model.sketch.fields["Unit"].values)


@given(st.lists(st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 9), max_size=6), max_size=12))
def test_names_are_bounded_and_their_counts_nearly_right(tables):
    """Known names are exact. The others are too low by at most 1/(K + 1) of their sum, as of Misra and Gries."""
    known, most, found = {"a", "b"}, 3, {}
    for table in tables:
        found = _names_sum(found, table, known, most)
        assert len(found.keys() - known) <= most
    true = {name: sum(table.get(name, 0) for table in tables) for name in "abcdefghij"}
    error = sum(true[name] for name in true if name not in known) / (most + 1)
    for name, rows in true.items():
        least = rows if name in known else rows - error
        assert least <= found.get(name, 0) <= rows


@pytest.mark.parametrize(
    "change",
    [
        {"text_length": [1]},
        {"predicted": []},
        {"features": {}},
        {"halves": []},
        {"fields": {"x": {"filled": 1}}},
    ],
)
def test_counts_in_other_bins_do_not_fit(model, counted, frame, change):
    found = counted(frame, np.arange(3))
    assert found.fits(model.sketch)
    other = Counts.model_validate_json(found.model_dump_json())
    changed = Counts.model_validate({**other.model_dump(), **change})
    assert not changed.fits(model.sketch)
