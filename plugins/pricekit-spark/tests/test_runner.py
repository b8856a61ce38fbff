"""Folders: each file once, whatever is killed, with the same bytes as without Spark."""

import os
import signal

import pandas as pd
import pytest
from pricekit_spark.parcel import parcel_of
from pricekit_spark.runner import Task, _outcomes
from pricekit_spark.session import session_of

import pricekit as pk
from pricekit.plugin import ConfigError, DataError
from pricekit.plugin.runners import Job, open_predictor, parts_of

NAMES = ["day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet"]


@pytest.fixture
def source(tmp_path):
    """A folder with Hive partitions."""
    rows = pk.make_catalog(60, seed=7).drop(columns="price")
    for place, name in enumerate(NAMES):
        file = tmp_path / "new" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        rows.iloc[20 * place : 20 * place + 20].to_parquet(file, index=False)
    return tmp_path / "new"


def _same(one, other):
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in NAMES)


def test_a_broken_file_stops_no_other(spark, bundle, source, tmp_path, raises):
    (source / "broken.parquet").write_bytes(b"PAR1 nothing")
    with raises(DataError, "table"):
        pk.load(bundle, engine="ort-cpu").predict_file(source, tmp_path / "out", runner="spark")
    (source / "broken.parquet").unlink()
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, tmp_path / "plain", processes=1) == 60
    assert _same(tmp_path / "out", tmp_path / "plain")
    assert spark.range(1).count() == 1  # a session that was active stays so


def test_a_killed_worker_is_replaced(spark, bundle, source, tmp_path):
    parcel, killed = parcel_of(spark, Job.of(open_predictor(bundle, "ort-cpu"))), tmp_path / "killed"
    first, *others = (Task(parcel, part) for part in parts_of(source, tmp_path / "out"))

    def once(number):
        found = first(number)
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    outcomes = list(_outcomes(spark, [once, *others], 2))
    assert killed.exists()
    assert {outcome.name: outcome.rows for outcome in outcomes} == dict.fromkeys(NAMES, 20)


def test_another_address_than_that_of_the_active_session_is_refused(spark, raises):
    with (
        raises(ConfigError, "address"),
        session_of("spark://other:7077", 1),
    ):
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("spark")  # skipped like the others
def test_what_a_killed_driver_finished_is_kept(bundle, source, tmp_path, killed_prediction):
    out = tmp_path / "out"
    name = killed_prediction(bundle, source, out, runner="spark", processes=1)
    before = (out / name).stat().st_mtime_ns
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, runner="spark", resume=True) == 60
    assert (out / name).stat().st_mtime_ns == before
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, tmp_path / "plain", processes=1) == 60
    assert _same(out, tmp_path / "plain")
    assert len(pd.read_parquet(out)) == 60
