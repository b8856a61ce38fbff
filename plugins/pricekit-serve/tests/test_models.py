"""Bundles are replaced while requests go on, and a damaged one is refused."""

import asyncio
import gc
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pricekit_serve import Limits, app
from pricekit_serve.application import _watch
from pricekit_serve.metrics import Metrics
from pricekit_serve.models import Models, file_states, named
from pricekit_serve.rows import Rows
from starlette.testclient import TestClient

import pricekit as pk
from conftest import TINY
from pricekit.plugin import BundleError, ConfigError
from pricekit.plugin.runners import Predictor
from tests.predict.hostile import change, write_manifest

ROWS = {"rows": [{"catalog_content": "Green Tea, 20 Count"}]}


@pytest.fixture
def link(served, bundle, tmp_path):
    """A link to a bundle, which can be made to point elsewhere in one step."""

    def point(target):
        new = tmp_path / "new"
        new.symlink_to(target)
        new.replace(tmp_path / "current")

    point(bundle)
    return tmp_path / "current", point


def models_of(path):
    return Models({"m": path}, "ort-cpu", Limits(), Metrics())


def test_a_new_bundle_replaces_the_old_one_and_the_old_one_ends(link, served, bundle, logged):
    path, point = link
    models = models_of(path)
    old = models.get("m")
    waiting = old.queue.price(Rows({"catalog_content": ["tea"] * 999}))
    point(served)
    models.reload()
    new = models.get("m")
    assert (new is not old, new.version != old.version) == (True, True)
    assert f"the model m is now {new.version}; it was {old.version}" in logged()
    assert len(waiting.result(20)) == 999  # the old model ends what it has begun
    threads = threading.active_count()
    del old
    gc.collect()
    for _ in range(100):
        if threading.active_count() < threads:
            break
        time.sleep(0.05)
    assert threading.active_count() < threads


def test_a_model_that_reads_numbers_is_opened_without_a_warning(tmp_path, caplog):
    table = pk.make_catalog(200).rename(columns={"catalog_content": "title"})
    table = table.assign(weight=[f"{number % 9 + 1}.5" for number in range(200)])
    run = pk.train(table, text=["title", "weight"], id="sample_id", config=TINY)
    run.export(tmp_path / "numbers")
    caplog.clear()
    models_of(tmp_path / "numbers")
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


def test_the_same_bundle_is_not_opened_again(link):
    path, _ = link
    models = models_of(path)
    old = models.get("m")
    models.reload()
    assert models.get("m") is old


@pytest.mark.parametrize("damage", ["changed", "missing", "gone"])
def test_a_damaged_bundle_is_refused_and_the_old_one_answers(served, bundle, tmp_path, damage, caplog):
    path = tmp_path / "bundle"
    shutil.copytree(bundle, path)
    with TestClient(app(path, engine="ort-cpu")) as client:
        before = client.post("/predict", json=ROWS).json()
        shutil.rmtree(path)
        if damage != "gone":
            shutil.copytree(served, path)
            (path / "tokenizer.json").write_text("{}") if damage == "changed" else (
                path / "model.onnx"
            ).unlink()
        client.app.state.models.reload()
        assert client.post("/predict", json=ROWS).json() == before
        assert 'pricekit_reloads_total{model="bundle",result="refused"} 1.0' in client.get("/metrics").text
        assert client.get("/v2/health/ready").status_code == 200
    said = [record.getMessage() for record in caplog.records if "is refused" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("the model bundle stays, because its new bundle is refused: ")


def test_requests_during_reloads_all_succeed(link, served, bundle):
    path, point = link
    with TestClient(app(path, engine="ort-cpu")) as client, ThreadPoolExecutor(4) as pool:
        models = client.app.state.models
        going = True

        def ask():
            found = set()
            while going:
                answer = client.post("/predict", json=ROWS)
                assert answer.status_code == 200
                found.add((answer.json()["version"], answer.json()["rows"][0]["price"]))
            return found

        asking = [pool.submit(ask) for _ in range(3)]
        for target in (served, bundle, served):
            point(target)
            models.reload()
            time.sleep(0.05)
        going = False
        found = set().union(*(each.result(60) for each in asking))
    assert len({version for version, _ in found}) == 2
    for version in {version for version, _ in found}:
        prices = [price for own, price in found if own == version]
        assert max(prices) == pytest.approx(min(prices), rel=1e-6)


def test_a_watched_bundle_is_replaced_once_it_no_longer_changes(served, bundle, tmp_path):
    path = tmp_path / "bundle"
    shutil.copytree(bundle, path)
    with TestClient(app(path, engine="ort-cpu", watch=0.05)) as client:
        before = client.get("/models").json()["models"][0]["version"]
        shutil.rmtree(path)
        path.mkdir()
        for file in sorted(served.iterdir()):  # slowly, the manifest in the middle
            shutil.copy(file, path)
            time.sleep(0.02)
        for _ in range(200):
            if (after := client.get("/models").json()["models"][0]["version"]) != before:
                break
            time.sleep(0.05)
    assert after != before


def _upload(memory, bundle):
    for file in sorted(bundle.iterdir()):
        memory.pipe(f"/shop/bundle/{file.name}", file.read_bytes())


def test_a_watched_bundle_at_an_address_is_replaced(served, bundle, memory):
    _upload(memory, bundle)
    with TestClient(app("memory://shop/bundle", engine="ort-cpu", watch=0.05)) as client:
        before = client.get("/models").json()["models"][0]["version"]
        memory.rm("/shop/bundle", recursive=True)
        _upload(memory, served)
        for _ in range(200):
            if (after := client.get("/models").json()["models"][0]["version"]) != before:
                break
            time.sleep(0.05)
    assert after != before


def test_an_address_that_cannot_be_listed_is_no_new_bundle(bundle, memory, logged):
    _upload(memory, bundle)
    models = models_of("memory://shop/bundle")
    assert models.changed() == {}
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(type(memory), "find", _refused)
        assert (models.changed(), models.changed()) == ({}, {})
        assert (
            logged().count("cannot see whether the bundle of the model m was replaced: memory://shop/bundle")
            == 1
        )
        models.reload()
    assert list(models.changed()) == ["m"]
    models.reload()
    assert models.changed() == {}
    memory.rm("/shop/bundle", recursive=True)
    assert models.changed() == {"m": ()}


def _refused(*arguments, **options):
    raise PermissionError("no")


def test_a_bundle_that_is_still_being_written_is_left_alone():
    """What two looks in a row show is reloaded, once."""
    looks = [{}, {"a": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 2}, {"b": 3}, {"b": 3}, {}]
    reloaded = []

    class Fake:
        def changed(self):
            if not looks:
                raise asyncio.CancelledError
            return looks.pop(0)

        def reload(self, names):
            reloaded.append((names, len(looks)))

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_watch(Fake(), 0.001))
    assert reloaded == [(["a"], 3), (["b"], 1)]


