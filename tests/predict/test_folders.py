"""From folder to folder: each file once, what is finished is skipped, and a failing file stops no other."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, DataError, PluginError
from pricekit.io.files import machine
from pricekit.predict import folders
from pricekit.predict.folders import Job, parts_of
from pricekit.predict.intervals import Uncertainty
from pricekit.runs.load import load_model


@pytest.fixture(scope="module")
def rows(catalog):
    return pd.read_csv(catalog, dtype={"sample_id": str})


@pytest.fixture
def source(rows, tmp_path):
    """A folder with Hive partitions."""
    folder = tmp_path / "new"
    for name, start in (("day=1/a.parquet", 0), ("day=1/b.parquet", 40), ("day=2/a.parquet", 80)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        rows.iloc[start : start + 40].drop(columns="price").to_parquet(folder / name, index=False)
    return folder


@pytest.fixture(scope="module")
def predictor(bundle):
    return load_model(bundle, "ort-cpu")


def _files(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def _times(folder):
    return {name: (folder / name).stat().st_mtime_ns for name in _files(folder)}


@pytest.mark.parametrize("processes", [None, 1, 2])
def test_each_file_gets_a_file_of_the_same_name(bundle, predictor, rows, source, tmp_path, processes):
    out = tmp_path / "prices"
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, processes=processes) == 120
    names = ["day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet"]
    assert _files(out) == sorted([*names, *(f"_pricekit/{name}.json" for name in names)])
    for place, name in enumerate(names):
        some = rows.iloc[40 * place : 40 * place + 40]
        found = pq.read_table(out / name).to_pandas()
        assert found["sample_id"].tolist() == some["sample_id"].tolist()
        assert (found["price"].astype("float32") == predictor.predict(some.drop(columns="price"))).all()
    assert len(pd.read_parquet(out)) == 120  # readers of folders ignore the records


@pytest.mark.parametrize("out", ["prices", "prices.csv"])
def test_tables_of_other_formats_in_a_folder_are_named(bundle, rows, source, tmp_path, caplog, out):
    for name in ("day=2/b.csv", "c.jsonl", "_d.csv", "README.txt"):
        (source / name).write_text("x")
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, tmp_path / out) == 120
    warned = [record.message for record in caplog.records if "other formats" in record.message]
    assert len(warned) == 1
    assert "2 files of other formats, such as" in warned[0]
    assert "c.jsonl, are left out" in warned[0]


def test_resuming_skips_finished_files_and_prices_what_changed(bundle, rows, source, tmp_path):
    out = tmp_path / "prices"
    pk.load(bundle, engine="ort-cpu").predict_file(source, out)
    before = _times(out)
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, resume=True) == 120
    assert _times(out) == before
    rows.iloc[:10].to_parquet(source / "day=2/a.parquet", index=False)  # replaced
    rows.iloc[:5].to_parquet(source / "day=2/new.parquet", index=False)
    (out / "day=1/a.parquet").write_bytes(b"damaged")
    (out / "_pricekit/day=1/b.parquet.json").write_text("{}")
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, resume=True) == 95
    after = _times(out)
    assert {name for name in before if after[name] == before[name]} == set()
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, resume=True, interval=0.9) == 95
    assert list(pd.read_parquet(out / "day=2/new.parquet")) == [
        "sample_id",
        "price",
        "price_low",
        "price_high",
    ]


def test_a_failing_file_stops_no_other(bundle, rows, source, tmp_path, raises):
    out = tmp_path / "prices"
    rows.rename(columns={"catalog_content": "title"}).to_parquet(source / "day=1/a.parquet", index=False)
    (source / "day=3").mkdir()
    (source / "day=3/broken.parquet").write_bytes(b"PAR1 nothing")
    with raises(DataError, "table") as caught:
        pk.load(bundle, engine="ort-cpu").predict_file(source, out)
    assert set(caught.value.facts["failed"]) == {"day=1/a.parquet", "day=3/broken.parquet"}
    assert "catalog_content" in str(caught.value)
    assert [name for name in _files(out) if not name.startswith("_")] == [
        "day=1/b.parquet",
        "day=2/a.parquet",
    ]
    (source / "day=3/broken.parquet").unlink()
    rows.iloc[:40].to_parquet(source / "day=1/a.parquet", index=False)
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, resume=True) == 120


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_an_empty_partition_has_an_empty_file_of_prices(bundle, rows, tmp_path, suffix):
    (tmp_path / "new").mkdir()
    file = tmp_path / "new" / f"a.{suffix}"
    if suffix == "parquet":
        rows.iloc[:0].to_parquet(file, index=False)
    else:
        file.write_text("sample_id,catalog_content\n" if suffix == "csv" else "")
    assert pk.load(bundle, engine="ort-cpu").predict_file(f"{tmp_path}/new/*.{suffix}", tmp_path / "out") == 0
    assert (tmp_path / "out" / f"a.{suffix}").exists()


def test_an_empty_file_has_the_columns_of_the_others(bundle, rows, source, tmp_path):
    rows.iloc[:0].astype({"sample_id": "int64"}).to_parquet(source / "day=1/0.parquet", index=False)
    pq.write_table(pa.table({}), source / "day=1/1.parquet")  # without any column
    (source / "day=3").mkdir()
    for name in ("day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet"):
        pd.read_parquet(source / name).astype({"sample_id": "int64"}).to_parquet(source / name, index=False)
    out = tmp_path / "out"
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, interval=0.9) == 120
    schema = pq.read_schema(out / "day=1/a.parquet")
    assert pq.read_schema(out / "day=1/0.parquet").equals(schema)
    assert pq.read_schema(out / "day=1/1.parquet").names == schema.names
    assert sorted(pd.read_parquet(out)["sample_id"]) == sorted(rows["sample_id"].astype(int)[:120])


@pytest.mark.parametrize("processes", [1, 2])
def test_users_learn_from_any_worker_how_a_file_was_read(bundle, rows, source, tmp_path, caplog, processes):
    rows.iloc[:5].drop(columns="sample_id").to_parquet(source / "day=1/b.parquet", index=False)
    with caplog.at_level("WARNING", "pricekit"):
        assert (
            pk.load(bundle, engine="ort-cpu").predict_file(source, tmp_path / "out", processes=processes)
            == 85
        )
    assert [record.message for record in caplog.records] == [
        f"{source / 'day=1/b.parquet'} has no id column 'sample_id': row numbers are used instead (set id to "
        "another column)."
    ]


def test_a_table_that_is_replaced_meanwhile_fails(predictor, source, tmp_path):
    (part, *_) = parts_of(source, tmp_path / "out")

    engine = predictor.members[0].engine

    def meddling(batch):
        shutil.copy(source / "day=1/b.parquet", source / "day=1/a.parquet")
        return engine.price_batch(batch)

    member = replace(predictor.members[0], engine=replace(engine, price_batch=meddling))
    outcome = Job.of(replace(predictor, members=(member,)))(part)
    assert "changed during the prediction" in outcome.problem


def test_a_full_disk_stops_the_work(predictor, source, tmp_path, raises):
    def full():
        raise OSError(28, "No space left on device")

    with raises(OSError):
        replace(Job.of(predictor), model=full)(parts_of(source, tmp_path / "out")[0])


def test_wrong_folders_and_options_are_refused(bundle, source, tmp_path, raises):
    def predict(out, table=source, **options):
        return pk.load(bundle, engine="ort-cpu").predict_file(table, out, **options)

    with raises(DataError, "out"):
        predict(source / "prices")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with raises(DataError, "out"):
        predict(tmp_path / "mine")
    with raises(ConfigError, "limit", "out"):
        predict(tmp_path / "out", limit=5)
    with raises(ConfigError, "runner", "out"):
        predict(tmp_path / "out.csv", runner="ray")
    with raises(ConfigError, "address", "runner"):
        predict(tmp_path / "out", address="here")
    with raises(PluginError, "runner", candidates=[]):
        predict(tmp_path / "out", runner="rya")
    with raises(DataError, "out"):
        predict(tmp_path / "other", table=source / "day=1/a.parquet")


DIE = """
import os, sys
from pathlib import Path
from pricekit.io.files import write_atomically
with write_atomically(Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""
KILLED = """
import sys, time
import pricekit as pk
from pricekit.predict import folders
follow = folders._follow
def slowly(outcomes, *others):
    def each():
        for outcome in outcomes:
            yield outcome
            print(outcome.name, flush=True)
            time.sleep(600)
    return follow(each(), *others)
folders._follow = slowly
pk.load(sys.argv[1], "ort-cpu").predict_file(*sys.argv[2:], processes=1)
"""


def test_what_a_killed_prediction_finished_is_kept(bundle, source, tmp_path):
    out = tmp_path / "prices"
    words = [sys.executable, "-c", KILLED, bundle, source, out]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "day=1/a.parquet\n"
        process.kill()
    before = _times(out)
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, resume=True) == 120
    assert {name: time for name, time in _times(out).items() if name in before} == before
    other = tmp_path / "other"
    pk.load(bundle, engine="ort-cpu").predict_file(source, other)
    for name in _files(out):
        if not name.startswith("_"):
            assert (out / name).read_bytes() == (other / name).read_bytes()
    assert json.loads((out / "_pricekit/day=1/a.parquet.json").read_text())["rows"] == 40


