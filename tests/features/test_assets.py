"""Assets of features: their names and limits, and their way from the fit to the bundle."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pricekit as pk
from conftest import TINY
from pricekit.errors import BundleError, PluginError, TrainingError
from pricekit.features.assets import ASSET_BYTES, MOST_ASSETS, assets_in, file_of
from pricekit.features.fit import fit_features
from pricekit.features.fitted import plain_state
from pricekit.predict.bundle import MANIFEST, open_bundle
from pricekit.predict.predictor import Shipped
from pricekit.runs.load import open_predictor
from pricekit.testing import CheckFailed, check_feature
from tests.features.with_assets import LengthByTable, adds_one
from tests.predict.hostile import change, put, write_manifest

PLUGIN = Path(__file__).with_name("with_assets.py")
TEXTS = ["Item Name: Green Tea, 20 Count", "", "x" * 900]


@pytest.fixture(scope="module", autouse=True)
def _plugin(_own_plugins):
    pk.use_plugins(PLUGIN)


def train(catalog, out, *features, **settings):
    training = TINY["training"] | settings
    return pk.train(catalog, out=out, settings=TINY | {"features": list(features), "training": training})


@pytest.fixture(scope="module")
def run(catalog, tmp_path_factory):
    return train(catalog, tmp_path_factory.mktemp("assets") / "run", "optimized22", "by-table")


@pytest.fixture(scope="module")
def bundle(run):
    out = run.path.parent / "bundle"
    run.export(out)
    return out


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle, tmp_path / "copy")


def assert_same_prices(one, other):
    assert pk.load(one).predict(TEXTS) == pytest.approx(pk.load(other).predict(TEXTS), rel=1e-4)


def graph_of(folder):
    return next(name for name in assets_in(folder) if name.endswith(".onnx"))


@pytest.mark.parametrize("check", check_feature(LengthByTable), ids=str)
def test_a_feature_with_assets_passes_the_checks(check):
    check()


def test_a_run_and_its_bundle_contain_the_assets(run, bundle):
    content = adds_one()
    assert file_of("adds-one.onnx", content) in assets_in(run.path)
    assert assets_in(run.path) == assets_in(bundle)
    assert len(assets_in(bundle)) == 2
    assert (bundle / graph_of(bundle)).read_bytes() == content
    record = json.loads((bundle / "preprocess.json").read_text())["features"][1]
    assert record["state"] == {"rows": LengthByTable.rows}
    assert record["assets"]["adds-one.onnx"] == graph_of(bundle)
    manifest = open_bundle(bundle).manifest
    assert set(assets_in(bundle)) < set(manifest["files"])
    assert_same_prices(run.path, bundle)


def test_a_model_without_assets_has_no_files_of_assets(catalog, tmp_path):
    run = train(catalog, tmp_path / "run", "optimized22")
    run.export(tmp_path / "bundle")
    assert not assets_in(tmp_path / "bundle")
    (record,) = json.loads((tmp_path / "run" / "preprocess.json").read_text())["features"]
    assert "assets" not in record
    assert not assets_in(tmp_path / "run")


def test_a_second_pass_replaces_the_assets_of_the_first(catalog, tmp_path):
    run = train(catalog, tmp_path / "run", "by-table", "by-price", refit=True)
    (lengths,) = (name for name in assets_in(run.path) if name.endswith(".bin"))
    assert np.frombuffer((run.path / lengths).read_bytes(), "<f4")[0] == -400  # of all rows
    run.export(tmp_path / "bundle")
    assert_same_prices(run.path, tmp_path / "bundle")


def test_a_run_with_assets_is_overwritten_and_continued(catalog, run, tmp_path):
    again = shutil.copytree(run.path, tmp_path / "run")
    (again / file_of("old.bin", b"stale")).write_bytes(b"stale")
    pk.train(catalog, out=again, overwrite=True, settings=TINY | {"features": ["by-table"]})
    assert len(assets_in(again)) == 2
    rows = pk.make_catalog(60, seed=8).assign(sample_id=lambda found: found.sample_id + 1000)
    more = pk.train(rows, out=tmp_path / "more", init=again, settings={"training": {"epochs": 1}})
    assert assets_in(tmp_path / "more") == assets_in(again)
    assert len(pk.load(more.path).predict(TEXTS)) == 3


def test_members_of_an_ensemble_share_equal_assets(catalog, tmp_path):
    runs = [
        train(catalog, tmp_path / str(number), "by-table", "by-price", learning_rate=rate)
        for number, rate in enumerate((0.01, 0.02))
    ]
    pk.ensemble(runs, out=tmp_path / "ensemble").export(tmp_path / "bundle")
    graphs = [name for name in assets_in(tmp_path / "bundle") if name.endswith(".onnx")]
    assert graphs == [file_of("adds-one.onnx", adds_one())]
    assert_same_prices(tmp_path / "ensemble", tmp_path / "bundle")


def test_a_bundle_that_travels_by_value_has_its_assets(bundle, tmp_path):
    moved = shutil.copytree(bundle, tmp_path / "moved")
    predictor = open_predictor(moved)
    expected = predictor.predict(TEXTS)
    shipped = Shipped.of(predictor)
    shutil.rmtree(moved)
    assert shipped().predict(TEXTS) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("harm", ["altered", "missing"])
def test_a_harmed_asset_is_refused_and_named(run, bundle, tmp_path, harm, raises):
    for folder in (run.path, bundle):
        copied = shutil.copytree(folder, tmp_path / folder.name)
        file = copied / graph_of(folder)
        content = bytearray(file.read_bytes())
        content[9] ^= 1
        file.write_bytes(content)
        if harm == "missing":
            file.unlink()
        with raises((TrainingError, BundleError)):
            pk.load(copied).predict(TEXTS)


def test_a_graph_in_an_asset_passes_the_checks_of_the_bundles_own_graph(copy, raises):
    name = graph_of(copy)
    put(copy, name, adds_one().replace(b"Add", b"If_"))
    with raises(BundleError, operators=["If_"]):
        open_bundle(copy)


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("adds-one.onnx", "asset-" + "0" * 64 + ".bin"),  # would not be checked as a graph
        ("adds-one.onnx", "model.onnx"),
        ("adds-one.onnx", "../asset-" + "0" * 64 + ".onnx"),
        ("../adds-one.onnx", "asset-" + "0" * 64 + ".onnx"),
    ],
)
def test_a_bundle_cannot_name_other_files_as_assets(copy, key, file, raises):
    if "/" not in file and file != "model.onnx":
        put(copy, file, b"0")
    change(copy, "preprocess.json", lambda record: record["features"][1].update(assets={key: file}))
    with raises(BundleError):
        pk.load(copy).predict(TEXTS)


def test_too_many_assets_are_refused_before_they_are_read(copy, raises):
    manifest = json.loads((copy / MANIFEST).read_text())
    facts = manifest["files"][graph_of(copy)]
    manifest["files"] |= {f"asset-{n:064x}.bin": facts for n in range(70)}
    write_manifest(copy, manifest)
    with raises(BundleError, found=72):
        open_bundle(copy)


def test_an_asset_whose_graph_no_bundle_may_contain_is_refused_before_the_training(catalog, tmp_path, raises):
    with raises(TrainingError):
        train(catalog, tmp_path / "run", "foreign")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "state",
    [
        {"../a": b""},
        {"a.ONNX": b""},
        {"": b""},
        {f"a{n}": b"" for n in range(MOST_ASSETS + 1)},
        {"inner": {"a": b""}},
    ],
)
def test_assets_with_other_names_are_the_features_fault(state, raises):
    with raises(PluginError):
        plain_state("f", state)
    plugin = type("F", (LengthByTable,), {"fit": lambda self, table: state})
    (check,) = (check for check in check_feature(plugin) if str(check) == "state is JSON")
    with pytest.raises(CheckFailed):
        check()


def test_an_asset_that_is_too_large_is_refused(raises):
    class Huge(bytes):
        def __len__(self):
            return ASSET_BYTES + 1

    with raises(PluginError):
        plain_state("f", {"a": Huge(b"")})


def test_a_fit_with_assets_is_not_cached(tmp_path):
    """An asset usually comes from a file, which may have changed."""
    table = pk.read_table(pk.make_catalog(60))
    price = np.asarray(table.price)
    first, second = (
        fit_features(["by-price"], {}, replace(table, price=price), cache=tmp_path)[0] for _ in range(2)
    )
    assert list(tmp_path.iterdir()) == []
    assert first.to_json() == second.to_json()
    assert first.assets() == second.assets() != {}
