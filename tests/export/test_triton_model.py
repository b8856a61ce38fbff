"""The code of a model, run as Triton's Python backend runs it, with a stand-in for the backend's module."""

import json
import runpy
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.export.triton import Interface, add_version


class Tensor:
    def __init__(self, name, values):
        self._name, self._values = name, values

    def name(self):
        return self._name

    def as_numpy(self):
        return self._values


@dataclass
class Request:
    """One request: a column of bytes for each input, as Triton gives them."""

    inputs: dict
    outputs: tuple = (
        "price",
        "price_low",
        "price_high",
        "release",
        "quantiles",
    )  # all if the client names none
    given: dict = field(default_factory=dict)

    def requested_output_names(self):
        return list(self.outputs)

    def parameters(self):
        return json.dumps(self.given)


@dataclass
class Response:
    output_tensors: list = field(default_factory=list)
    error: object = None

    def values(self):
        assert self.error is None, self.error.message
        return {tensor.name(): tensor.as_numpy() for tensor in self.output_tensors}


class TritonError:
    INTERNAL, INVALID_ARG = 0, 3

    def __init__(self, message, code=INTERNAL):
        self.message, self.code = message, code


@pytest.fixture
def log(monkeypatch):
    """Install the stand-in, and return the lines that the model logs."""
    lines = []
    module = SimpleNamespace(
        Tensor=Tensor,
        InferenceResponse=Response,
        TritonError=TritonError,
        Logger=SimpleNamespace(log_error=lines.append),
        get_input_tensor_by_name=lambda request, name: Tensor(name, request.inputs[name]),
    )
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", module)
    return lines


def _opened(bundle, folder, columns=("catalog_content",), highest=0.95, more=None):
    """Write a version and start it as the backend does."""
    version = add_version(bundle, folder, Interface(columns, highest))
    model = runpy.run_path(str(version / "model.py"))["TritonPythonModel"]()
    parameters = {"engine": {"string_value": "ort-cpu"}, "interval": {"string_value": "0.9"}}
    outputs = [{"name": name} for name in Request({}).outputs]
    config = {
        "input": [{"name": name} for name in columns],
        "output": outputs,
        "parameters": parameters | (more or {}),
    }
    model.initialize(
        {
            "model_config": json.dumps(config),
            "model_repository": str(folder),
            "model_version": version.name,
        }
    )
    return model


def _request(texts, **more):
    cells = np.array([[text.encode()] for text in texts], np.object_)
    return Request({"catalog_content": cells}, **more)


@pytest.fixture
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()[:50]


@pytest.fixture
def model(log, bundle, tmp_path):
    return _opened(bundle, tmp_path / "tea")


def test_prices_and_bounds_equal_those_of_predict(model, bundle, texts):
    (answer,) = model.execute([_request(texts)])
    expected = pk.load(bundle, engine="ort-cpu").predict(texts, interval=0.9)
    found = answer.values()
    assert list(found) == ["price", "price_low", "price_high"]
    for name, values in found.items():
        assert (values.dtype, values.shape) == (np.float32, (len(texts), 1))
        assert values[:, 0].tolist() == expected[name].tolist()


def test_a_request_chooses_outputs_and_level(model, bundle, texts):
    wide, narrow = model.execute(
        [_request(texts[:3], outputs=("price",)), _request(texts[3:5], given={"interval": "0.5"})]
    )
    expected = pk.load(bundle, engine="ort-cpu").predict(texts[:5], interval=0.5)
    assert list(wide.values()) == ["price"]
    assert wide.values()["price"][:, 0].tolist() == expected["price"].tolist()[:3]
    assert narrow.values()["price_high"][:, 0].tolist() == expected["price_high"].tolist()[3:]


def test_parameters_ask_for_quantiles_and_for_prices_that_may_go_out(model, bundle, texts):
    predictor = pk.load(bundle, engine="ort-cpu")
    within = float(np.median(predictor.predict(texts, interval=0.9)["price_high"]))
    parameters = {"quantiles": "0.1, 0.5,0.9", "within": str(within), "confidence": 0.8}
    answer, alone, plain = model.execute(
        [_request(texts, given=parameters), _request(texts[:1], given=parameters), _request(texts)]
    )
    expected = predictor.predict(texts, quantiles=[0.1, 0.5, 0.9], within=within, confidence=0.8)
    found = answer.values()
    assert list(found) == ["price", "price_low", "price_high", "release", "quantiles"]
    assert (found["release"].dtype, found["release"].shape) == (bool, (len(texts), 1))
    assert found["release"][:, 0].tolist() == expected["release"].tolist()
    assert (
        found["quantiles"].tolist() == expected[["price_0.1", "price_0.5", "price_0.9"]].to_numpy().tolist()
    )
    assert alone.values()["release"].tolist() == found["release"][:1].tolist()
    assert list(plain.values()) == ["price", "price_low", "price_high"]


