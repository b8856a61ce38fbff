"""The feature `vectors`, and what the trees read of columns of vectors."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError
from pricekit.features.fit import fit_features, folds_of
from pricekit.features.fitted import FittedFeatures
from pricekit.features.table_cache import digest_of
from pricekit.features.trees import Inputs
from pricekit.features.vectors import Projection
from pricekit.table import Table, table_of_texts

ROWS, WIDTH = 300, 24
DRAW = np.random.default_rng(0)
FACTORS = DRAW.normal(size=(ROWS, 3)) * (4, 2, 1)
VECTORS = (FACTORS @ DRAW.normal(size=(3, WIDTH)) + DRAW.normal(size=(ROWS, WIDTH))).astype(np.float32)
VECTORS[7] = np.nan
EFFECT = DRAW.normal(size=WIDTH) / WIDTH
LOG_PRICE = np.nan_to_num(VECTORS) @ EFFECT + 0.05 * DRAW.normal(size=ROWS)


def table_of(vectors=VECTORS, name="seen") -> Table:
    cells = [None if np.isnan(vector).any() else vector for vector in vectors]
    table = table_of_texts([f"tea number {number}" for number in range(len(vectors))])
    column = pd.array(cells, pd.ArrowDtype(pa.large_list(pa.float32())))
    return replace(table, frame=table.frame.assign(**{name: column}))


def fitted(*columns, table=None, **options):
    features, _ = fit_features(
        ["vectors"], {"vectors": {"vectors": list(columns), **options}}, table or table_of()
    )
    return FittedFeatures.from_json(json.loads(json.dumps(features.to_json())))


def test_a_row_has_the_same_bits_alone_and_in_every_batch():
    table, features = table_of(), fitted("seen")
    together = features.transform(table)
    alone = np.vstack([features.transform(table.take(np.array([row]))) for row in range(40)])
    assert np.array_equal(alone, together[:40])
    for size in (2, 3, 7, 64):
        parts = [features.transform(part) for part in table.windows(size)]
        assert np.array_equal(np.concatenate(parts), together)


def test_sums_are_exact_in_every_order():
    """Each number occurs twice, with opposite weights, in a random order: sums of floats would leave a rest."""
    draw = np.random.default_rng(2)
    weight, vectors = draw.integers(1, 1 << 22, 2000), draw.normal(size=(50, 2000)).astype(np.float32)
    order = draw.permutation(4000)
    both = np.append(weight, -weight)[order, None]
    projection = Projection(np.zeros(4000, np.float32), np.ones(4000, np.float32), both, np.ones(1))
    assert not projection(np.hstack([vectors, vectors])[:, order]).any()


def test_mixtures_keep_distances_and_are_alike():
    """The mixtures span what the first components span, and none of them is only noise."""
    columns = fitted("seen", components=3).transform(table_of())
    assert columns.shape == (ROWS, 4)
    known = np.delete(np.arange(ROWS), 7)
    explained = np.linalg.lstsq(columns[known, 1:], FACTORS[known] - FACTORS[known].mean(0), rcond=None)[0]
    rest = FACTORS[known] - FACTORS[known].mean(0) - columns[known, 1:] @ explained
    assert (rest[:, 0].std(), rest[:, 1].std()) < (0.4, 0.4)
    assert columns[known, 1:].var() == pytest.approx(1, rel=0.05)
    assert columns[known, 1:].std(axis=0).min() > 0.3


def test_a_missing_vector_is_the_mean_one_and_says_so():
    columns = fitted("seen", components=4).transform(table_of())
    assert columns[:, 0].tolist() == [float(row == 7) for row in range(ROWS)]
    assert not columns[7, 1:].any()
    assert columns[8, 1:].all()


def test_each_column_has_its_name_and_all_its_numbers_are_one_thing():
    table = table_of()
    table = replace(table, frame=table.frame.assign(other=table_of(VECTORS[::-1, :5]).frame["seen"].array))
    features = fitted("seen", "other", table=table, components=2)
    assert features.names == ["seen missing", "seen 1", "seen 2", "other missing", "other 1", "other 2"]
    assert list(features.wholes.values()) == ["seen"] * 3 + ["other"] * 3
    assert features.vectors == {"seen": WIDTH, "other": 5}
    assert features.columns == ("seen", "other")


def test_vectors_of_another_length_are_refused_with_their_row(raises):
    features, shorter = fitted("seen"), table_of(VECTORS[:9, :20])
    with raises(DataError, "table", column="seen", row=3, length=20, expected=WIDTH):
        features.transform(shorter.slice(3, 6))
    with raises(DataError, "features", column="seen"):
        features.transform(table_of(name="other"))


def test_without_columns_the_feature_is_refused(raises):
    with raises(ConfigError, "vectors", "features"):
        registry().create("feature", "vectors", {})


def test_few_and_constant_vectors_yield_zeros():
    constant = np.ones((40, 6), np.float32)
    for table in (table_of(VECTORS[:5]), table_of(constant)):
        columns = fitted("seen", table=table).transform(table)
        assert not columns.any()


def test_ridge_regression_predicts_the_log_price_of_other_rows():
    fold = np.arange(ROWS) % 5
    projection = Projection.fit(VECTORS, 3, LOG_PRICE)
    estimate = projection.out_of_fold(VECTORS, LOG_PRICE, fold)
    assert np.corrcoef(estimate, LOG_PRICE)[0, 1] > 0.95
    assert estimate[7] == pytest.approx(LOG_PRICE[(fold != 2) & (np.arange(ROWS) != 7)].mean(), abs=0.01)
    weights = np.where(np.arange(ROWS) < 150, 1.0, 0.0)
    first = Projection.fit(VECTORS[:150], 3, LOG_PRICE[:150])
    weighed = Projection.fit(VECTORS, 3, LOG_PRICE, weights)
    assert weighed.level == pytest.approx(first.level, abs=0.01)
    others = fold != 1
    own = Projection.fit(VECTORS[others], 3, LOG_PRICE[others])(VECTORS[fold == 1])[:, 0]
    assert np.corrcoef(own, estimate[fold == 1])[0, 1] > 0.99


def test_rows_without_weight_do_not_count_even_if_a_fold_has_no_others():
    fold, some = np.arange(ROWS) % 5, np.arange(ROWS) % 5 != 2
    projection = Projection.fit(VECTORS, 3, LOG_PRICE, some.astype(float))
    estimate = projection.out_of_fold(VECTORS, LOG_PRICE, fold, some.astype(float))
    assert np.isfinite(estimate).all()
    alone = projection.out_of_fold(VECTORS[some], LOG_PRICE[some], fold[some])
    assert estimate[some] == pytest.approx(alone, abs=1e-6)
    none = Projection.fit(VECTORS, 3, LOG_PRICE, np.isnan(VECTORS[:, 0]).astype(float))
    assert (none(VECTORS)[:, 0] == np.float32(LOG_PRICE[7])).all()


def test_noise_predicts_no_price():
    price = np.random.default_rng(1).normal(size=ROWS)
    projection = Projection.fit(VECTORS, 1, price)
    assert projection(VECTORS)[:, 0].std() < 0.4


def test_trees_read_vectors_out_of_fold_and_alone():
    table, price = table_of(), np.exp(LOG_PRICE)
    fold = folds_of(table)
    inputs = Inputs.fit(table, price, 0, 2, vectors=["seen"])
    before = inputs.dense(table, price)
    after = inputs.dense(table, np.where(fold == 1, price * 7, price))
    assert np.array_equal(before[fold == 1], after[fold == 1])
    assert before.shape[1] == inputs.width == inputs.dense(table).shape[1]
    plain = Inputs.fit(table, price, 0, 2).width
    assert inputs.width == plain + 17
    again = Inputs.from_json(json.loads(json.dumps(inputs.to_json())), ["seen"])
    together = inputs.dense(table)
    alone = np.vstack([again.dense(table.take(np.array([row]))) for row in range(20)])
    assert np.array_equal(alone, together[:20])
    with pytest.raises(ValueError, match="17 numbers of each of 2 columns"):
        Inputs.from_json(inputs.to_json(), ["seen", "other"])


def test_trees_learn_from_vectors_what_texts_do_not_say():
    table, price = table_of(), np.exp(LOG_PRICE)
    error = {}
    for columns in ([], ["seen"]):
        options = {"trees": {"vectors": columns, "rounds": 40, "words": 0}}
        _, out_of_fold = fit_features(["trees"], options, replace(table, price=price), folds=2)
        error[len(columns)] = np.abs(out_of_fold["trees_log_price"] - LOG_PRICE).mean()
    assert error[1] < 0.5 * error[0]


def test_the_cache_tells_vectors_apart():
    changed = VECTORS.copy()
    changed[3, 3] += 1
    missing = VECTORS.copy()
    missing[3] = np.nan
    digests = {
        digest_of("", table_of(each), "not cached").hexdigest() for each in (VECTORS, changed, missing)
    }
    assert len(digests) == 3
    assert digest_of("", table_of(), "").hexdigest() in digests
