"""A model and a table to rows with true and predicted prices; unusable input is one clear error."""

import json

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from conftest import write_judged
from pricekit import plots
from pricekit.errors import ConfigError, DataError, PricekitError
from pricekit.evaluation.held_out import read_held_out
from pricekit.io.record import Record, write_record
from pricekit.plots.predictions import currency_of, judge

BY_PREDICTION = [plots.PredictionDisplay, plots.ResidualDisplay, plots.DecileDisplay]


@pytest.fixture
def folder(rows, tmp_path):
    """Return a function that writes a folder with held-out rows."""

    def write(count):
        write_judged(tmp_path, rows(count))
        return tmp_path

    return write


def test_without_a_table_the_rows_are_held_out_ones(run):
    found = judge(pk.load(run), None, {})
    assert found.rows.price.tolist() == read_held_out(run).price.tolist()
    assert (found.metric.name, found.predictor, found.path) == ("smape", None, run)


def test_a_table_is_priced_by_a_path_and_by_an_open_model(bundle, catalog):
    frame, model = pd.read_csv(catalog), pk.load(bundle, "ort-cpu")
    by_path, by_model = judge(bundle, catalog, {"limit": 50}), judge(model, frame[:50], {}, metric="mae")
    assert by_path.rows.predicted == pytest.approx(by_model.rows.predicted, rel=1e-5)
    assert by_path.rows.price.tolist() == frame["price"][:50].tolist()
    assert (by_path.metric.name, by_model.metric.name) == ("smape", "mae")


@pytest.mark.parametrize("kind", BY_PREDICTION)
def test_each_display_draws_runs_and_tables(kind, run, bundle, catalog):
    held_out, table = kind.from_model(str(run)), kind.from_model(bundle, catalog, limit=100)
    assert held_out.figure_ is not table.figure_
    assert table.plot() is table


@pytest.mark.parametrize("kind", [*BY_PREDICTION, plots.CoverageDisplay])
def test_models_without_rows_are_refused(kind, bundle, run, catalog, tmp_path, raises):
    frame = pd.read_csv(catalog)
    with raises(DataError):
        kind.from_model(bundle)
    with raises(DataError):
        kind.from_model(pk.load(bundle, "ort-cpu"))
    with raises(
        PricekitError, "price", column="price", candidates=["sample_id", "catalog_content"], suggestion=None
    ):
        kind.from_model(bundle, frame.drop(columns="price"))
    with raises(DataError):
        kind.from_model(tmp_path / "nothing")
    with raises(ConfigError, "limit"):
        kind.from_model(run, limit=3)
    with raises(TypeError):
        kind.from_model(run, limits=3)


@pytest.mark.parametrize("kind", [plots.ResidualDisplay, plots.DecileDisplay, plots.CoverageDisplay])
def test_few_rows_are_refused(kind, folder, raises):
    with raises(DataError, rows=10, least=20):
        kind.from_model(folder(10))


def test_one_price_is_refused_and_two_are_drawn(folder, raises):
    with raises(DataError, rows=1, least=2):
        plots.PredictionDisplay.from_model(folder(1))
    assert len(plots.PredictionDisplay.from_predictions([3, 5], [4, 5]).price) == 2


@pytest.mark.parametrize("kind", BY_PREDICTION)
@pytest.mark.parametrize(
    ("price", "predicted", "parameters"),
    [
        (["a"] * 30, np.ones(30), ("price",)),
        (np.ones(30), np.ones((30, 2)), ("predicted",)),
        (np.ones(30), np.zeros(30), ("predicted",)),
        ([*np.ones(29), np.nan], np.ones(30), ("price",)),
        (np.ones(30), np.ones(29), ("price", "predicted")),
        (3, 4, ("price",)),
    ],
)
def test_prices_that_cannot_be_drawn_are_refused(kind, price, predicted, parameters, raises):
    with raises(DataError, *parameters):
        kind.from_predictions(price, predicted)


def test_the_currency_is_that_of_the_run_or_of_the_folds(tmp_path):
    assert currency_of(tmp_path) is None
    (tmp_path / "fold-0").mkdir()
    for folder, kind, currency in (
        (tmp_path / "fold-0", "run", "EUR"),
        (tmp_path, "cross-validation", "EUR"),
    ):
        write_record(folder, Record(kind, "finished"))
        (folder / "run.json").write_text(json.dumps({"currency": currency}))
        assert currency_of(folder) == currency
    (tmp_path / "run.json").write_text(json.dumps({"currency": "USD"}))
    write_record(tmp_path, Record("run", "finished"))
    assert currency_of(tmp_path) == "USD"