def test_the_configuration_may_hold_the_tolerance(log, bundle, texts, tmp_path):
    more = {"within": {"string_value": "50"}, "confidence": {"string_value": "0.5"}}
    (answer,) = _opened(bundle, tmp_path / "tea", more=more).execute([_request(texts)])
    expected = pk.load(bundle, engine="ort-cpu").predict(texts, within=50, confidence=0.5)["release"]
    assert answer.values()["release"][:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["release", "quantiles"])
def test_an_output_that_a_client_names_needs_its_parameter(model, texts, name):
    (answer,) = model.execute([_request(texts[:1], outputs=("price", name))])
    assert answer.error.code == TritonError.INVALID_ARG
    assert answer.error.message.startswith(f"the output {name} needs a parameter")


def test_a_wrong_request_fails_alone(model, texts):
    bytes_ = Request({"catalog_content": np.array([[b"\xff"]], np.object_)})
    level = _request(texts[:1], given={"interval": 2})
    word = _request(texts[:1], given={"interval": "wide"})
    shares = _request(texts[:1], given={"quantiles": "0.5;0.9"})
    sure = _request(texts[:1], given={"within": 2, "confidence": "0.9999"})
    good, *wrong = model.execute([_request(texts[:2]), bytes_, level, word, shares, sure])
    assert good.values()["price"].shape == (2, 1)
    assert [answer.error.code for answer in wrong] == [TritonError.INVALID_ARG] * 5
    messages = [answer.error.message for answer in wrong]
    assert "can't decode byte" in messages[0]
    assert "the interval is 2" in messages[1]
    assert messages[2] == "interval is 'wide'; expected a number"
    assert messages[3] == "quantiles is '0.5;0.9'; expected numbers that are joined by commas"
    assert "the confidence is 0.9999, which needs 19,998 validation rows" in messages[4]


def test_an_unexpected_failure_is_in_the_log_only(model, log, texts, monkeypatch):
    def broken(self, table):
        raise RuntimeError("secret")

    monkeypatch.setattr(type(model.model), "prepare", broken)
    (answer,) = model.execute([_request(texts[:1])])
    assert "secret" not in answer.error.message
    assert log == ["pricekit: RuntimeError('secret')"]


def test_two_versions_answer_side_by_side(log, bundle, texts, tmp_path):
    first, second = (_opened(bundle, tmp_path / "tea") for _ in range(2))
    assert sorted(path.name for path in (tmp_path / "tea").iterdir()) == ["1", "2", "config.pbtxt"]
    assert first.model.origin.path.parent.name == "1"
    prices = [each.execute([_request(texts)])[0].values()["price"].tolist() for each in (first, second)]
    assert prices[0] == prices[1]


def test_every_column_is_an_input(log, pricekit, catalog, tmp_path):
    table = pd.read_csv(catalog)
    table["grams"] = np.arange(len(table)) + 1
    table.to_csv(tmp_path / "t.csv", index=False)
    settings = (
        "--text",
        "catalog_content,grams",
        "--set",
        'features=["columns"]',
        "--set",
        "training.epochs=1",
        *("--no-refit", "--set", "backbone.buckets=64", "--set", "backbone.width=8"),
    )
    assert pricekit("train", tmp_path / "t.csv", "--out", tmp_path / "run", "--quiet", *settings)[0] == 0
    arguments = ("--out", tmp_path / "b", "--triton", tmp_path / "models")
    assert pricekit("export", tmp_path / "run", *arguments)[0] == 0
    assert (
        '{ name: "grams" data_type: TYPE_STRING' in (tmp_path / "models" / "b" / "config.pbtxt").read_text()
    )
    model = _opened(tmp_path / "b", tmp_path / "other", ("catalog_content", "grams"))
    rows = table.head(20).astype({"grams": "str"})
    rows.loc[3, "grams"] = ""
    columns = {name: np.array([[c.encode()] for c in rows[name]], np.object_) for name in model.columns}
    (answer,) = model.execute([Request(columns)])
    expected = pk.load(tmp_path / "b", engine="ort-cpu").predict(rows)
    assert answer.values()["price"][:, 0].tolist() == expected.tolist()
