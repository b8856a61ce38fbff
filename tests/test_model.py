"""What users hold: kinds of models, when they are opened, what each kind cannot do, pickling, temporary folders."""

import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pricekit as pk
from pricekit.errors import BundleError, ConfigError, DataError, ExportError, TrainingError
from pricekit.io.record import Record, write_record

TEXTS = ["Item Name: Green Tea, 20 Count", "Item Name: Black Tea, 100 Count"]
TINY = {
    "epochs": 1,
    "max_length": 32,
    "refit": False,
    "features": "fast15",
    "settings": {"backbone.vocab_size": 500, "backbone.buckets": 64, "backbone.width": 4},
}


@pytest.fixture(scope="module")
def both(run) -> pk.Model:
    other = pk.train(pk.make_catalog(400), **TINY)
    third = pk.train(pk.make_catalog(400), loss="log-l1", **TINY)
    return pk.ensemble([other, third])


def test_a_run_an_ensemble_and_a_bundle_are_one_kind_of_object(run, both, bundle):
    for path in (run, both.path, bundle):
        model = pk.load(path)
        assert isinstance(model, pk.Model)
        assert model.path == path
        assert os.fspath(model) == str(path)
        assert model.predict(TEXTS).dtype == np.float32
        assert model.metrics["smape"] > 0
        assert model.columns.text == ("catalog_content",)
        assert len(model.digest) == 64
        assert model.predict(TEXTS, interval=0.5).columns[0] == "price"
        assert len(model.features(TEXTS)) == 2


def test_a_model_keeps_what_load_was_told(bundle):
    model = pk.load(bundle, "ort-cpu")
    assert model.engine == "ort-cpu"
    assert pk.load(model) is model
    assert pk.load(model, "ort-cpu") is not model
    assert pk.load(model.path).path == bundle


def test_members_are_those_of_an_ensemble(run, both, bundle):
    assert sum(member["weight"] for member in both.members) == pytest.approx(1)
    assert pk.load(run).members == pk.load(bundle).members == []


def test_names_of_features_of_an_ensemble_begin_with_the_member(run, both):
    single, several = pk.load(run).features(TEXTS), both.features(TEXTS)
    assert len(several.columns) == 1 + 15 * len(both.members)
    assert several.columns[1].startswith("0:")
    assert not any(":" in name for name in single.columns)
    assert (several["0:text_length"] == several["1:text_length"]).all()


def test_a_model_is_opened_when_it_is_first_used(bundle, tmp_path):
    model = pk.load(shutil.copytree(bundle, tmp_path / "bundle"))
    graph = tmp_path / "bundle" / "model.onnx"
    whole = graph.read_bytes()
    graph.write_bytes(whole[:-1])
    assert "bundle" in repr(model)
    with pytest.raises(BundleError):
        model.predict(TEXTS)
    graph.write_bytes(whole)
    assert len(model.predict(TEXTS)) == 2


def test_a_bundle_that_is_replaced_before_its_first_use_is_loaded_again(bundle, tmp_path, raises):
    place = shutil.copytree(bundle, tmp_path / "bundle")
    model = pk.load(place, "ort-cpu")
    pk.train(pk.make_catalog(200, seed=5), **TINY).export(place, overwrite=True)
    with raises(BundleError):
        model.predict(TEXTS)
    assert len(pk.load(place, "ort-cpu").predict(TEXTS)) == 2


def test_a_bundle_is_loaded_without_torch_and_without_its_engine(bundle):
    code = (
        "import sys, pricekit; model = pricekit.load(sys.argv[1]); model.metrics, model.columns, repr(model);"
        "assert not {'torch', 'onnxruntime'} & set(sys.modules), 'opened'"
    )
    subprocess.run([sys.executable, "-c", code, bundle], check=True)


def test_a_model_does_not_change(run):
    model = pk.load(run)
    assert copy.copy(model) is model
    assert copy.deepcopy([model])[0] is model
    for name in ("path", "engine", "metrics", "other"):
        with pytest.raises(AttributeError):
            setattr(model, name, None)


