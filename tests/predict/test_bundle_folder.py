import hashlib
import json
import shutil
from pathlib import Path

import onnx
import pytest

from pricekit.errors import BundleError, PluginError
from pricekit.features.preprocess import load_preprocessor
from pricekit.io.record import FORMAT
from pricekit.predict.bundle import MANIFEST, json_schema, open_bundle
from pricekit.predict.predictor import Predictor
from tests.predict.hostile import write_manifest


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle, tmp_path / "copy")


def _edit(copy, **changes):
    manifest = json.loads((copy / MANIFEST).read_text())
    write_manifest(copy, {**manifest, **changes})


def _put_graph(copy, content):
    """Replace the graph, and its hash in the manifest."""
    (copy / "model.onnx").write_bytes(content)
    files = json.loads((copy / MANIFEST).read_text())["files"]
    files["model.onnx"] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    _edit(copy, files=files)


def test_a_bundle_contains_the_files_of_its_manifest(bundle):
    manifest = open_bundle(bundle).manifest
    assert set(manifest["files"]) == {p.name for p in bundle.iterdir()} - {MANIFEST}
    assert manifest["schema_version"] == FORMAT
    assert manifest["precision"] == "fp32"
    assert 0 < manifest["metrics"]["smape"] < 200
    assert {(p["kind"], p["name"], p["package"]) for p in manifest["plugins"]} == {
        ("feature", "optimized22", "pricekit"),
        ("feature", "columns", "pricekit"),
        ("backbone", "bag", "pricekit"),
        ("loss", "smape", "pricekit"),
        ("policy", "quick", "pricekit"),
    }
    assert [1, 1] in manifest["verified"]["shapes"]
    card = (bundle / "README.md").read_text()
    assert f"{manifest['metrics']['smape']:.2f}" in card


def test_a_bundle_moves(copy, catalog):
    assert len(Predictor.load(copy).predict(["Green tea"])) == 1


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "preprocess.json", "README.md"])
@pytest.mark.parametrize("harm", ["one byte", "truncated", "missing", "link"])
def test_an_altered_bundle_is_refused_and_names_the_file(copy, name, harm, raises):
    file = copy / name
    content = bytearray(file.read_bytes())
    if harm == "one byte":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif harm == "truncated":
        file.write_bytes(content[:-7])
    else:
        file.unlink()
        if harm == "link":
            (copy.parent / name).write_bytes(content)
            file.symlink_to(copy.parent / name)
    with raises(BundleError):
        Predictor.load(copy)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        '{"schema_version": 1e999}',
        '{"schema_version": [5]}',
        f'{{"schema_version": {FORMAT}}}',
    ],
)
def test_a_damaged_manifest_is_refused(copy, text, raises):
    (copy / MANIFEST).write_text(text)
    with raises(BundleError):
        open_bundle(copy)


CHECKS = {
    "shapes": [[1, 1]],
    "max_relative_difference": 0.0,
    "smape_change": 0.0,
    "batch_sensitivity_relative_difference": 0.0,
    "batch_sensitivity_share_of_sd": 0.0,
}
MEMBER = {
    "weight": 1.0,
    "model": "model.onnx",
    "tokenizer": "t",
    "preprocess": "p",
    "metrics": {"smape": 50.0},
    "verified": CHECKS,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"files": []},
        {"files": {"model.onnx": {"sha256": 1}}},
        {"metrics": {"smape": "low"}},
        {"metrics": {"smape": "50.1"}},
        {"rows": {"train": "5"}},
        {"verified": CHECKS | {"shapes": [[1, 2, 3]]}},
        {"members": [MEMBER, MEMBER]},
        {"currency": "x" * 500_000},
        {"price_unit": "m" * 101},
        {"table": "x" * 1_001},
        {"metric": None},
        {"table": None, "transformers": {"architecture": "A", "target": "log", "mean": 0.0, "std": 0.0}},
        {"metrics": {str(number): 1.0 for number in range(101)}},
        {"plugins": [{"kind": "feature", "name": "x" * 1_001, "package": "p", "version": "1"}]},
        {"training_rows_in": ["x"] * 101},
        {"files": {f"file-{number}": {"sha256": "0", "bytes": 0} for number in range(1_001)}},
    ],
)
def test_a_manifest_with_wrong_types_is_rejected_and_the_error_names_the_value(copy, changes, raises):
    _edit(copy, **changes)
    with raises(BundleError):
        open_bundle(copy)


def test_facts_of_a_later_version_are_ignored(copy):
    _edit(copy, weather="fine")
    assert open_bundle(copy).manifest["weather"] == "fine"


def test_a_graph_with_other_inputs_is_rejected(copy, raises):
    graph = onnx.load(copy / "model.onnx")
    for node in graph.graph.node:
        node.input[:] = ["ids" if name == "input_ids" else name for name in node.input]
    for put in graph.graph.input:
        put.name = "ids" if put.name == "input_ids" else put.name
    _put_graph(copy, graph.SerializeToString())
    with raises(BundleError):
        Predictor.load(copy)


def test_an_altered_manifest_is_refused(copy, raises):
    path = copy / MANIFEST
    table = json.loads(path.read_text("utf-8"))["table"]
    path.write_text(path.read_text("utf-8").replace(f'"table": "{table}"', '"table": "other.csv"'), "utf-8")
    with raises(BundleError):
        open_bundle(copy)


