"""Rows whose cells are vectors."""

import json

import numpy as np
import pandas as pd
import pytest
from pricekit_serve import app
from pricekit_serve.rows import KnownColumns, Number, rows_of_json
from starlette.testclient import TestClient

import pricekit as pk
from conftest import TINY
from pricekit.plugin import Columns

VECTORS = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    out = tmp_path_factory.mktemp("vectors") / "seen"
    table = pk.make_catalog(200).assign(seen=list(VECTORS))
    pk.train(table, config={**TINY, "training": {"epochs": 1, "refit": False}}, vectors="seen").export(out)
    return out


def row(vector):
    return {"catalog_content": "Item Name: Green Tea, 20 Count", "seen": vector}


def test_a_row_has_its_vector_as_a_list_of_numbers(bundle):
    vectors = [VECTORS[0].tolist(), None, [1, -2, 3e1]]
    with TestClient(app(bundle, engine="ort-cpu")) as client:
        answer = client.post("/predict", json={"rows": [row(vector) for vector in vectors]})
    assert answer.status_code == 200, answer.text
    prices = [each["price"] for each in answer.json()["rows"]]
    expected = pk.load(bundle, engine="ort-cpu").predict(pd.DataFrame([row(vector) for vector in vectors]))
    assert len(set(prices)) == 3
    assert np.allclose(prices, expected, rtol=1e-6)


def test_vectors_that_are_too_long_for_a_text_are_read():
    numbers = [Number(f"0.{number:017}") for number in range(3072)]
    known = KnownColumns(("title", "seen"), vectors={"seen": 3072})
    rows = rows_of_json([{"title": "tea", "seen": numbers}, {"title": "tea", "seen": None}], known, 2)
    table = rows.for_predictor(Columns("title", None, None))
    assert table["seen"].to_pylist() == [[float(number) for number in numbers], None]


def test_a_vector_is_a_list_or_its_text_and_huge_numbers_are_infinite(bundle):
    digits = "1" + "0" * 400
    texts = [json.dumps(VECTORS[0].tolist()), " ", f"[1, 2, {digits}]"]
    with TestClient(app(bundle, engine="ort-cpu")) as client:
        answer = client.post("/predict", json={"rows": [row(vector) for vector in texts]})
        lists = client.post("/predict", json={"rows": [row(VECTORS[0].tolist()), row(None), row([])]})
    assert [each["price"] for each in answer.json()["rows"]] == [
        each["price"] for each in lists.json()["rows"]
    ]


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0, 2.0], "has 2 numbers; expected 3 numbers, or null"),
        ([1.0, 2.0, "3"], "is a list"),
        ("tea", "is no list of numbers; expected 3 numbers, or null"),
        (5, "is no list of numbers"),
    ],
)
def test_another_cell_is_refused_with_its_place(bundle, vector, message):
    with TestClient(app(bundle, engine="ort-cpu")) as client:
        answer = client.post("/predict", json={"rows": [row(None), row(vector)]})
        missing = client.post("/predict", json={"rows": [{"catalog_content": "tea"}]})
    assert (answer.status_code, answer.json()["field"]) == (422, "rows[1].seen")
    assert message in answer.json()["error"]
    assert missing.json()["field"] == "rows[0].seen"
