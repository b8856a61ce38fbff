"""Prices over HTTP equal those of the predictor, in every format."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pricekit_serve import Limits, app
from starlette.testclient import TestClient

import pricekit as pk
from conftest import TINY
from pricekit.plugin.runners import Predictor

ARROW = "application/vnd.apache.arrow.stream"


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_rows_get_the_prices_of_the_predictor_in_order(client, predictor, texts, rows, conforms):
    sure = {"interval": 0.9, "quantiles": [0.1, 0.5], "within": 10, "confidence": 0.5}
    asked = {"rows": rows(40), **sure}
    conforms(asked, "Request-shop")
    answer = client.post("/predict", json=asked)
    assert answer.status_code == 200
    conforms(answer.json(), "Answer")
    found = pd.DataFrame(answer.json()["rows"])
    expected = predictor.predict(texts[:40], **sure)
    np.testing.assert_allclose(found.drop(columns="release"), expected.drop(columns="release"), rtol=1e-6)
    assert list(found) == list(expected)
    assert found["release"].tolist() == expected["release"].tolist()
    assert answer.json()["version"] == predictor.digest[:12]


def test_explanations_and_comparables_are_those_of_the_model(client, served, texts, rows, conforms):
    model = pk.load(served, "ort-cpu")
    asked = {"rows": rows(2), "explain": True, "comparables": 3}
    answer = client.post("/predict", json=asked).json()
    conforms(answer, "Answer")
    for found, text in zip(answer["rows"], texts[:2], strict=True):
        (explanation,) = model.explain([text])
        assert found["base"] == pytest.approx(explanation.base)
        assert [each["text"] for each in found["factors"]] == [each.text for each in explanation.factors]
        (comparables,) = model.comparables([text], k=3)
        assert [each["id"] for each in found["comparables"]] == [each.id for each in comparables.products]


def test_the_row_itself_is_no_comparable_of_it(client, catalog):
    row = pd.read_csv(catalog, dtype="str").loc[0, ["sample_id", "catalog_content"]].to_dict()
    (found,) = client.post("/predict", json={"rows": [row], "comparables": 1}).json()["rows"]
    assert found["comparables"][0]["id"] != row["sample_id"]
    (found,) = client.post("/predict", json={"rows": [row | {"sample_id": "new"}], "comparables": 1}).json()[
        "rows"
    ]
    assert found["comparables"][0]["id"] == row["sample_id"]


@pytest.mark.parametrize("kind", ["application/jsonl", "application/x-ndjson; charset=utf-8"])
def test_json_lines_get_json_lines(client, predictor, texts, rows, kind):
    body = "\n".join(map(json.dumps, rows(30))) + "\n\n"
    answer = client.post("/predict?interval=0.8", content=body, headers={"content-type": kind})
    assert answer.headers["content-type"].startswith(kind.partition(";")[0])
    found = pd.DataFrame([json.loads(line) for line in answer.text.splitlines()])
    np.testing.assert_allclose(found, predictor.predict(texts[:30], interval=0.8), rtol=1e-6)


def test_arrow_gets_arrow(client, predictor, texts):
    table = pa.table({"catalog_content": texts[:30], "sample_id": list(range(30))})
    query = "interval=0.8&quantiles=0.1,0.5&within=10&confidence=0.5"
    answer = client.post(f"/predict?{query}", content=stream(table), headers={"content-type": ARROW})
    assert answer.headers["content-type"] == ARROW
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.schema.types == [*[pa.float32()] * 5, pa.bool_()]
    expected = predictor.predict(texts[:30], 0.8, [0.1, 0.5], 10, 0.5)
    numbers = list(expected)[:-1]
    np.testing.assert_allclose(found.to_pandas()[numbers], expected[numbers], rtol=1e-6)
    assert found["release"].to_pylist() == expected["release"].tolist()


def test_whether_a_price_may_go_out_does_not_depend_on_other_rows(client, predictor, texts, rows):
    within = 1 + float(np.std(np.log(predictor.predict(texts))))
    sure = {"within": within, "confidence": 0.5}
    (together,) = [client.post("/predict", json={"rows": rows(20), **sure}).json()["rows"]]
    alone = [client.post("/predict", json={"rows": [row], **sure}).json()["rows"][0] for row in rows(20)]
    assert [row["release"] for row in alone] == [row["release"] for row in together]


def test_a_tolerance_that_no_price_meets_is_logged_once(client, rows, logged):
    for _ in range(3):
        (row,) = client.post("/predict", json={"rows": rows(1), "within": 1.0001, "confidence": 0.5}).json()[
            "rows"
        ]
        assert row["release"] is False
    assert logged().count("no price may go out within a factor of 1.0001 at a confidence of 0.5") == 1
    for number in range(200):
        client.post("/predict", json={"rows": rows(1), "within": 1 + number / 1e7 + 1e-7, "confidence": 0.5})
    assert logged().count("no price may go out") == 99


@pytest.mark.parametrize("cell", ["3 kg", 3, 2.50, True, None, ""])
def test_cells_are_read_as_predict_reads_them(wide, tmp_path, cell):
    row = {"title": "Item Name: Green tea", "size": cell}
    (tmp_path / "new.jsonl").write_text(json.dumps(row))
    pk.load(wide, engine="ort-cpu").predict_file(tmp_path / "new.jsonl", tmp_path / "prices.csv")
    expected = pd.read_csv(tmp_path / "prices.csv")["price"][0]
    with TestClient(app(wide, engine="ort-cpu")) as client:
        found = client.post("/predict", json={"rows": [row]}).json()["rows"][0]["price"]
        table = pa.table({name: pa.array([value]) for name, value in row.items()})
        arrow = client.post("/predict", content=stream(table), headers={"content-type": ARROW})
    assert found == pytest.approx(expected, rel=1e-6)
    if cell is not None:  # Arrow's type of None is no plain one
        assert pa.ipc.open_stream(arrow.content).read_all()["price"][0].as_py() == pytest.approx(found)


def test_a_frame_of_several_columns_has_the_predictors_prices(wide):
    table = pd.DataFrame({"title": ["Item Name: Jam", "Tea"], "size": ["2 kg", ""]})
    with TestClient(app(wide, engine="ort-cpu")) as client:
        found = client.post("/predict", json={"rows": table.to_dict("records")}).json()["rows"]
    expected = Predictor.load(wide, "ort-cpu").predict(table)
    np.testing.assert_allclose([each["price"] for each in found], expected, rtol=1e-6)


def test_no_rows_have_no_prices(client):
    assert client.post("/predict", json={"rows": []}).json()["rows"] == []
    assert client.post("/predict", content=b"", headers={"content-type": "application/jsonl"}).content == b""


def test_large_requests_are_split_and_small_ones_joined(served, predictor, texts, rows):
    with TestClient(app(served, engine="ort-cpu", limits=Limits(batch_rows=7))) as client:
        found = client.post("/predict", json={"rows": rows(50)}).json()["rows"]
    np.testing.assert_allclose([each["price"] for each in found], predictor.predict(texts[:50]), rtol=1e-6)


def test_each_model_has_an_address(served, wide):
    with TestClient(app({"shop": served, "wide": wide}, engine="ort-cpu")) as client:
        listed = client.get("/models").json()["models"]
        assert [each["name"] for each in listed] == ["shop", "wide"]
        assert [each["columns"]["text"] for each in listed] == [["catalog_content"], ["title", "size"]]
        assert [each["comparables"] for each in listed] == [True, False]
        assert all(0.9 <= each["highest_interval"] < 1 for each in listed)
        row = {"title": "Tea", "size": "1 kg"}
        assert client.post("/models/wide/predict", json={"rows": [row]}).json()["model"] == "wide"
        assert client.post("/predict", json={"rows": [row]}).status_code == 422  # of the first model
        missing = client.post("/models/wid/predict", json={"rows": [row]})
        assert (missing.status_code, "available: shop, wide" in missing.json()["error"]) == (404, True)


def test_every_address_is_described(served, wide):
    from pricekit_serve.routes import Routes

    with TestClient(app({"shop": served, "wide": wide}, engine="ort-cpu")) as client:
        described = client.get("/openapi.json").json()
    paths = {route.path: route.methods for route in Routes(None, Limits(), None).all()}
    left = set(described["paths"])
    for path, methods in paths.items():
        if path in ("/", "/openapi.json") or "{version}" in path:
            continue
        for own in {path.replace("{name}", name) for name in ("shop", "wide")}:
            assert {method.upper() for method in described["paths"][own]} <= methods
            left -= {own}
    assert not left


def test_only_what_a_model_can_answer_is_described(served, wide):
    with TestClient(app({"shop": served, "wide": wide}, engine="ort-cpu")) as client:
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
        highest = client.get("/models").json()["models"][0]["highest_interval"]
    shop, wide_ = schemas["Request-shop"]["properties"], schemas["Request-wide"]["properties"]
    assert (set(shop) - set(wide_), shop["interval"]["maximum"]) == ({"comparables"}, highest)
    row = schemas["Row-wide"]
    assert (row["required"], row["additionalProperties"]) == (["title", "size"], False)
    assert schemas["Inference-wide"]["properties"]["inputs"]["minItems"] == 2


def test_a_model_is_described_with_the_fields_of_a_form(client, served, wide, catalog):
    found = client.get("/models/shop").json()
    assert found["columns"] == client.get("/models").json()["models"][0]["columns"]
    (field,) = found["fields"]
    assert field == {"name": "catalog_content", "kind": "long", "values": [], "required": True}
    assert found["example"]["from"] == "product"
    example = found["example"]["cells"]
    table = pd.read_csv(catalog, dtype="str").set_index("sample_id")["catalog_content"]
    assert table[example["sample_id"]].split() == example["catalog_content"].split()
    priced = client.post("/predict", json={"rows": [example], "comparables": 5}).json()["rows"][0]
    assert example["sample_id"] not in [each["id"] for each in priced["comparables"]]
    assert client.get("/models/shops").status_code == 404


def test_without_products_the_example_is_invented(wide):
    with TestClient(app(wide, engine="ort-cpu")) as client:
        found = client.get("/models/wide").json()
    title, size = found["fields"]
    assert (title["kind"], size["name"], size["kind"]) == ("short", "size", "number")
    assert {f"{number} kg" for number in range(1, 10)} >= set(size["values"][:9]) != set()
    assert found["example"]["from"] == "invented"
    assert set(found["example"]["cells"]) == {"title", "size"}
    assert found["example"]["cells"]["size"] == size["values"][0]
    assert "Item Name" not in found["example"]["cells"]["title"]


def test_columns_of_numbers_are_fields_of_numbers(tmp_path):
    table = pk.make_catalog(200).assign(points=[f"{80 + n % 20}" for n in range(200)])
    columns = {"text": ["catalog_content", "points"], "id": "sample_id"}
    pk.train(table, **columns, config=TINY).export(tmp_path / "wine", with_comparables=table)
    with TestClient(app(tmp_path / "wine", engine="ort-cpu")) as client:
        found = client.get("/models/wine").json()
    assert [field["kind"] for field in found["fields"]] == ["long", "number"]
    assert found["example"]["cells"]["points"].isdigit()
