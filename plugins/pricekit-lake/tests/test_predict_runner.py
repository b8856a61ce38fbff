"""Tables that a runner prices into a table: in one commit, which is neither lost nor repeated."""

import shutil

import pandas as pd
import pytest

import pricekit as pk
from pricekit.plugin import ConfigError, DataError

ROWS = 600

RUNNER = """
def run(job, parts, *, address, workers):
    for number, part in enumerate(parts):
        if address and number == int(address):
            raise KeyboardInterrupt
        yield job(part)
"""


@pytest.fixture(autouse=True)
def runner(tmp_path, monkeypatch):
    """A package with the runner `here`: it prices in this process, and stops before the part that the address names."""
    package = tmp_path / "package"
    facts = package / "pricekit_here-1.0.dist-info"
    facts.mkdir(parents=True)
    (package / "pricekit_here.py").write_text(RUNNER)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: pricekit-here\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[pricekit.runners]\nhere = pricekit_here:run\n")
    monkeypatch.syspath_prepend(package)
    monkeypatch.setattr("pricekit.predict.folders.PART_ROWS", ROWS // 3)
    monkeypatch.setattr("pricekit.predict.folders.WINDOW", 50)


@pytest.fixture
def products(tmp_path):
    from deltalake import write_deltalake

    frame = pd.concat([pk.make_catalog(300, seed=2).drop(columns="price")] * 2, ignore_index=True)
    frame["sample_id"] = [f"P{number:04d}" for number in range(ROWS)]
    write_deltalake(tmp_path / "new", frame)
    return f"delta:///{tmp_path}/new", frame


def rows_in(address):
    frame = pk.read_table(address, text="sample_id", id="sample_id").frame
    return frame.sort_values("sample_id", ignore_index=True)


def test_a_table_is_priced_in_one_commit(address, products, bundle, versions, tmp_path):
    table, _ = products
    model = pk.load(bundle)
    for resume in (False, True, False):
        assert model.predict_file(table, address, interval=0.8, runner="here", resume=resume) == ROWS
    model.predict_file(table, tmp_path / "prices.parquet", interval=0.8)
    expected = pd.read_parquet(tmp_path / "prices.parquet").sort_values("sample_id", ignore_index=True)
    assert list(rows_in(address)["sample_id"]) == list(expected["sample_id"])
    assert (rows_in(address)["price_high"] / expected["price_high"] - 1).abs().max() < 1e-5
    assert versions(address) == 1
    assert not [file for file in (tmp_path / "cache" / "outputs").rglob("*") if file.is_file()]


def test_a_prediction_that_stopped_is_resumed_with_its_rows(address, products, bundle, versions, caplog):
    from deltalake import write_deltalake

    table, frame = products
    model = pk.load(bundle)
    with pytest.raises(KeyboardInterrupt):
        model.predict_file(table, address, runner="here", address="2")
    assert versions(address) == 0
    write_deltalake(table[9:], frame.head(1).assign(sample_id="later"), mode="append")
    caplog.set_level("INFO")
    assert model.predict_file(table, address, runner="here", resume=True) == ROWS
    assert "2 of 3 files were finished before" in caplog.text
    assert "later" not in set(rows_in(address)["sample_id"])
    assert versions(address) == 1
    assert model.predict_file(table, address, runner="here", limit=7) == 7
    assert model.predict_file(table, address, runner="here") == ROWS + 1
    assert "later" in set(rows_in(address)["sample_id"])


def test_a_folder_is_priced_into_a_table(address, bundle, products, tmp_path):
    _, frame = products
    (tmp_path / "files").mkdir()
    for number, first in enumerate(range(0, ROWS, 200)):
        frame[first : first + 200].to_parquet(tmp_path / "files" / f"{number}.parquet")
    assert pk.load(bundle).predict_file(tmp_path / "files", address, runner="here") == ROWS
    assert len(rows_in(address)) == ROWS


def test_what_a_runner_cannot_price_is_refused(address, bundle, products, versions, tmp_path):
    table, frame = products
    files = tmp_path / "files"
    files.mkdir()
    frame.to_csv(files / "new.csv", index=False)
    pd.concat([frame, frame.head(3)]).to_parquet(files / "twice.parquet")
    model = pk.load(bundle)
    for source, options, error, message in (
        (files / "new.csv", {}, ConfigError, "is one file"),
        (files / "*.csv", {}, DataError, "contains new.csv"),
        (files / "*.parquet", {"limit": 5}, ConfigError, "a limit"),
        (table, {"watch": tmp_path / "sketch.json"}, ConfigError, "a sketch"),
        (files / "*.parquet", {}, DataError, "3 ids of the table stand for several rows"),
        (table, {"id": "catalog_content", "text": "sample_id"}, DataError, "stand for several rows"),
        (table, {"id": "nothing"}, DataError, "has no column 'nothing'"),
    ):
        with pytest.raises(error, match=message):
            model.predict_file(source, address, runner="here", **options)
    assert versions(address) == 0


@pytest.mark.slow
def test_ray_prices_a_table(address, products, bundle, versions):
    ray = pytest.importorskip("ray")
    pytest.importorskip("pricekit_ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        assert pk.load(bundle, engine="ort-cpu").predict_file(products[0], address, runner="ray") == ROWS
    finally:
        ray.shutdown()
    assert (len(rows_in(address)), versions(address)) == (ROWS, 1)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java: install default-jre-headless")
def test_spark_prices_a_table(address, products, bundle, versions):
    pytest.importorskip("pyspark")
    pytest.importorskip("pricekit_spark")
    assert pk.load(bundle, engine="ort-cpu").predict_file(products[0], address, runner="spark") == ROWS
    assert (len(rows_in(address)), versions(address)) == (ROWS, 1)
