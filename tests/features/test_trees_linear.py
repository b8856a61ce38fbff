"""The linear model whose log price is an input of the trees."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.features.trees import (
    CROSSED_ROWS,
    WORD_BITS,
    CrossTerms,
    Inputs,
    Linear,
    WordTerms,
    _ranks,
    count_terms,
    linear_out_of_fold,
)
from pricekit.table import table_of_texts
from pricekit.text.labelled_lines import as_strings, join_texts
from pricekit.text.words import split_words

WORDS = st.lists(st.sampled_from(["tea", "Tea", "green", "é½", "12", "!", "\n", "a" * 70]), max_size=12)


def split(texts):
    return split_words(join_texts(as_strings(pd.Series(list(texts), dtype=object))))


def words(texts):
    return [WordTerms(part) for part in split(texts)]


def buckets(text):
    counts = count_terms(words([text]))
    return sorted(np.repeat(counts.indices, counts.data.astype(int)).tolist())


def fitted(texts, log_price):
    return Linear.fit(count_terms(words(texts)), np.asarray(log_price, np.float64))


@given(st.lists(WORDS.map(" ".join), max_size=6))
def test_texts_together_have_the_terms_of_each_text_alone(texts):
    together = count_terms(words(texts))
    assert together.shape[0] == len(texts)
    for row, text in enumerate(texts):
        alone = count_terms(words([text]))
        assert (together[row] != alone).nnz == 0


def test_terms_are_words_and_pairs_of_neighbours_in_any_case():
    tea, green = buckets("tea"), buckets("green")
    (pair,) = set(buckets("green TEA")) - {*tea, *green}
    assert buckets("green TEA") == sorted([*tea, *green, pair])
    assert pair not in buckets("tea green")
    (twice,) = set(buckets("tea tea")) - {*tea}
    assert buckets("green, tea tea") == sorted([*green, *tea, *tea, pair, twice])
    assert buckets("") == buckets(" -- !") == []


def crosses(text, *categories):
    (part,) = split([text])
    counts = count_terms([CrossTerms(part, np.array([categories], np.int64))])
    return sorted(np.repeat(counts.indices, counts.data.astype(int)).tolist())


def test_crosses_are_pairs_of_a_category_and_a_word_of_the_first_line():
    tea, green = crosses("tea", 1), crosses("Green", 1)
    assert crosses("green tea\nwith mint", 1) == sorted([*tea, *green])
    assert crosses("tea", 2) != tea != crosses("tea", 0, 1)
    assert crosses("tea tea", 1, 0) == [*tea, *tea]
    assert crosses("tea", 0) == crosses("\ntea", 1) == crosses("tea") == []
    assert len(crosses("tea " * 1000, 1, 2)) == 64


@given(st.lists(st.tuples(WORDS.map(" ".join), st.integers(0, 2), st.integers(0, 2)), max_size=6))
def test_texts_together_have_the_crosses_of_each_text_alone(rows):
    categories = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
    (part,) = split([row[0] for row in rows])
    together = count_terms([CrossTerms(part, categories)])
    assert together.shape[0] == len(rows)
    for number, (text, *own) in enumerate(rows):
        assert sorted(np.repeat(together[number].indices, together[number].data.astype(int))) == crosses(
            text, *own
        )


def test_many_rows_have_crosses_that_each_row_has_alone():
    random = np.random.default_rng(0)
    kind, brand = (random.integers(0, 4, CROSSED_ROWS) for _ in range(2))
    log_price = np.where(kind == brand, 1.0, 0.0) + 0.1 * random.normal(size=CROSSED_ROWS)
    texts = [f"word{a}\nbrand: b{b}" for a, b in zip(kind, brand, strict=True)]
    table, price = table_of_texts(texts), np.exp(log_price)
    inputs = Inputs.fit(table, price, 0, 2)
    dense, held = inputs.dense(table, price), inputs.dense(table)
    assert np.corrcoef(dense[:, 1], log_price)[0, 1] > 0.9 > 0.5 > np.corrcoef(dense[:, 0], log_price)[0, 1]
    few = Inputs.fit(table.take(np.arange(CROSSED_ROWS - 1)), price[:-1], 0, 2)
    assert few.crosses is None
    assert few.width == inputs.width - 1
    again = Inputs.from_json(json.loads(json.dumps(inputs.to_json())))
    assert np.array_equal(again.dense(table.take(np.arange(9))), held[:9])


def test_each_of_several_words_adds_to_the_log_price():
    random = np.random.default_rng(0)
    has = random.integers(0, 2, (800, 6)).astype(bool)
    effect = np.array([1.0, -0.8, 0.6, 0.5, -0.4, 0.3])
    texts = [" ".join(f"w{n}" for n in np.flatnonzero(row)) for row in has]
    model = fitted(texts[:600], has[:600] @ effect)
    assert np.corrcoef(model.predict(words(texts[600:])), has[600:] @ effect)[0, 1] > 0.95


def test_a_price_does_not_depend_on_the_other_texts():
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["tea", "cup", "jar", "blue", "red"], 9)) for _ in range(60)]
    model = fitted(texts, random.normal(size=60))
    alone = np.concatenate([model.predict(words([text])) for text in texts])
    assert np.array_equal(model.predict(words(texts)), alone)


def test_a_text_without_known_terms_has_the_intercept_and_no_terms_at_all_the_mean():
    model = fitted(["tea", "tea cup", "cup"] * 5, [1.0, 2.0, 3.0] * 5)
    assert model.predict(words(["", "entirely new"])) == pytest.approx(model.offset)
    assert fitted(["one", "two", "three"], [1.0, 2.0, 6.0]).predict(words(["one"])) == pytest.approx(3.0)
    assert fitted([], []).predict(words(["one"])) == pytest.approx(0.0)


def test_training_rows_have_prices_of_other_folds():
    texts = [f"tea {n % 40}" for n in range(200)]
    log_price = np.random.default_rng(0).normal(size=200)
    fold = np.arange(200) % 5
    before = linear_out_of_fold(words(texts), log_price, fold)
    changed = np.where(fold == 2, log_price + 5, log_price)
    after = linear_out_of_fold(words(texts), changed, fold)
    assert np.array_equal(before[fold == 2], after[fold == 2])
    assert not np.isclose(before[fold != 2], after[fold != 2]).all()


def test_the_trees_train_on_prices_of_other_folds_but_all_other_inputs_are_the_same():
    table = table_of_texts([f"tea {n}\nsize: {n % 9} kg" for n in range(60)])
    price = np.exp(np.random.default_rng(0).normal(size=60))
    inputs = Inputs.fit(table, price, 10, 2)
    dense, training = inputs.dense(table), inputs.dense(table, price)
    assert np.array_equal(dense[:, 1:], training[:, 1:])
    inside, outside = (np.corrcoef(block[:, 0], np.log(price))[0, 1] for block in (dense, training))
    assert inside > outside + 0.1


def test_a_model_survives_json_and_a_damaged_one_is_refused(raises):
    texts = ["green tea", "black tea", "green cup"] * 9
    model = fitted(texts, np.arange(27.0))
    state = json.loads(json.dumps(model.to_json()))
    again = Linear.from_json(state, WORD_BITS)
    assert np.array_equal(again.predict(words(texts)), model.predict(words(texts)))
    empty = fitted(["a"], [1.0]).to_json()
    for damage in (
        {"weight": empty["weight"]},
        {"bucket": model.to_json()["weight"]},
        {"square": model.to_json()["bucket"][:-8]},
        {"unit": float("nan")},
    ):
        with raises(ValueError):
            Linear.from_json({**state, **damage}, WORD_BITS)


@given(st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_only_the_ratios_of_weights_count(weights):
    texts, log_price = [f"tea {n % 3}" for n in range(12)], np.arange(12) % 5 + 0.5 * (np.arange(12) % 3)
    weights = np.array(weights, np.float64) + 0.5
    weighted = Linear.fit(count_terms(words(texts)), log_price, weights)
    scaled = Linear.fit(count_terms(words(texts)), log_price, 7 * weights)
    assert weighted.offset == pytest.approx(np.average(log_price, weights=weights))
    assert scaled.predict(words(texts)) == pytest.approx(weighted.predict(words(texts)), rel=1e-4)
    equal = Linear.fit(count_terms(words(texts)), log_price, np.full(12, 3.0))
    assert equal.predict(words(texts)) == pytest.approx(
        fitted(texts, log_price).predict(words(texts)), rel=1e-4
    )


def test_rows_that_count_more_move_the_linear_model_and_the_ranks():
    texts = ["green tea", "green tea", "black tea", "black tea"] * 30
    log_price = np.array([1.0, 5.0, 2.0, 3.0] * 30)
    low, high = (
        Linear.fit(count_terms(words(texts)), log_price, np.array(weights * 30)).predict(words(["green tea"]))
        for weights in ([9.0, 1.0, 1.0, 1.0], [1.0, 9.0, 1.0, 1.0])
    )
    assert high[0] - low[0] > 2
    codes = np.array([0, 0, 1, 1] * 30)
    assert _ranks(codes, log_price, 2, np.array([9.0, 1.0, 1.0, 1.0] * 30)) == [0, 1]
    assert _ranks(codes, log_price, 2, np.array([1.0, 9.0, 1.0, 1.0] * 30)) == [1, 0]
    assert _ranks(codes, log_price, 2) == [1, 0]