def test_an_unexpected_error_of_a_new_bundle_is_refused_too(link, served, monkeypatch, logged):
    path, point = link
    models = models_of(path)
    old = models.get("m")
    point(served)

    def fail(reader, engine):
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(Predictor, "from_bundle", fail)
    models.reload()
    assert models.get("m") is old
    assert "is refused: ZeroDivisionError: odd" in logged()


def test_a_refused_bundle_is_tried_again_only_when_it_changes(served, bundle, tmp_path):
    path = tmp_path / "bundle"
    shutil.copytree(bundle, path)
    models = models_of(path)
    assert models.changed() == {}
    (path / "tokenizer.json").write_text("{}")
    assert list(models.changed()) == ["m"]
    models.reload()
    assert models.changed() == {}
    (path / "tokenizer.json").write_text("{ }")
    assert list(models.changed()) == ["m"]
    assert file_states(tmp_path / "nothing") == ()


def test_unusable_bundles_and_names_are_errors_at_the_start(served, tmp_path, raises):
    with pytest.raises(BundleError):
        app(tmp_path)
    with raises(ConfigError, "bundles"):
        app({})
    for name in ("", "a/b", "-a", "a b", "..", "a" * 101):
        with raises(ConfigError, "bundles"):
            app({name: served})
    assert list(named(served)) == ["shop"]
    assert list(named("s3://models/tea/")) == ["tea"]
    assert list(named(tmp_path / "my models")) == ["model"]
    with raises(ConfigError, "batch_rows"):
        Limits(batch_rows=0)
    with raises(ConfigError, "queue_rows", "max_rows"):
        Limits(queue_rows=10)


@pytest.fixture
def wrong(bundle, tmp_path):
    """A bundle whose self-test expects other prices."""
    path = shutil.copytree(bundle, tmp_path / "wrong")
    change(path, "self_test.json", lambda test: test["prices"].__setitem__(2, 1.01 * test["prices"][2]))
    return path


def test_a_bundle_that_fails_its_self_test_does_not_start(wrong, raises):
    with raises(BundleError, engine="ort-cpu", row=2):
        app(wrong, engine="ort-cpu")


def test_a_new_bundle_that_fails_its_self_test_is_refused_once(link, wrong, caplog):
    path, point = link
    caplog.set_level("INFO", "pricekit")
    models = models_of(path)
    old = models.get("m")
    point(wrong)
    models.reload()
    assert models.get("m") is old
    said = [record.getMessage() for record in caplog.records if "self-test" in record.getMessage()]
    assert len(said) == 2
    assert said[0].startswith("the model m passes its self-test in the engine ort-cpu: 11 prices differ by ")
    assert said[1].startswith("the model m stays, because its new bundle is refused: the self-test of ")


def test_a_bundle_without_a_self_test_is_served_and_the_log_says_so(served, tmp_path, logged):
    bundle = shutil.copytree(served, tmp_path / "copy")
    manifest = json.loads((bundle / "manifest.json").read_text("utf-8"))
    del manifest["files"]["self_test.json"]
    write_manifest(bundle, manifest)
    models = models_of(bundle)
    assert models.get("m").predictor.invented is None
    assert "the bundle of the model m has no self-test, so nothing checks its prices" in logged()
