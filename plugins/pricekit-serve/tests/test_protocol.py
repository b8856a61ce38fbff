"""The Open Inference Protocol, version 2."""

import json
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pricekit_serve import __version__, app
from pricekit_serve.errors import RequestError
from pricekit_serve.protocol import unpacked_texts
from starlette.testclient import TestClient

from pricekit.plugin.runners import Predictor


def tensor(*texts, name="catalog_content", **changes):
    return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)} | changes


def test_metadata_and_health(client, predictor):
    about = {"name": "pricekit-serve", "version": __version__, "extensions": ["binary_tensor_data"]}
    assert client.get("/v2").json() == about
    assert client.get("/v2/health/live").status_code == 200
    assert client.get("/v2/health/ready").json() == {"ready": True}
    model = client.get("/v2/models/shop").json()
    assert model["inputs"] == [{"name": "catalog_content", "datatype": "BYTES", "shape": [-1]}]
    numbers = [(name, "FP32") for name in ("price", "price_low", "price_high")]
    assert [(each["name"], each["datatype"]) for each in model["outputs"]] == [*numbers, ("release", "BOOL")]
    (version,) = model["versions"]
    assert predictor.digest.startswith(version)
    for path in ("/v2/models/shop", f"/v2/models/shop/versions/{version}"):
        assert client.get(path).json() == model
        assert client.get(f"{path}/ready").json() == {"name": "shop", "ready": True}
    assert client.get("/v2/models/other/ready").status_code == 404


def test_texts_in_prices_out(client, predictor, texts, conforms):
    asked = {"id": "7", "inputs": [tensor(*texts[:5])], "parameters": {"interval": 0.9, "priority": 1}}
    conforms(asked, "Inference-shop")
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


def test_no_rows_have_no_prices(client):
    asked = {"inputs": [tensor()], "parameters": {"interval": 0.9}}
    outputs = client.post("/v2/models/shop/infer", json=asked).json()["outputs"]
    assert [output["data"] for output in outputs] == [[], [], []]


def test_quantiles_are_outputs(client, predictor):
    asked = {"inputs": [tensor("tea")], "parameters": {"quantiles": "0.1, 0.5"}}
    outputs = client.post("/v2/models/shop/infer", json=asked).json()["outputs"]
    expected = predictor.predict(["tea"], quantiles=[0.1, 0.5])
    assert [output["name"] for output in outputs] == ["price", "price_0.1", "price_0.5"]
    assert [output["data"] for output in outputs] == [
        pytest.approx(list(column)) for _, column in expected.items()
    ]


@pytest.mark.parametrize("binary", [False, True])
def test_prices_that_may_go_out_are_an_output(client, predictor, texts, binary):
    asked = {
        "inputs": [tensor(*texts[:9])],
        "parameters": {"within": "10", "confidence": 0.5, "binary_data_output": binary},
    }
    answer = client.post("/v2/models/shop/infer", json=asked)
    expected = predictor.predict(texts[:9], within=10, confidence=0.5)["release"].tolist()
    if binary:
        size = int(answer.headers["inference-header-content-length"])
        head, release = json.loads(answer.content[:size])["outputs"][1], answer.content[size:][-9:]
        found = np.frombuffer(release, bool).tolist()
    else:
        head = answer.json()["outputs"][1]
        found = head["data"]
    assert (head["name"], head["datatype"], head["shape"], found) == ("release", "BOOL", [9], expected)


@pytest.mark.parametrize("interval", [0.8, "0.8", "0.80"])
def test_parameters_may_be_texts_as_those_of_tritons_clients(client, predictor, interval):
    asked = {"inputs": [tensor("tea")], "parameters": {"interval": interval}}
    outputs = client.post("/v2/models/shop/infer", json=asked).json()["outputs"]
    expected = predictor.predict(["tea"], interval=0.8)
    np.testing.assert_allclose([output["data"][0] for output in outputs], expected.iloc[0], rtol=1e-6)


def packed(*texts):
    """Texts as a binary tensor."""
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)


def binary(document, *tensors, head=None):
    """A request with binary tensors, as tritonclient and KServe's client send it."""
    start = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(start) if head is None else head)}
    return {"content": b"".join([start, *tensors]), "headers": headers}


def described(data, rows, name="catalog_content", **changes):
    return {
        "name": name,
        "shape": [rows, 1],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(data)},
    } | changes


def unpacked(answer):
    """The outputs of an answer with binary tensors, by name."""
    size, found = int(answer.headers["Inference-Header-Content-Length"]), {}
    place = size
    for output in json.loads(answer.content[:size])["outputs"]:
        end = place + output["parameters"]["binary_data_size"]
        found[output["name"]] = np.frombuffer(answer.content[place:end], "<f4")
        assert len(found[output["name"]]) == output["shape"][0]
        place = end
    assert place == len(answer.content)
    return found


def test_binary_tensors_get_binary_tensors(client, predictor, texts):
    """These are the defaults of tritonclient and of KServe's client."""
    data = packed(*texts[:4], "\U0001f600", "")
    asked = {
        "id": "7",
        "inputs": [described(data, 6)],
        "parameters": {"binary_data_output": True, "interval": "0.9"},
    }
    answer = client.post("/v2/models/shop/infer", **binary(asked, data))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    found, expected = unpacked(answer), predictor.predict([*texts[:4], "\U0001f600", ""], interval=0.9)
    assert list(found) == list(expected)
    for name, column in found.items():
        np.testing.assert_allclose(column, expected[name], rtol=1e-6)


