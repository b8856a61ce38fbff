"""The sample of many rows that features are fitted to."""

from dataclasses import replace

import numpy as np
import pytest

from pricekit.datasets import make_catalog
from pricekit.features.fit import Sample, folds_of, sample_of, some_rows
from pricekit.table import concat_tables, read_table


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr("pricekit.features.fit.MOST_ROWS", 200)
    frame = make_catalog(500, seed=1)
    frame["catalog_content"] += frame["sample_id"].astype(str)
    return read_table(frame)


def test_few_rows_are_all_taken(table):
    assert sample_of(table.take(np.arange(200))).tolist() == list(range(200))
    assert some_rows(200).tolist() == list(range(200))


def test_many_rows_are_drawn_in_order_and_always_the_same(table):
    for draw in (lambda: sample_of(table), lambda: some_rows(500)):
        rows = draw()
        assert 190 <= len(set(rows.tolist())) == len(rows) <= 200
        assert rows.tolist() == sorted(rows.tolist())
        assert np.array_equal(rows, draw())
        assert 150 < rows.mean() < 350


@pytest.mark.parametrize("known", [True, False])
def test_duplicates_are_drawn_together(table, known):
    shouted = replace(table, text=table.text.str.upper())
    both = concat_tables([table, shouted, table.take(np.arange(100))])
    product = np.concatenate([np.arange(500), np.arange(500), np.arange(100)])
    if known:
        both = replace(both, cluster=product)
    inside = np.zeros(len(both), bool)
    inside[sample_of(both)] = True
    assert 150 < inside.sum() <= 200
    assert not set(product[inside]) & set(product[~inside])


def test_a_large_group_is_left_out(table):
    large = replace(table, cluster=np.minimum(np.arange(500), 400))
    assert sample_of(large).max() < 400


def test_rows_of_labels_are_drawn_one_by_one(table):
    labels = replace(table, text=(table.ids % 3).map(lambda n: f"label {n}").astype("str"))
    assert len(sample_of(labels)) == 200


@pytest.mark.parametrize(("rows", "folds"), [(200, 5), (390, 5), (500, 2)])
def test_a_small_sample_of_the_rows_has_fewer_folds(table, rows, folds):
    sample = Sample.of(table.take(np.arange(rows)))
    assert sample.folds == folds
    assert np.unique(folds_of(sample.table, sample.folds)).tolist() == list(range(folds))
    times = replace(sample.table, time=np.arange(len(sample.rows)))
    assert np.unique(folds_of(times, sample.folds)).tolist() == list(range(folds))
