"""Predictions into a table: one version with every row once, whatever is killed."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

import pricekit as pk
from pricekit.plugin import DataError

ROWS = 10_200
"""Several windows."""

MOMENTS = ["a window is stored", "rows are collected", "a version is there"]
"""When a prediction is killed."""


@pytest.fixture(scope="module")
def products(bundle, tmp_path_factory):
    """A table of Delta Lake, and its prices."""
    from deltalake import write_deltalake

    frame = pk.make_catalog(300, seed=2).drop(columns="price")
    frame = pd.concat([frame] * (ROWS // 300), ignore_index=True)
    frame["sample_id"] = [f"P{number:06d}" for number in range(len(frame))]
    folder = tmp_path_factory.mktemp("products")
    write_deltalake(folder, frame)
    prices = pk.load(bundle).predict(frame)
    return f"delta:///{folder}", dict(zip(frame["sample_id"], prices.astype(float), strict=True))


def prices_in(address):
    frame = pk.read_table(address, text="sample_id", id="sample_id").frame
    prices = dict(zip(frame["sample_id"], frame["price"], strict=True))
    assert len(prices) == len(frame)
    return prices


def same(actual, expected):
    assert actual.keys() == expected.keys()
    assert max(abs(price / expected[row] - 1) for row, price in actual.items()) < 1e-5


def test_a_table_is_priced_like_a_frame(address, products, bundle, versions):
    table, expected = products
    model = pk.load(bundle)
    for _ in range(2):
        assert model.predict_file(table, address) == ROWS
    same(prices_in(address), expected)
    assert versions(address) == 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_prediction_is_repeated(moment, address, products, bundle, versions, tmp_path, started):
    table, expected = products
    process = started("predict", bundle, table, "--out", address)
    happened = {
        MOMENTS[0]: lambda: any((tmp_path / "cache").rglob("part-*-*.parquet")),
        MOMENTS[1]: lambda: any((tmp_path / "temporary").rglob("rows.duckdb")),
        MOMENTS[2]: lambda: versions(address),
    }[moment]
    while process.poll() is None and not happened():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    pk.load(bundle).predict_file(table, address, resume=True, on_conflict="error")
    same(prices_in(address), expected)
    assert versions(address) == 1


def test_a_resumed_prediction_keeps_its_version(products, bundle, tmp_path, started):
    """A version that was written since the first attempt is of another moment."""
    address = f"delta:///{tmp_path}/table"
    from deltalake import DeltaTable, write_deltalake

    table, expected = products
    process = started("predict", bundle, table, "--out", address)
    while process.poll() is None and not any((tmp_path / "cache").rglob("part-*-*.parquet")):
        time.sleep(0.005)
    process.kill()
    process.wait()
    read = DeltaTable(table[9:])
    write_deltalake(
        read, pk.make_catalog(1, seed=3).drop(columns="price").astype({"sample_id": "str"}), mode="append"
    )
    try:
        pk.load(bundle).predict_file(table, address, resume=True)
        same(prices_in(address), expected)
    finally:
        DeltaTable(table[9:]).restore(read.version() - 1)


def test_two_predictions_write_one_table(address, products, bundle, versions):
    table, expected = products
    other = address + "?branch=main" if address.startswith("iceberg") else f"{address[:-5]}./table"
    model = pk.load(bundle)
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda out: model.predict_file(table, out), [address, other]))
    assert rows == [ROWS, ROWS]
    same(prices_in(address), expected)
    assert versions(address) == 1


def test_a_training_reads_a_version(tmp_path):
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "sold", pk.make_catalog(200, seed=5))
    write_deltalake(tmp_path / "sold", pk.make_catalog(250, seed=5).tail(50), mode="append")
    settings = {"backbone.vocab_size": 300, "backbone.width": 8, "training.refit": False}
    sold = f"delta:///{tmp_path}/sold"
    model = pk.train(
        f"{sold}?version=0", out=tmp_path / "run", epochs=1, features="fast15", settings=settings
    )
    assert (model.evaluate(f"{sold}?version=0").rows, model.evaluate(sold).rows) == (200, 250)


@pytest.mark.parametrize("name", ["table", "shop"])
def test_a_folder_of_a_table_is_no_folder_of_files(name, tmp_path, catalogue, bundle):
    import pyarrow as pa
    from deltalake import write_deltalake

    rows = pa.Table.from_pandas(pk.make_catalog(20, seed=7))
    (tmp_path / "shop").mkdir()
    if name == "table":
        folder, address = tmp_path / "shop" / "own table", f"delta:///{tmp_path}/shop/own%20table"
        write_deltalake(folder, rows)
        write_deltalake(folder, rows, mode="overwrite")
    else:
        folder, address = tmp_path / "shop" / "own", "iceberg://CATALOGUE/NAMESPACE.TABLE"
        catalogue.create_table("sales.folder", rows.schema, location=f"file://{folder}").append(rows)
    for path in (folder, tmp_path / "shop"):
        for out in ("prices.csv", "prices"):
            with pytest.raises(DataError, match=address):
                pk.load(bundle).predict_file(path, tmp_path / out)
    if name == "table":
        assert pk.check(address).rows == 20
