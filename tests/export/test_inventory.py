import hashlib
import json
import shutil
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from pricekit import ensemble
from pricekit.core.contracts import Backbone, WeightsSource
from pricekit.core.loader import registry
from pricekit.export.export import export_run
from pricekit.export.inventory import INVENTORY, make_inventory, weights_of
from pricekit.predict.bundle import open_bundle

FACTS = {"plugins": [], "precision": "fp32", "created": "2026-01-02T03:04:05+00:00"}


@pytest.fixture(scope="module")
def inventory(bundle):
    return json.loads((bundle / INVENTORY).read_text())


def parts(inventory, kind):
    return {part["name"]: part for part in inventory["components"] if part["type"] == kind}


def licences(part):
    return [found.get("expression") or next(iter(found["license"].values())) for found in part["licenses"]]


def run_with(name, **options):
    backbone = SimpleNamespace(name=name, options=options)
    return SimpleNamespace(config=SimpleNamespace(backbone=backbone))


def test_the_inventory_fits_the_schema_of_cyclonedx(bundle):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str((bundle / INVENTORY).read_text()) is None


def test_it_lists_every_other_file_with_its_hash(bundle, inventory):
    files = parts(inventory, "file")
    assert set(files) == set(open_bundle(bundle).files) - {INVENTORY}
    for name, part in files.items():
        digest = hashlib.sha256((bundle / name).read_bytes()).hexdigest()
        assert part["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_it_lists_what_a_prediction_needs_and_nothing_that_only_training_needs(inventory):
    libraries = parts(inventory, "library")
    assert {"pricekit", "onnxruntime", "numpy", "tokenizers", "pyarrow", "python-dateutil"} <= set(libraries)
    assert not {"torch", "transformers", "scikit-learn", "cyclonedx-python-lib"} & set(libraries)
    assert libraries["tokenizers"]["version"] == version("tokenizers")
    assert libraries["tokenizers"]["purl"] == f"pkg:pypi/tokenizers@{version('tokenizers')}"
    assert licences(libraries["pricekit"]) == ["MIT"]
    assert "BSD-3-Clause" in licences(libraries["pandas"])[0] or "BSD" in licences(libraries["pandas"])[0]


def test_a_model_from_scratch_has_no_pretrained_weights(inventory):
    assert parts(inventory, "machine-learning-model") == {}
    assert inventory["metadata"]["component"]["name"] == "bag price model"


@pytest.mark.parametrize(
    ("backbone", "options", "source", "licence"),
    [
        ("deberta-v3-base", {}, "microsoft/deberta-v3-base", "MIT"),
        ("distilroberta", {}, "distilbert/distilroberta-base", "Apache-2.0"),
        ("roberta-base", {"weights": "shop/my-roberta"}, "shop/my-roberta", "unknown"),
        ("roberta-base", {"weights": "/home/me/secret/weights"}, "a local folder", "unknown"),
        ("roberta-base", {"weights": "../weights"}, "a local folder", "unknown"),
        ("transformer", {"weights": "prajjwal1/bert-tiny"}, "prajjwal1/bert-tiny", "unknown"),
    ],
)
def test_pretrained_weights_have_their_source_and_licence_or_say_unknown(backbone, options, source, licence):
    text = make_inventory({}, FACTS, weights_of([run_with(backbone, **options), run_with("bag")])).decode()
    components = parts(json.loads(text), "machine-learning-model")
    assert list(components) == [source]
    assert licences(components[source]) == [licence]
    assert "secret" not in text
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_random_weights_have_no_source():
    for run in (run_with("roberta-base", random_weights=True), run_with("lstm"), run_with("mlp")):
        assert parts(json.loads(make_inventory({}, FACTS, weights_of([run]))), "machine-learning-model") == {}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Backbone(), ("weights of the backbone foreign", "unknown")),
        (
            SimpleNamespace(weights_source=WeightsSource("a place", "odd licence of ours")),
            ("a place", "odd licence of ours"),
        ),
    ],
)
def test_a_backbone_of_a_package_may_state_its_source(monkeypatch, made, expected):
    monkeypatch.setattr(registry(), "create", lambda *_: made)
    components = parts(
        json.loads(make_inventory({}, FACTS, weights_of([run_with("foreign")]))), "machine-learning-model"
    )
    name, licence = expected
    assert licences(components[name]) == [licence]


def test_the_package_of_a_feature_is_part_of_it_with_what_it_needs():
    feature = {"kind": "feature", "name": "odd", "package": "scikit-learn", "version": "1"}
    loss = {"kind": "loss", "name": "other", "package": "torch", "version": "1"}
    facts = {**FACTS, "plugins": [feature, loss, {**feature, "package": "features.py"}]}
    libraries = parts(json.loads(make_inventory({}, facts, [])), "library")
    assert {"scikit-learn", "scipy", "joblib"} <= set(libraries)
    assert not {"torch", "features.py"} & set(libraries)


def test_equal_bundles_have_equal_inventories():
    one = make_inventory({"a": b"1"}, FACTS, weights_of([run_with("bag")]))
    assert one == make_inventory({"a": b"1"}, FACTS, weights_of([run_with("bag")]))
    assert one != make_inventory({"a": b"2"}, FACTS, weights_of([run_with("bag")]))


def test_an_ensemble_has_one(run, tmp_path):
    ensemble([run, shutil.copytree(run, tmp_path / "copy")], out=tmp_path / "both")
    export_run(tmp_path / "both", tmp_path / "bundle")
    inventory = json.loads((tmp_path / "bundle" / INVENTORY).read_text())
    assert {"0-model.onnx", "1-model.onnx"} <= set(parts(inventory, "file"))