@pytest.mark.parametrize("name", ["sha256", "metric", "constant_score", "currency", "verified"])
def test_a_manifest_without_a_fact_is_refused(copy, name, raises):
    manifest = json.loads((copy / MANIFEST).read_text("utf-8"))
    del manifest[name]
    (copy / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    with raises(BundleError):
        open_bundle(copy)


@pytest.mark.parametrize("name", ["intervals.json", "sketch.json"])
def test_a_bundle_without_a_common_file_is_refused(copy, name, raises):
    files = json.loads((copy / MANIFEST).read_text("utf-8"))["files"]
    del files[name]
    _edit(copy, files=files)
    with raises(BundleError):
        open_bundle(copy)


def test_a_manifest_that_is_too_large_is_not_read(copy, raises):
    with open(copy / MANIFEST, "ab") as file:
        file.truncate(100 << 20)
    with raises(BundleError):
        open_bundle(copy)


def test_the_published_schema_is_that_of_the_code():
    assert Path("docs/bundle.schema.json").read_text("utf-8") == json_schema()


def test_inspect_shows_and_checks_the_files(pricekit, copy):
    code, out, _ = pricekit("bundle", "inspect", copy)
    assert code == 0
    assert "bag of pricekit" in out
    assert "intervals.json" in out
    code, out, _ = pricekit("bundle", "inspect", copy, "--json")
    assert json.loads(out) == json.loads((copy / MANIFEST).read_text())
    odd = copy.rename(copy.with_name("b [v2]["))
    assert "b [v2][: all files match" in " ".join(pricekit("bundle", "inspect", odd)[1].split())
    (odd / "README.md").write_text("mine")
    code, out, err = pricekit("bundle", "inspect", odd)
    assert (code, out) == (1, "")
    assert "README.md was altered" in err


@pytest.mark.parametrize("version", [FORMAT - 1, FORMAT + 1, "5", True])
def test_another_schema_is_refused_with_advice(copy, version, raises):
    _edit(copy, schema_version=version)
    with raises(BundleError):
        open_bundle(copy)


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "a/b", "..", "a\\b", "x" * 300, "a\nb", "\x1b[2J"]
)
def test_paths_outside_of_the_folder_are_rejected(copy, name, raises):
    files = json.loads((copy / MANIFEST).read_text())["files"]
    _edit(copy, files={**files, name: {"sha256": "0", "bytes": 1}})
    with raises(BundleError):
        open_bundle(copy)


FEATURE = {
    "name": "columns",
    "package": "pricekit",
    "version": "1",
    "columns": [],
    "options": {},
    "state": {},
}


@pytest.mark.parametrize(
    "change",
    [
        {"columns": {"text": [], "price": None, "id": None}},
        {"columns": {"text": "abc", "price": None, "id": None}},
        {"columns": {"text": [5], "price": None, "id": None}},
        {"features": None},
        {"features": ["x"]},
        {"features": [{"name": "optimized22", "package": "pricekit", "version": "1"}]},
        {"max_length": -5},
        {"max_length": 0},
        {"pad_id": -1},
        {
            "columns": {
                "text": ["a"],
                "price": None,
                "id": None,
                "formats": {"price": {"currency": "€" * 1_001}},
            }
        },
        {"features": [{**FEATURE, "options": {"columns": "x" * 100_000}}]},
        {"features": [{**FEATURE, "state": None}]},
    ],
)
def test_a_preprocessor_with_invalid_values_is_rejected(bundle, change, raises):
    files = open_bundle(bundle).files
    record = json.loads(files["preprocess.json"])
    changed = {**files, "preprocess.json": json.dumps({**record, **change}).encode()}
    with raises(BundleError) as found:
        load_preprocessor(changed, bundle)
    assert len(str(found.value)) < 1_500


def test_a_file_that_is_not_listed_is_refused(copy, raises):
    files = json.loads((copy / MANIFEST).read_text())["files"]
    files.pop("model.onnx")
    _edit(copy, files=files)
    with raises(BundleError):
        open_bundle(copy)


def test_a_folder_that_is_not_a_bundle(tmp_path, raises):
    with raises(BundleError):
        open_bundle(tmp_path)


@pytest.mark.parametrize("length", [b"\x08", b"\x88\x00", b"\x88\x80\x80\x00"])
def test_files_that_the_manifest_does_not_list_are_never_read(copy, length, raises):
    """The graph cannot load weights from other files either.

    A varint may be padded with zeros, which protobuf reads all the same.
    """
    graph = onnx.load(copy / "model.onnx")
    onnx.save(
        graph, copy / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    content = (copy / "model.onnx").read_bytes()
    assert b"\n\x08location" in content
    _put_graph(copy, content.replace(b"\n\x08location", b"\n" + length + b"location"))
    with raises(BundleError):
        Predictor.load(copy)


def test_a_preprocessor_with_wrong_keys_is_damaged(bundle, raises):
    files = {**open_bundle(bundle).files, "preprocess.json": b"{}"}
    with raises(BundleError):
        load_preprocessor(files, bundle)


def test_a_missing_feature_plugin_is_named_with_the_fix(bundle, raises):
    files = open_bundle(bundle).files
    record = json.loads(files["preprocess.json"])
    record["features"][0] |= {"name": "theirs", "package": "pricekit-theirs", "version": "1.2"}
    with raises(PluginError):
        load_preprocessor({**files, "preprocess.json": json.dumps(record).encode()}, bundle)