@pytest.mark.parametrize("kind", ["run", "bundle"])
def test_a_pickled_model_gives_the_same_prices(kind, request):
    model = pk.load(request.getfixturevalue(kind))
    other = pickle.loads(pickle.dumps(model))
    assert isinstance(other, pk.Model)
    assert (other.path, other.digest, other.engine) == (model.path.absolute(), model.digest, model.engine)
    assert np.array_equal(other.predict(TEXTS), model.predict(TEXTS))
    assert other.metrics == model.metrics


def test_a_model_that_has_changed_is_not_unpickled(bundle, tmp_path):
    place = shutil.copytree(bundle, tmp_path / "bundle")
    sent = pickle.dumps(pk.load(place, "ort-cpu"))
    pk.train(pk.make_catalog(200, seed=5), **TINY).export(place, overwrite=True)
    with pytest.raises(BundleError, match="has changed since it was pickled"):
        pickle.loads(sent)


def test_what_a_bundle_cannot_do_says_what_can(bundle, tmp_path, raises):
    model = pk.load(bundle)
    with raises(DataError):
        _ = model.held_out
    with raises(DataError):
        model.evaluate()
    with raises(ConfigError):
        _ = model.settings
    with raises(ExportError, "run"):
        model.export(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_what_a_run_and_an_ensemble_cannot_do_says_what_can(run, both, raises):
    with raises(BundleError):
        pk.load(run).self_test()
    with raises(ConfigError, "among"):
        pk.load(run).comparables(TEXTS)
    with raises(ConfigError, "engine"):
        pk.load(run, "ort-cpu")
    assert pk.load(run).settings.metric == "smape"
    with pytest.raises(ConfigError, match="its members do"):
        _ = both.settings


def test_texts_have_no_options_for_reading_a_table(bundle, raises):
    model = pk.load(bundle, "ort-cpu")
    for ask in (model.explain, model.comparables, model.features, model.drift):
        with raises(ConfigError, "text"):
            ask(TEXTS, text="title")


def test_a_folder_without_a_model_is_refused_at_once(tmp_path, raises):
    with raises(BundleError):
        pk.load(tmp_path)
    with raises(BundleError):
        pk.load(tmp_path / "absent")


def test_an_unfinished_run_is_refused_at_once(run, tmp_path, raises):
    place = shutil.copytree(run, tmp_path / "run")
    write_record(place, Record("run", "unfinished"))
    with raises(TrainingError, "resume"):
        pk.load(place)


def test_load_returns_cross_validations_and_searches(tmp_path):
    table = pk.make_catalog(200)
    cv = pk.cross_validate(table, out=tmp_path / "cv", folds=2, **TINY)
    loaded = pk.load(tmp_path / "cv")
    assert isinstance(loaded, pk.CrossValidation)
    assert loaded.metrics == cv.metrics
    assert loaded.scores.rows == loaded.evaluate().rows == 200
    assert [model.path.name for model in loaded.runs] == ["fold-0", "fold-1"]
    with pytest.raises(BundleError, match="one model per fold"):
        pk.Model(tmp_path / "cv")
    pk.tune(table, out=tmp_path / "tuned", trials=1, folds=2, **TINY)
    tuning = pk.load(tmp_path / "tuned")
    assert isinstance(tuning, pk.Tuning)
    assert pk.compare(tuning, tuning.model).rows == len(tuning.model.held_out)
    with pytest.raises(BundleError, match="a search"):
        pk.Model(tmp_path / "tuned")


def test_load_keeps_the_folder_of_a_temporary_model():
    model = pk.load(pk.train(pk.make_catalog(100), **TINY), "auto")
    gc.collect()
    assert len(model.predict(TEXTS)) == 2
    folder = model.path
    del model
    gc.collect()
    assert not folder.exists()


def test_representations_are_short(run, bundle):
    for path, words in ((run, "run, smape="), (bundle, "bundle, smape=")):
        model = pk.load(path)
        assert repr(model).startswith(f"Model('{path}', {words}")
        assert len(repr(model)) < 200 + len(str(path))
        assert "<table>" in model._repr_html_()
    model = pk.load(bundle, "ort-cpu")
    model.predict(TEXTS)
    assert repr(model).endswith("engine='ort-cpu')")
