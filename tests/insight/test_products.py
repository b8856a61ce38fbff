"""Products with prices, and the files that a bundle stores of them."""

import io
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pricekit as pk
from pricekit.errors import BundleError, DataError
from pricekit.features.neighbours import Neighbours
from pricekit.insight import products as module
from pricekit.insight.comparables import find_comparables
from pricekit.insight.products import INDEX, ROWS, files_of, products_of, read_products

HERE = Path("bundle")


@pytest.fixture(scope="module")
def table():
    return pk.read_table(pk.make_catalog(60))


def _found(table, products):
    return [each.to_dict() for each in find_comparables(table, table.known_price, products, 4, ("unit",))]


def test_the_products_of_a_bundle_are_those_of_the_table(table):
    products = products_of(table)
    files = files_of(table, {})
    assert sorted(files) == [INDEX, ROWS]
    assert _found(table, read_products(files, HERE)) == _found(table, products)


def test_a_feature_with_the_same_index_is_shared(table):
    state = Neighbours(Neighbours.Options()).fit(table, table.known_price)
    other = {"features": [{"name": "rows", "state": {}}, {"name": "neighbours", "state": state}]}
    members = {"preprocess.json": json.dumps(other).encode()}
    files = files_of(table, members)
    assert json.loads(files[INDEX])["index_in"] == ["preprocess.json", "features", 1, "state", "index"]
    assert _found(table, read_products(files | members, HERE)) == _found(table, products_of(table))
    fewer = files_of(table.take(range(50)), members)
    assert "index" in json.loads(fewer[INDEX])


def test_texts_are_kept_as_far_as_they_are_shown():
    frame = pd.DataFrame({"catalog_content": ["tea " * 2_000], "price": [3.0]})
    products = products_of(pk.read_table(frame))
    assert len(products.text[0]) == module.MOST_CHARACTERS
    assert products.ids == ["0"]


def test_more_products_than_the_limit_are_chosen_evenly(table, monkeypatch, caplog):
    monkeypatch.setattr(module, "MOST_ROWS", 4)
    assert products_of(table).ids == [str(table.ids[place]) for place in (0, 20, 39, 59)]
    assert "of 60 products, 4 are compared, chosen evenly" in caplog.text


def test_a_table_without_rows_is_one_sentence(table, raises):
    with raises(DataError):
        products_of(table.take([]))


def _parquet(frame):
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), sink)
    return sink.getvalue()


def _changed(files, **columns):
    table = pq.read_table(io.BytesIO(files[ROWS]))
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return files | {ROWS: sink.getvalue()}


def _damages(files):
    index = json.loads(files[INDEX])
    yield files | {ROWS: files[ROWS][:-40]}
    yield files | {ROWS: b"PAR1"}
    yield files | {ROWS: _parquet(pd.DataFrame({"id": ["1"] * 60}))}
    yield {ROWS: files[ROWS]}
    yield files | {INDEX: b"[" * 100_000}
    yield files | {INDEX: json.dumps(index | {"index": {}}).encode()}
    yield files | {INDEX: json.dumps(index | {"index": {**index["index"], "rows": 61}}).encode()}
    yield files | {INDEX: json.dumps({"labels": index["labels"], "index_in": ["../secret", "x"]}).encode()}
    yield files | {INDEX: json.dumps({"labels": index["labels"], "index_in": []}).encode()}
    yield files | {INDEX: json.dumps({"index": index["index"]}).encode()}
    yield _changed(files, price=[-1.0] * 60)
    yield _changed(files, price=[float("nan")] * 60)
    yield _changed(files, size=[float("inf")] * 60)
    yield _changed(files, name=[None] * 60)
    yield _changed(files, name=["x" * 1_001] * 60)
    yield files | {INDEX: json.dumps(index | {"labels": {"label": "x" * 1_000, "sizes": []}}).encode()}
    yield files | {ROWS: bytes(byte ^ (60 < place < 200) for place, byte in enumerate(files[ROWS]))}


def test_damaged_products_are_refused_in_one_sentence(table, raises):
    files = files_of(table, {})
    for damaged in _damages(files):
        with raises(BundleError):
            read_products(damaged, HERE)
    read_products(files, HERE)


def test_repeated_long_texts_are_refused_before_they_are_unpacked(table, monkeypatch, raises):
    files = files_of(table, {})
    bomb = _changed(files, text=["long " * 2_000] * 60)
    assert len(bomb[ROWS]) < len(files[ROWS])  # stored once
    monkeypatch.setattr(module, "MOST_TEXT_BYTES", 100_000)
    read_products(files, HERE)
    with raises(BundleError):
        read_products(bomb, HERE)
