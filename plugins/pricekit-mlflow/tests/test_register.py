"""Bundles as models of MLflow: the same prices, versions and aliases, and no code in the files."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.plugin import BundleError, ConfigError

pytest.importorskip("mlflow")
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The ``noload`` loader strategy is deprecated:sqlalchemy.exc.SADeprecationWarning"
    ),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A database for all tests, because creating one takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
            patch.delenv(name)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.chdir(folder)  # where MLflow puts artifacts
        yield f"sqlite:///{folder}/mlflow.db"


@pytest.fixture(scope="module")
def registered(store, bundle):
    from pricekit_mlflow import log_bundle

    return log_bundle(bundle, name="tea", aliases="champion")


@pytest.fixture(scope="module")
def loaded(registered):
    from mlflow import pyfunc

    return pyfunc.load_model(registered, model_config={"engine": "ort-cpu"})


@pytest.fixture
def rows():
    return pk.make_catalog(40, seed=11).drop(columns="price")


def test_prices_are_those_of_predict(loaded, bundle, rows):
    expected = pk.load(bundle, "ort-cpu").predict(rows)
    assert np.array_equal(loaded.predict(rows), expected)


def test_further_and_missing_columns_change_nothing(loaded, bundle, rows):
    texts = rows[["catalog_content"]]
    expected = pk.load(bundle, "ort-cpu").predict(texts)
    assert np.array_equal(loaded.predict(texts), expected)
    assert np.array_equal(loaded.predict(texts.assign(unknown=1)), expected)


@pytest.mark.parametrize(
    "sure",
    [{"interval": 0.9}, {"quantiles": [0.1, 0.5]}, {"within": 10.0, "confidence": 0.5, "interval": 0.5}],
)
def test_parameters_say_how_sure_the_prices_shall_be(loaded, bundle, rows, sure):
    expected = pk.load(bundle, "ort-cpu").predict(rows, **sure)
    pd.testing.assert_frame_equal(loaded.predict(rows, params=sure), expected)


def test_a_confidence_that_needs_more_rows_is_refused(loaded, rows, raises):
    with raises(ConfigError, "confidence"):
        loaded.predict(rows, params={"within": 2.0, "confidence": 0.9999})


def test_the_scoring_server_of_mlflow_answers_with_the_same_prices(loaded, bundle, rows):
    """`mlflow models serve` runs this application."""
    from mlflow.pyfunc import scoring_server
    from starlette.testclient import TestClient

    asked = {"dataframe_split": rows.to_dict("split")}
    with TestClient(scoring_server.init(loaded)) as client:
        answer = client.post("/invocations", json=asked)
        sure = client.post("/invocations", json=asked | {"params": {"within": 10, "confidence": 0.5}})
        wrong = client.post("/invocations", json={"dataframe_records": [{"txt": "tea"}]})
    assert answer.status_code == 200, answer.text
    expected = pk.load(bundle, "ort-cpu").predict(rows)
    assert np.array_equal(np.array(answer.json()["predictions"], np.float32), expected)
    assert wrong.status_code == 400
    released = pk.load(bundle, "ort-cpu").predict(rows, within=10, confidence=0.5)["release"]
    assert [row["release"] for row in sure.json()["predictions"]] == released.tolist()


def test_a_new_version_gets_the_alias(registered, store, bundle):
    from mlflow import MlflowClient
    from pricekit_mlflow import log_bundle

    assert registered == "models:/tea/1"
    assert log_bundle(bundle, name="tea", aliases=["champion", "new"]) == "models:/tea/2"
    client = MlflowClient(store)
    assert client.get_model_version_by_alias("tea", "champion").version in ("2", 2)
    assert len(client.search_model_versions("name = 'tea'")) == 2


def test_the_model_contains_the_bundle_and_no_pickle(registered, bundle, tmp_path):
    from mlflow.artifacts import download_artifacts

    folder = download_artifacts(registered, dst_path=str(tmp_path))
    files = {path.relative_to(folder).as_posix(): path for path in tmp_path.rglob("*") if path.is_file()}
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))]
    for file in bundle.iterdir():
        assert files[f"data/bundle/{file.name}"].read_bytes() == file.read_bytes()
    assert "loader_module: pricekit_mlflow.model" in files["MLmodel"].read_text()
    assert f"pricekit[cpu]=={pk.__version__}" in files["requirements.txt"].read_text()


def test_a_changed_model_is_refused(registered, tmp_path, raises):
    from mlflow import pyfunc
    from mlflow.artifacts import download_artifacts

    folder = download_artifacts(registered, dst_path=str(tmp_path))
    with open(f"{folder}/data/bundle/model.onnx", "r+b") as file:
        file.seek(1000)
        file.write(b"x")
    with raises(BundleError):
        pyfunc.load_model(folder)


def test_a_signature_travels_with_the_model(store, bundle, tmp_path, raises):
    pytest.importorskip("cryptography")
    from mlflow import pyfunc
    from pricekit_mlflow import log_bundle

    from tests.predict.signed import key_pair

    copy = shutil.copytree(bundle, tmp_path / "signed")
    (private, public), (_, other) = (key_pair(tmp_path / "keys", number) for number in (1, 2))
    pk.bundles.sign(copy, private)
    uri = log_bundle(copy)
    trusting = pyfunc.load_model(uri, model_config={"engine": "ort-cpu", "trust": str(public)})
    assert trusting.predict(pd.DataFrame({"catalog_content": ["tea"]}))[0] > 0
    with raises(BundleError, "trust"):
        pyfunc.load_model(uri, model_config={"trust": str(other)})


def test_a_damaged_bundle_is_not_logged(store, bundle, tmp_path, raises):
    from pricekit_mlflow import log_bundle

    copy = shutil.copytree(bundle, tmp_path / "copy")
    (copy / "README.md").write_text("better")
    with raises(BundleError):
        log_bundle(copy, name="bad")


def test_aliases_need_a_name(store, bundle, raises):
    from pricekit_mlflow import log_bundle

    with raises(ConfigError, "name", "aliases"):
        log_bundle(bundle, aliases="champion")


def test_an_unavailable_store_is_one_error(store, bundle, monkeypatch, raises):
    from pricekit_mlflow import log_bundle

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "no-such-scheme://me:secret@host")
    with raises(RuntimeError) as caught:
        log_bundle(bundle, name="tea")
    assert "secret" not in str(caught.value)


def test_the_command_registers(store, bundle, pricekit):
    code, out, err = pricekit("mlflow", "register", bundle, "coffee", "--alias", "champion")
    assert code == 0, err
    assert "is models:/coffee/1" in out + err
    code, _, err = pricekit("mlflow", "register", bundle, "bad/name")
    assert (code, "the name of the model is 'bad/name'; expected" in err) == (2, True)
    code, _, err = pricekit("mlflow", "register", bundle, "coffee", "--alias", "v2")
    assert (code, "the alias is 'v2'; expected" in err, "--alias" in err) == (2, True, True)


NAMES = ["", " ", "a/b", "a:b", ".", "..", "..a", "a\nb", "a" * 257, 7]
ALIASES = ["v2", "V10", "latest", "Latest", "bad alias!", "", "a\n", "a" * 256, 7]


def _stored(store):
    from mlflow import MlflowClient

    client = MlflowClient(store)
    models = client.search_logged_models([each.experiment_id for each in client.search_experiments()])
    return len(models), len(client.search_model_versions())


@pytest.mark.parametrize(
    "given",
    [*({"name": name} for name in NAMES), *({"name": "tea", "aliases": ["good", a]} for a in ALIASES)],
)
def test_nothing_is_stored_under_a_name_or_an_alias_that_mlflow_refuses(
    registered, store, bundle, given, raises
):
    from pricekit_mlflow import log_bundle

    before = _stored(store)
    with raises(ConfigError, "aliases" if "aliases" in given else "name"):
        log_bundle(bundle, **given)
    assert _stored(store) == before


def test_mlflow_agrees_on_names_and_aliases():
    from mlflow.exceptions import MlflowException
    from mlflow.utils.validation import (
        _validate_model_alias_name,
        _validate_model_alias_name_reserved,
        _validate_model_name,
    )
    from pricekit_mlflow.register import _check_alias, _check_name

    for name in ("te'a", "a.b.c", "a b", "ü", ".a"):
        _check_name(name)
        _validate_model_name(name)
    for alias in ("champion", "v2-new", "vv2", "ü_1", "1"):
        _check_alias(alias)
        _validate_model_alias_name(alias)
        _validate_model_alias_name_reserved(alias)
    for name in ("", " ", "a/b", "a:b", ".", "..", "..a"):
        with pytest.raises(MlflowException):
            _validate_model_name(name)


def test_a_name_with_an_apostrophe_gets_versions(store, bundle):
    from pricekit_mlflow import log_bundle

    assert [log_bundle(bundle, name="te'a") for _ in range(2)] == ["models:/te'a/1", "models:/te'a/2"]


@pytest.mark.parametrize(
    "method",
    [
        "log_outputs",
        "create_model_version",
        "set_registered_model_alias",
    ],
)
def test_a_late_failure_says_what_is_stored(store, bundle, monkeypatch, method, raises):
    from mlflow import MlflowClient
    from pricekit_mlflow import log_bundle

    def fail(*args, **given):
        raise OSError("the disk is full")

    client = MlflowClient(store)
    run = client.create_run("0")
    monkeypatch.setattr(MlflowClient, method, fail)
    with raises(RuntimeError):
        log_bundle(bundle, name="late", aliases="new", run_id=run.info.run_id)
    (model,) = client.search_logged_models(["0"], filter_string=f"source_run_id = '{run.info.run_id}'")
    assert model.status == ("FAILED" if method == "log_outputs" else "READY")
