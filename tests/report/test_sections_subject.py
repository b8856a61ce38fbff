"""Which rows a report judges, and what it compares."""

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import DataError
from pricekit.report import sections
from pricekit.report.sections import subject_of
from pricekit.runs.load import ModelReader


def _subject(model, table=None, *, against=(), metric=None, **options):
    return subject_of(ModelReader(model), table, options | {"metric": metric}, against)


def test_without_a_table_the_held_out_rows_are_judged(run):
    found = _subject(run)
    assert found.held_out
    assert len(found.rows) == 60
    assert (found.table, found.comparison) == (None, None)
    assert found.scores.metrics["smape"] == pytest.approx(pk.load(run).metrics["smape"])


def test_the_table_of_the_training_is_described_and_not_judged(run, catalog):
    found = _subject(run, catalog)
    assert found.held_out
    assert found.notes == (
        "products.csv is the table of the training, so only the held-out rows are judged.",
    )
    assert found.table.rows == 400


def test_the_rows_of_another_table_are_judged(run, bundle, tmp_path):
    other = tmp_path / "other.csv"
    pk.make_catalog(50, seed=77).to_csv(other, index=False)
    for model in (run, bundle):
        found = _subject(model, other)
        assert not found.held_out
        assert len(found.rows) == found.table.rows == 50
        expected = pk.load(model).predict(pd.read_csv(other))
        assert found.rows.predicted == pytest.approx(expected, rel=1e-5)


def test_of_many_rows_some_are_drawn_and_the_report_says_so(run, monkeypatch):
    monkeypatch.setattr(sections, "MOST_ROWS", 25)
    found = _subject(run)
    assert len(found.rows) == 25
    assert found.notes == ("A random sample of 25 of the 60 rows is judged.",)
    assert np.isin(found.rows.rows, pk.load(run).held_out["row"]).all()
    other = _subject(run, pk.make_catalog(40, seed=77))
    assert len(other.rows) == 25
    assert other.notes == ("A random sample of 25 of the 40 rows is judged.",)


def test_models_are_compared_on_the_rows_that_all_hold_out(run):
    found = _subject(run, against=[run], metric="mae")
    assert [one.verdict for one in found.comparison.runs] == ["", "cannot tell"]
    assert found.comparison.metric.name == found.metric.name == "mae"


def test_the_run_of_its_fold_explains_a_row_of_a_cross_validation(tmp_path):
    table = pk.make_catalog(80)
    small = {"epochs": 1, "refit": False, "features": "fast15", "max_length": 32}
    cv = pk.cross_validate(table, folds=2, out=tmp_path / "cv", **small)
    found = _subject(cv.path)
    with_table = _subject(cv.path, table)
    assert with_table.held_out
    assert with_table.table.rows == 80
    assert with_table.notes[0].startswith("A cross-validation is judged by the rows that its folds held out")
    for place in (0, int(np.argmax(found.rows.fold == 1))):
        (price,) = found.predictor(place).predict([found.rows.text[place]])
        assert price == pytest.approx(found.rows.predicted[place], rel=1e-5)


def test_a_bundle_without_a_table_has_no_rows(bundle, raises):
    with raises(DataError):
        _subject(bundle)
