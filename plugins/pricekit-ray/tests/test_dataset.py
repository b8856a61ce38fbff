"""Ray Data: a dataset gets the prices that the predictor gives, and mistakes are found before the job runs."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pricekit as pk
from pricekit.plugin import CPUS, ConfigError, DataError, PluginError
from pricekit.plugin.runners import Uncertainty

ray = pytest.importorskip("ray")
ray_data = pytest.importorskip("ray.data")
from pricekit_ray import Predict, dataset, predict  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray's own modules


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    """A cluster of two CPUs."""
    ray.init(
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    ray_data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def bundle():
    return Path(__file__).parents[3] / "tests" / "golden" / "bundle"


@pytest.fixture(scope="module")
def predictor(bundle):
    return pk.load(bundle, "ort-cpu")


@pytest.fixture(scope="module")
def rows(catalog):
    """60 rows with a column that no model reads."""
    some = pd.read_csv(catalog, dtype={"sample_id": str}).drop(columns="price").head(60)
    return some.assign(size=pa.array(range(60), pa.int8()).to_pandas())


@pytest.mark.parametrize("by_value", [True, False])
def test_a_dataset_gets_the_prices_of_the_predictor(bundle, predictor, rows, by_value):
    given = ray_data.from_arrow([pa.Table.from_pandas(rows, preserve_index=False)])
    sure = {"interval": 0.9, "quantiles": [0.5], "within": 10, "confidence": 0.5}
    found = predict(given, predictor if by_value else bundle, **sure).to_pandas()
    found = found.sort_values("size", ignore_index=True)
    expected = predictor.predict(rows, **sure)  # one block is one batch: equal to the bit
    assert all(found[name].tolist() == rows[name].tolist() for name in rows)
    assert (found[list(expected)].to_numpy() == expected.to_numpy()).all()
    assert str(found["price"].dtype) in ("float32", "float[pyarrow]")
    assert str(found["release"].dtype) in ("bool", "bool[pyarrow]")


def test_empty_blocks_and_small_batches_are_priced(predictor, rows):
    table = pa.Table.from_pandas(rows, preserve_index=False)
    given = ray_data.from_arrow([table.slice(0, 0), table.slice(0, 25), table.slice(25, 0), table.slice(25)])
    priced = predict(given, predictor, batch_size=7).to_pandas().sort_values("size")
    np.testing.assert_allclose(priced["price"], predictor.predict(rows), rtol=1e-6)
    none = given.filter(lambda row: False)
    assert predict(none, predictor).count() == 0


@pytest.mark.parametrize("empty", [pa.table({}), pd.DataFrame()], ids=["pyarrow", "pandas"])
def test_an_empty_block_may_have_no_columns(bundle, empty):
    priced = Predict(bundle, interval=0.9, within=10, confidence=0.5)(empty)
    names = priced.column_names if isinstance(priced, pa.Table) else list(priced)
    assert (len(priced), names) == (0, ["price", "price_low", "price_high", "release"])


@pytest.mark.parametrize("batch_format", ["pyarrow", "pandas"])
def test_an_actor_uses_the_cpus_that_it_requested(bundle, predictor, rows, batch_format):
    class Seen(Predict):
        def __call__(self, batch):
            priced = super().__call__(batch)
            cpus = os.environ[CPUS]
            if batch_format == "pandas":
                return priced.assign(cpus=cpus)
            return priced.append_column("cpus", pa.array([cpus] * len(batch)))

    given = ray_data.from_pandas(rows).materialize()
    found = given.map_batches(
        Seen,
        fn_constructor_kwargs={"bundle": str(bundle)},
        batch_format=batch_format,
        batch_size=None,
        num_cpus=2,
        concurrency=1,
    ).to_pandas()
    assert set(found["cpus"]) == {"2"}
    np.testing.assert_allclose(found.sort_values("size")["price"], predictor.predict(rows), rtol=1e-6)
    assert CPUS not in os.environ


def test_mistakes_are_found_before_the_job_runs(predictor, run, rows, raises):
    given = ray_data.from_pandas(rows)
    with raises(
        DataError,
        "text",
        column="catalog_content",
        candidates=["sample_id", "title", "size"],
        suggestion=None,
    ):
        predict(given.rename_columns({"catalog_content": "title"}), predictor)
    with raises(DataError, "dataset", column="price"):
        predict(given.rename_columns({"size": "price"}), predictor)
    with raises(ConfigError, "cpus"):
        predict(given, predictor, cpus=0)
    with raises(ConfigError, "cpus", "workers"):
        predict(given, predictor, cpus=2)
    with raises(ConfigError, "model"):
        predict(given, pk.load(run))
    with raises(ConfigError, "interval"):
        predict(given, predictor, interval=1.5)
    with raises(ConfigError, "confidence", rows=predictor._reader.open().intervals.rows):
        predict(given, predictor, within=2, confidence=0.9999)
    with raises(DataError, "dataset", column="release"):
        predict(given.rename_columns({"size": "release"}), predictor, within=10, confidence=0.5)
    with pytest.raises(TypeError, match=r"Did you mean 'within'\?"):
        predict(given, predictor, wihtin=2)


def test_a_tolerance_that_no_price_meets_is_logged_once_and_not_by_workers(predictor, rows, logged):
    given = ray_data.from_pandas(rows)
    job = predict(given, predictor, within=1.0001, confidence=0.5)
    assert logged().count("no price may go out") == 1
    assert not job.to_pandas()["release"].any()


def test_a_worker_that_lacks_the_engine_is_refused(predictor, rows, monkeypatch, raises):
    def unavailable(self):
        raise PluginError("the engine ort-cpu needs onnxruntime")

    class Lacking:
        check, uncertainty = unavailable, Uncertainty()

        def shipped(self):
            return self

    monkeypatch.setattr(dataset.Job, "of", lambda *_, **__: Lacking())
    with raises(PluginError):
        predict(ray_data.from_pandas(rows), predictor)


def test_workers_that_reserve_all_cpus_are_announced(logged):
    assert dataset._workers(None, 1) == 1
    assert logged() == ""
    assert dataset._workers(2, 1) == 2
    assert "wait forever: use fewer workers" in logged()


def test_other_batches_are_refused(bundle, rows, raises):
    model = Predict(bundle)
    with raises(ConfigError, "batch_format"):
        model({"catalog_content": np.array(["Green Tea"])})
    with raises(DataError, "dataset", column="price"):
        model(rows.assign(price=1.0))