def test_binary_and_json_tensors_can_be_mixed(wide):
    data = packed("Tea", "Jam")
    asked = {
        "inputs": [tensor("1 kg", "", name="size"), described(data, 2, "title")],
        "parameters": {"interval": 0.5},
        "outputs": [{"name": "price"}, {"name": "price_low", "parameters": {"binary_data": True}}],
    }
    with TestClient(app(wide, engine="ort-cpu")) as client:
        answer = client.post("/v2/models/wide/infer", **binary(asked, data))
        in_json = client.post(
            "/v2/models/wide/infer",
            json=asked | {"inputs": [tensor("1 kg", "", name="size"), tensor("Tea", "Jam", name="title")]},
        )
    assert answer.content == in_json.content
    size = int(answer.headers["Inference-Header-Content-Length"])
    price, low = json.loads(answer.content[:size])["outputs"]
    assert low["parameters"] == {"binary_data_size": 8}
    assert (np.frombuffer(answer.content[size:], "<f4") < price["data"]).all()


TEA = packed("tea")


@pytest.mark.parametrize(
    ("request_", "status", "field"),
    [
        (binary({"inputs": [described(TEA, 1)]}, TEA, head="-1"), 400, None),
        (binary({"inputs": [described(TEA, 1)]}, TEA, head="9" * 30), 400, None),
        (binary({"inputs": [described(TEA, 1)]}, TEA, head=10_000), 400, None),
        (binary({"inputs": [described(TEA, 1)]}, TEA, head=3), 400, None),
        (binary({"inputs": [described(TEA, 1)]}, TEA + b"x"), 422, "inputs"),
        (binary({"inputs": [described(TEA, 1)]}), 422, "inputs[0].parameters.binary_data_size"),
        (binary({"inputs": [described(TEA, 1, parameters={"binary_data_size": -1})]}, TEA), 422, None),
        (binary({"inputs": [described(TEA, 1, parameters={"binary_data_size": "7"})]}, TEA), 422, None),
        (binary({"inputs": [described(TEA, 1, parameters={"binary_data_size": 10**40})]}, TEA), 422, None),
        (binary({"inputs": [described(TEA, 1, parameters=[])]}, TEA), 422, "inputs[0].parameters"),
        (binary({"inputs": [described(TEA, 1)]}, b"\xff\xff\xff\xfftea"), 422, "inputs[0].data[0]"),
        (binary({"inputs": [described(TEA, 2)]}, TEA), 422, "inputs[0].data[1]"),
        (binary({"inputs": [described(TEA + TEA, 1)]}, TEA, TEA), 422, "inputs[0].data"),
        (binary({"inputs": [described(TEA, 10**6)]}, TEA), 413, "rows"),
        (binary({"inputs": [described(TEA, 1, datatype="FP32")]}, TEA), 422, "inputs[0].datatype"),
        (binary({"inputs": [described(TEA, 1)]}, b"\3\0\0\0te\xff"), 422, "inputs[0].data[0]"),
        (binary({"inputs": [described(b"12", 1)]}, b"12"), 422, "inputs[0].data[0]"),
    ],
)
def test_wrong_binary_tensors_are_refused(client, request_, status, field):
    answer = client.post("/v2/models/shop/infer", **request_)
    assert answer.status_code == status, answer.text
    if field is not None:
        assert answer.json()["field"] == field


@given(st.binary(max_size=60) | st.lists(st.text()).map(lambda texts: packed(*texts)), st.integers(0, 9))
def test_any_bytes_are_texts_or_refused(data, rows):
    with suppress(RequestError):
        assert packed(*unpacked_texts("inputs[0]", memoryview(data), rows)) == data


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
        ({"inputs": [tensor("tea", shape=[1, 2])]}, "inputs[0].shape"),
        ({"inputs": [tensor("tea", shape=[])]}, "inputs[0].shape"),
        ({"inputs": [tensor("tea", data="tea")]}, "inputs[0].data"),
        ({"inputs": [tensor("tea", 3)]}, "inputs[0].data[1]"),
        ({"inputs": [tensor("x" * 50_001)]}, "inputs[0].data[0]"),
        ({"inputs": [tensor("tea")], "parameters": 3}, "parameters"),
        ({"inputs": [tensor("tea")], "parameters": {"interval": "x"}}, "interval"),
        ({"inputs": [tensor("tea")], "parameters": {"quantiles": "0.5,x"}}, "quantiles"),
        ({"inputs": [tensor("tea")], "parameters": {"within": "1,5"}}, "within"),
        ({"inputs": [tensor("tea")], "parameters": {"confidence": "0.9"}}, "confidence"),
        ({"inputs": [tensor("tea")], "outputs": [{"name": "release"}]}, "outputs[0].name"),
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


@pytest.mark.parametrize("shape", [[10_001], [10**40, 1]])
def test_too_many_rows_are_refused(client, shape):
    answer = client.post("/v2/models/shop/infer", json={"inputs": [tensor("tea", shape=shape)]})
    assert (answer.status_code, answer.json()["field"]) == (413, "rows")


def test_other_requests_are_refused(client):
    assert client.post("/v2/models/shop/infer", content=b"{").status_code == 400
    assert client.post("/v2/models/other/infer", json={}).status_code == 404
