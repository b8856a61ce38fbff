"""Prices of a DataFrame: the same as without Spark, and mistakes are known before the job."""

import datetime
import subprocess
import sys
from dataclasses import replace

import pricekit_spark
import pytest
from pricekit_spark.parcel import call, check_workers, parcel_of

import pricekit as pk
from pricekit.plugin import BundleError, ConfigError, DataError, PluginError
from pricekit.plugin.runners import Job, open_predictor


@pytest.fixture(scope="module")
def rows():
    return pk.make_catalog(100, seed=5).drop(columns="price")


@pytest.fixture(scope="module")
def df(spark, rows, tmp_path_factory):
    """One file, so the rows keep their order; with columns that pandas would change."""
    from pyspark.sql import functions as F

    file = tmp_path_factory.mktemp("frame") / "new.parquet"
    rows.to_parquet(file, index=False)
    return (
        spark.read.parquet(str(file))
        .withColumn("tags", F.array(F.lit(1), F.lit(None)))
        .withColumn("cost", F.lit("1.50").cast("decimal(10,2)"))
        .withColumn("day", F.lit("2026-01-02").cast("date"))
        .withColumn("stock", F.lit(None).cast("int"))
    )


def test_prices_equal_those_without_spark(df, bundle, rows):
    sure = {"interval": 0.9, "quantiles": [0.1], "within": 10, "confidence": 0.5}
    found = pricekit_spark.predict(df, bundle, **sure).toArrow()
    expected = pk.load(bundle, "ort-cpu").predict(rows, **sure)
    assert found.column_names == [*df.columns, *expected]
    assert list(expected) == ["price", "price_low", "price_high", "price_0.1", "release"]
    assert found["release"].type == "bool"
    assert found["sample_id"].to_pylist() == rows["sample_id"].tolist()
    for name in expected:
        assert found[name].to_pylist() == expected[name].tolist()
    assert found["tags"][0].as_py() == [1, None]
    assert found["day"][0].as_py() == datetime.date(2026, 1, 2)
    assert str(found["cost"].type) == "decimal128(10, 2)"
    assert found["stock"].null_count == len(rows)


def test_partitions_may_be_empty_and_columns_replaced(df, bundle, raises):
    from pyspark.sql import functions as F

    few = df.limit(2).withColumn("Price", F.lit("old")).repartition(4)
    with raises(DataError, "replace", column="Price"):
        pricekit_spark.predict(few, bundle)
    found = pricekit_spark.predict(few, bundle, replace=True)
    assert found.columns == [*df.columns, "price"]
    assert len(found.collect()) == 2


def test_a_wrong_request_is_refused_before_the_job(df, bundle, run, raises):
    with raises(DataError, "text", column="catalog_content", suggestion="catalog_contents"):
        pricekit_spark.predict(df.withColumnRenamed("catalog_content", "catalog_contents"), bundle)
    with raises(ConfigError, "interval"):
        pricekit_spark.predict(df, bundle, interval=1.5)
    with raises(ConfigError, "confidence", rows=open_predictor(bundle, "ort-cpu").require_intervals().rows):
        pricekit_spark.predict(df, bundle, within=2, confidence=0.9999)
    with pytest.raises(ConfigError):
        pricekit_spark.predict(df, run)


def test_numbers_become_text(df, bundle):
    found = pricekit_spark.predict(df.withColumn("catalog_content", df.sample_id), bundle)
    assert all(price > 0 for (price,) in found.select("price").limit(3).collect())


def test_a_worker_uses_the_cpus_of_its_task(spark, bundle):
    content = parcel_of(spark, Job.of(open_predictor(bundle, "ort-cpu"))).content

    def cpus(_):
        import json
        import os

        from pricekit_spark.parcel import Parcel

        from pricekit.plugin import usable_cpus

        Parcel(content)()
        return json.dumps({"cpus": usable_cpus(), "tokenizers": os.environ["RAYON_NUM_THREADS"]})

    assert call(spark, cpus) == {"cpus": 1, "tokenizers": "1"}


def test_a_worker_with_another_bundle_is_refused(spark, bundle, raises):
    job = replace(Job.of(open_predictor(bundle, "ort-cpu")), digest="0" * 64)
    with raises(BundleError):
        check_workers(spark, parcel_of(spark, job))


def test_a_worker_without_pricekit_is_explained(spark, bundle, tmp_path, monkeypatch, raises):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare" / "bin" / "python"))
    with raises(PluginError):
        check_workers(spark, parcel_of(spark, Job.of(open_predictor(bundle, "ort-cpu"))))


def test_a_worker_without_the_engine_is_explained(spark, bundle, tmp_path, monkeypatch, raises):
    (tmp_path / "onnxruntime.py").write_text("raise ModuleNotFoundError(\"No module named 'onnxruntime'\")")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with raises(PluginError):
        check_workers(spark, parcel_of(spark, Job.of(open_predictor(bundle, "ort-cpu"))))


def test_a_python_that_is_missing_is_explained(spark, bundle, monkeypatch, raises):
    parcel = parcel_of(spark, Job.of(open_predictor(bundle, "ort-cpu")))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with raises(PluginError):
        check_workers(spark, parcel)