def test_a_record_never_describes_another_file(predictor, source, tmp_path, monkeypatch):
    (part, *_) = parts_of(source, tmp_path / "out")
    first = Job.of(predictor)
    first(part)
    size = first.finished(part).bytes

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        Job.of(predictor, uncertainty=Uncertainty(0.9))(part)  # its file is complete, but not its record
    part.target.write_bytes(b"x" * size)  # another file may have the same size
    assert first.finished(part) is None


def test_what_killed_workers_left_is_deleted(bundle, predictor, source, tmp_path):
    out = tmp_path / "prices"
    parts = parts_of(source, out)
    assert Job.of(predictor)(parts[0]).rows == 40
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()

    def leave(file, process):
        left = file.with_name(f".{file.name}.{machine()}.{process:x}.0123.tmp")
        left.touch()
        return str(left.relative_to(out))

    for file in (parts[0].target, parts[0].record):  # also of a file that is finished
        leave(file, dead.pid)
    of_the_living = leave(parts[0].target, os.getppid())
    before = _times(out)
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, resume=True) == 120
    names = [part.name for part in parts]
    assert _files(out) == sorted([*names, *(f"_pricekit/{name}.json" for name in names), of_the_living])
    assert _times(out)[names[0]] == before[names[0]]


def test_what_workers_leave_that_are_killed_meanwhile_is_deleted(
    predictor, source, tmp_path, monkeypatch, raises
):
    def killed(job, parts, processes):
        (parts[0].target.parent).mkdir(parents=True)
        child = [sys.executable, "-c", DIE, parts[0].target]
        subprocess.run(child, check=False)
        assert len(list(parts[0].target.parent.iterdir())) == 1
        raise PluginError("killed")
        yield

    monkeypatch.setattr(folders, "_outcomes", killed)
    with raises(PluginError):
        folders.predict_folder(Job.of(predictor), source, tmp_path / "out")
    assert _files(tmp_path / "out") == []


def test_remote_folders_are_like_local_ones(bundle, rows, source, tmp_path, memory):
    for file in source.rglob("*.parquet"):
        memory.put_file(str(file), f"/shop/new/{file.relative_to(source)}")
    local = tmp_path / "local"
    pk.load(bundle, engine="ort-cpu").predict_file(source, local)
    assert pk.load(bundle, engine="ort-cpu").predict_file("memory://shop/new", "memory://shop/prices") == 120
    for name in _files(local):
        if not name.startswith("_"):
            assert memory.cat_file(f"/shop/prices/{name}") == (local / name).read_bytes()
    rows.iloc[:7].to_parquet(tmp_path / "new.parquet", index=False)
    memory.put_file(str(tmp_path / "new.parquet"), "/shop/new/day=2/a.parquet")
    before = memory.info("/shop/prices/day=1/a.parquet")["created"]
    assert (
        pk.load(bundle, engine="ort-cpu").predict_file(
            "memory://shop/new", "memory://shop/prices", resume=True
        )
        == 87
    )
    assert memory.info("/shop/prices/day=1/a.parquet")["created"] == before
