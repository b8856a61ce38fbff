"""Remote models: fetched once, checked each time."""

import json
from pathlib import Path

import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import BundleError, DataError
from pricekit.io.files import write_text
from pricekit.io.storage import Address
from pricekit.predict.bundle import fetch_model
from pricekit.predict.predictor import Predictor
from tests.predict.hostile import sealed

TEXTS = ["Item Name: Green Tea, 20 Count (Pack of 6)"]
BUNDLE, RUN = Address("memory://models/bundle"), Address("memory://models/run")


def upload(memory, folder: Path, address: Address) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            memory.pipe(f"/models/{address.name}/{file.relative_to(folder).as_posix()}", file.read_bytes())


@pytest.fixture
def remote(memory, bundle):
    upload(memory, bundle, BUNDLE)
    return memory


@pytest.fixture
def remote_run(memory, run):
    upload(memory, run, RUN)
    return memory


def test_a_remote_bundle_predicts_as_the_local_one(remote, bundle):
    expected = Predictor.load(bundle, "ort-cpu").predict(TEXTS)
    for model in (Predictor.load(str(BUNDLE), "ort-cpu"), pk.load(str(BUNDLE), "ort-cpu")):
        assert model.predict(TEXTS).tolist() == expected.tolist()


def test_a_bundle_is_fetched_once(remote, failing):
    first = fetch_model(BUNDLE)
    calls = failing("cat_file", ())
    assert fetch_model(BUNDLE) == first
    assert calls.calls == 0


def test_a_new_version_of_a_bundle_is_fetched(remote, bundle):
    first = fetch_model(BUNDLE)
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["created"] = "2030"
    remote.pipe("/models/bundle/manifest.json", sealed(manifest))
    second = fetch_model(BUNDLE)
    assert first != second
    assert first.is_dir()


@pytest.mark.parametrize("harm", [lambda file: file.write_bytes(b"other"), Path.unlink])
def test_a_damaged_cache_is_not_trusted(remote, logged, harm):
    place = fetch_model(BUNDLE)
    harm(place / "model.onnx")
    assert fetch_model(BUNDLE) == place
    assert "the cache is damaged, so the model is fetched again" in logged()
    assert (place / "model.onnx").read_bytes() == remote.cat("/models/bundle/model.onnx")
    write_text(place.parent / "files.json", "{}")
    fetch_model(BUNDLE)
    assert json.loads((place.parent / "files.json").read_text()) != {}


def test_an_altered_bundle_is_refused_and_not_cached(remote, tmp_path, raises):
    content = remote.cat("/models/bundle/model.onnx")
    remote.pipe("/models/bundle/model.onnx", bytes([content[0] ^ 1]) + content[1:])
    with raises(BundleError):
        fetch_model(BUNDLE)
    assert [path.name for path in (tmp_path / "pricekit-cache" / "models").iterdir()] == []


def test_a_truncated_bundle_is_refused(remote, raises):
    remote.pipe("/models/bundle/model.onnx", b"1")
    with raises((BundleError, DataError)):
        fetch_model(BUNDLE)


@pytest.mark.parametrize("name", ["../x", "a/b", "/x"])
def test_a_name_outside_of_the_folder_is_refused(remote, name, raises):
    manifest = json.loads(remote.cat("/models/bundle/manifest.json"))
    manifest["files"][name] = {"sha256": "0" * 64, "bytes": 1}
    remote.pipe("/models/bundle/manifest.json", sealed(manifest))
    with raises(BundleError):
        fetch_model(BUNDLE)


def test_a_bundle_beyond_the_limits_is_refused_before_it_is_fetched(remote, failing, raises):
    manifest = json.loads(remote.cat("/models/bundle/manifest.json"))
    manifest["files"]["model.onnx"]["bytes"] = 1 << 50
    remote.pipe("/models/bundle/manifest.json", sealed(manifest))
    calls = failing("cat_file", ())
    with raises(BundleError):
        fetch_model(BUNDLE)
    assert calls.calls == 1


def test_a_manifest_that_is_too_large_is_not_fetched(remote, failing, raises):
    remote.pipe("/models/bundle/manifest.json", b" " * (1 << 21))
    calls = failing("cat_file", ())
    with raises(BundleError):
        fetch_model(BUNDLE)
    assert calls.calls == 0


def test_a_remote_run_predicts_as_the_local_one(remote_run, run):
    assert pk.load(str(RUN)).predict(TEXTS).tolist() == pk.load(run).predict(TEXTS).tolist()
    assert pk.load(str(RUN)).evaluate().rows == pk.load(run).evaluate().rows


def test_a_run_is_fetched_once_and_without_its_checkpoints(remote_run, failing):
    remote_run.pipe("/models/run/last.safetensors", b"")
    first = fetch_model(RUN)
    calls = failing("cat_file", ())
    assert fetch_model(RUN) == first
    assert calls.calls == 0
    assert not (first / "last.safetensors").exists()


def test_an_altered_run_is_refused(remote_run, raises):
    remote_run.pipe("/models/run/preprocess.json", b"{}")
    with raises(BundleError):
        fetch_model(RUN)


def test_a_run_that_is_replaced_meanwhile_is_refused(remote_run, monkeypatch, raises):
    original, content = type(remote_run).cat_file, remote_run.cat("/models/run/metrics.jsonl")

    def replace(system, *args, **options):
        found = original(system, *args, **options)
        remote_run.pipe("/models/run/metrics.jsonl", content)
        return found

    monkeypatch.setattr(type(remote_run), "cat_file", replace)
    with raises(BundleError):
        fetch_model(RUN)


def test_a_folder_without_a_model_is_not_fetched(memory, failing, raises):
    with raises(BundleError):
        fetch_model(RUN)
    memory.pipe("/models/run/x.csv", b"a")
    calls = failing("cat_file", ())
    with raises(BundleError):
        fetch_model(RUN)
    assert calls.calls == 0


def test_a_model_is_not_read_from_a_stream(catalog, raises):
    with raises(BundleError):
        pk.load("-")


def test_functions_take_remote_models_and_tables(remote, catalog):
    table = pd.read_csv(catalog).head(50)
    remote.pipe("/in/new.csv", table.to_csv(index=False).encode())
    model = pk.load(str(BUNDLE))
    assert model.evaluate("memory://in/new.csv", out="memory://out/worst.parquet").rows == 50
    assert len(model.explain("memory://in/new.csv", limit=2)) == 2
    assert model.drift("memory://in/new.csv", out="memory://out/drift.html").rows == 50
    assert len(model.features("memory://in/new.csv")) == 50
    assert remote.find("/out") == ["/out/drift.html", "/out/worst.parquet"]
    assert remote.cat("/out/drift.html").endswith(b"</html>")
