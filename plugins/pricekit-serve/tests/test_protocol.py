"""The Open Inference Protocol, version 2."""

import numpy as np
import pytest
from pricekit_serve import app
from starlette.testclient import TestClient

from pricekit.plugin.runners import Predictor


def tensor(*texts, name="catalog_content", **changes):
    return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)} | changes


def test_metadata_and_health(client, predictor):
    assert client.get("/v2").json()["name"] == "pricekit-serve"
    assert client.get("/v2/health/live").status_code == 200
    assert client.get("/v2/health/ready").json() == {"ready": True}
    model = client.get("/v2/models/shop").json()
    assert model["inputs"] == [{"name": "catalog_content", "datatype": "BYTES", "shape": [-1]}]
    assert [each["name"] for each in model["outputs"]] == ["price", "price_low", "price_high"]
    (version,) = model["versions"]
    assert predictor.digest.startswith(version)
    for path in ("/v2/models/shop", f"/v2/models/shop/versions/{version}"):
        assert client.get(path).json() == model
        assert client.get(f"{path}/ready").status_code == 200
    assert client.get("/v2/models/other/ready").status_code == 404


def test_texts_in_prices_out(client, predictor, texts, conforms):
    asked = {"id": "7", "inputs": [tensor(*texts[:5])], "parameters": {"interval": 0.9, "priority": 1}}
    conforms(asked, "InferenceRequest")
    answer = client.post("/v2/models/shop/infer", json=asked).json()
    conforms(answer, "InferenceAnswer")
    assert (answer["id"], answer["model_name"]) == ("7", "shop")
    expected = predictor.predict(texts[:5], interval=0.9)
    for output in answer["outputs"]:
        assert (output["shape"], output["datatype"]) == ([5], "FP32")
        np.testing.assert_allclose(output["data"], expected[output["name"]], rtol=1e-6)
    assert [output["name"] for output in answer["outputs"]] == list(expected)


def test_outputs_are_those_that_are_asked_for(client):
    asked = {"inputs": [tensor("tea")], "outputs": [{"name": "price_high"}], "parameters": {"interval": 0.5}}
    answer = client.post("/v2/models/shop/infer", json=asked).json()
    assert [output["name"] for output in answer["outputs"]] == ["price_high"]
    assert "id" not in answer


def test_columns_are_tensors(wide):
    asked = {"inputs": [tensor("1 kg", "", name="size"), tensor("Tea", "Jam", name="title", shape=[2, 1])]}
    asked["inputs"][1]["data"] = [["Tea"], ["Jam"]]
    with TestClient(app(wide, engine="ort-cpu")) as client:
        (output,) = client.post("/v2/models/wide/infer", json=asked).json()["outputs"]
    rows = {"title": ["Tea", "Jam"], "size": ["1 kg", ""]}
    import pandas as pd

    np.testing.assert_allclose(
        output["data"], Predictor.load(wide, "ort-cpu").predict(pd.DataFrame(rows)), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ([], "inputs"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [3]}, "inputs[0].name"),
        ({"inputs": [tensor("tea", name=["x"])]}, "inputs[0].name"),
        ({"inputs": [tensor("tea"), tensor("tea")]}, "inputs[1].name"),
        ({"inputs": [tensor("tea", name="title")]}, "inputs.catalog_content"),
        ({"inputs": [tensor("tea"), tensor("red", name="colour")]}, "inputs.colour"),
        ({"inputs": [tensor("tea"), tensor("1", "2", name="sample_id")]}, "inputs"),
        ({"inputs": [tensor("tea", datatype="FP32")]}, "inputs[0].datatype"),
        ({"inputs": [tensor("tea", shape=[2])]}, "inputs[0].data"),
        ({"inputs": [tensor("tea", shape=["1"])]}, "inputs[0].shape"),
        ({"inputs": [tensor("tea", shape=[-1])]}, "inputs[0].shape"),
        ({"inputs": [tensor("tea", shape=[10**40])]}, "inputs[0].data"),
        ({"inputs": [tensor("tea", shape=[1, 2])]}, "inputs[0].shape"),
        ({"inputs": [tensor("tea", shape=[])]}, "inputs[0].shape"),
        ({"inputs": [tensor("tea", data="tea")]}, "inputs[0].data"),
        ({"inputs": [tensor("tea", 3)]}, "inputs[0].data[1]"),
        ({"inputs": [tensor("x" * 50_001)]}, "inputs[0].data[0]"),
        ({"inputs": [tensor("tea")], "parameters": 3}, "parameters"),
        ({"inputs": [tensor("tea")], "parameters": {"interval": "x"}}, "interval"),
        ({"inputs": [tensor("tea")], "outputs": 3}, "outputs"),
        ({"inputs": [tensor("tea")], "outputs": [3]}, "outputs[0].name"),
        ({"inputs": [tensor("tea")], "outputs": [{"name": []}]}, "outputs[0].name"),
        ({"inputs": [tensor("tea")], "outputs": [{"name": "price_low"}]}, "outputs[0].name"),
        ({"inputs": [tensor("tea")], "id": 3}, "id"),
    ],
)
def test_wrong_requests_are_named(client, asked, field, conforms):
    answer = client.post("/v2/models/shop/infer", json=asked)
    assert (answer.status_code, answer.json().get("field")) == (422, field)
    conforms(answer.json(), "Error")


def test_other_requests_are_refused(client):
    assert client.post("/v2/models/shop/infer", content=b"{").status_code == 400
    binary = {"inference-header-content-length": "2"}
    assert client.post("/v2/models/shop/infer", content=b"{}", headers=binary).status_code == 415
    assert client.post("/v2/models/other/infer", json={}).status_code == 404
    rows = ["tea"] * 10_001
    assert client.post("/v2/models/shop/infer", json={"inputs": [tensor(*rows)]}).status_code == 413
