"""Sketches of what a server has priced, and the counters of drift."""

import itertools
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from pricekit_serve import Limits, app
from pricekit_serve import application as module
from pricekit_serve import sketches as sketches_module
from pricekit_serve.metrics import Metrics
from pricekit_serve.models import Models
from pricekit_serve.rows import Rows
from pricekit_serve.sketches import Recorder, Sketches
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import pricekit as pk
from pricekit.plugin import ConfigError, DataError
from pricekit.plugin.runners import BusyError, PricedRows


def _drift(client):
    """Return the counters of drift of the only model."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    start, end = "pricekit_drift_", "_total"
    return {
        each.name.removeprefix(start).removesuffix(end): each.value
        for each in samples
        if each.name.startswith(start) and each.name.endswith(end)
    }


def _priced(file):
    return PricedRows.model_validate_json(file.read_text())


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "new" / "sketches"


def test_a_sketch_says_what_a_table_says(served, folder, rows, catalog):
    with TestClient(app(served, engine="ort-cpu", sketches=folder)) as client:
        for start in range(0, 400, 100):
            assert client.post("/predict", json={"rows": rows(400)[start : start + 100]}).status_code == 200
        version = client.get("/models").json()["models"][0]["version"]
    file = folder / f"shop-{version}.json"
    assert list(folder.iterdir()) == [file]
    model = pk.load(served, engine="ort-cpu")
    found, table = model.drift(file), model.drift(pd.read_csv(catalog))
    assert found.rows == 400
    pd.testing.assert_frame_equal(found.features, table.features)
    pd.testing.assert_frame_equal(found.words, table.words)


def test_counters_tell_what_training_rows_hardly_had(served, folder, rows, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.02)
    with TestClient(app(served, engine="ort-cpu", sketches=folder)) as client:
        client.post("/predict", json={"rows": rows(100)})
        odd = "Item Name: Zyx\nUnit: bushel\nProduct Description: " + "quux " * 3000
        client.post("/predict", json={"rows": [{"catalog_content": odd}] * 50})
        for _ in range(400):
            if (found := _drift(client)).get("rows") == 150:
                break
            time.sleep(0.02)
    assert 50 <= found["outside_rows"] <= 80
    assert found["unseen_values"] >= 50
    assert found["missing_cells"] > 50
    assert 50 <= found["unknown_words"] < found["words"]


def test_without_sketches_nothing_is_counted(client, rows):
    client.post("/predict", json={"rows": rows(3)})
    assert _drift(client) == {}


def test_a_replaced_model_writes_its_own_sketch(served, bundle, folder, tmp_path, rows):
    path = tmp_path / "shop"
    shutil.copytree(bundle, path)
    with TestClient(app(path, engine="ort-cpu", sketches=folder)) as client:
        client.post("/predict", json={"rows": rows(3)})
        shutil.rmtree(path)
        shutil.copytree(served, path)
        client.app.state.models.reload()
        client.post("/predict", json={"rows": rows(2)})
    for _ in range(400):  # the thread of the old model writes it
        if len(files := [*folder.glob("shop-*.json")]) == 2:
            break
        time.sleep(0.02)
    assert sorted(_priced(file).rows for file in files) == [2, 3]


def test_a_model_that_ends_writes_for_the_last_time(served, folder, monkeypatch):
    finished = threading.Event()
    monkeypatch.setattr(Recorder, "finish", lambda self: finished.set())
    metrics = Metrics()
    models = Models({"shop": served}, "ort-cpu", Limits(), metrics, Sketches(folder, metrics))
    models.get("shop").queue.close()
    assert finished.wait(60)


def _recorder(predictor, file):
    return Recorder(file, "shop", predictor, Metrics())


def test_of_many_rows_some_are_drawn(predictor, tmp_path, texts, monkeypatch):
    monkeypatch.setattr(sketches_module, "MOST_ROWS", 20)
    recorder = _recorder(predictor, tmp_path / "s.json")
    for start in (0, 200):
        some = texts[start : start + 200]
        recorder.add(Rows({"catalog_content": some}), np.ones(200, np.float32))
    recorder.write()
    found = _priced(tmp_path / "s.json")
    assert (found.rows, found.counts.rows) == (400, 20)
    recorder.write()
    assert _priced(tmp_path / "s.json") == found


def test_rows_with_other_columns_are_counted_apart(predictor, tmp_path):
    recorder = _recorder(predictor, tmp_path / "s.json")
    recorder.add(Rows({"catalog_content": ["tea", "lamp"]}), np.ones(2, np.float32))
    recorder.add(Rows({"catalog_content": ["tea"], "unit": ["g"]}), np.ones(1, np.float32))
    recorder.write()
    assert _priced(tmp_path / "s.json").counts.rows == 3


def test_a_failure_is_logged_once_and_loses_nothing(predictor, tmp_path, logged):
    file = tmp_path / "s.json"
    recorder = _recorder(predictor, file)
    file.mkdir()
    for _ in range(3):
        recorder.add(Rows({"catalog_content": ["tea"]}), np.ones(1, np.float32))
        recorder.write()
    assert logged().count("the sketch of the model shop is kept in memory: ") == 1
    file.rmdir()
    recorder.write()
    assert _priced(file).rows == 3


def _tea(recorder, rows=1):
    recorder.add(Rows({"catalog_content": rows * ["tea"]}), np.ones(rows, np.float32))


def test_an_unexpected_error_loses_no_row_and_is_logged_once(predictor, tmp_path, logged, monkeypatch):
    file = tmp_path / "s.json"
    recorder = _recorder(predictor, file)
    monkeypatch.setattr(sketches_module, "MOST_ROWS", 20)

    def fail(self, *arguments):
        _tea(self)  # a row that comes while others are counted
        raise ZeroDivisionError("odd")

    with monkeypatch.context() as broken:
        broken.setattr(Recorder, "_counts_of", fail)
        for _ in range(3):
            _tea(recorder, 15)
            recorder.write()
    said = "the sketch of the model shop is kept in memory: ZeroDivisionError: odd"
    found = logged()
    assert found.count("the sketch of the model shop") == found.count(said) == 1
    recorder.write()
    found = _priced(file)
    assert (found.rows, found.counts.rows) == (48, 20)


def test_rows_of_a_part_that_fails_are_not_counted_twice(predictor, tmp_path, monkeypatch):
    recorder = _recorder(predictor, tmp_path / "s.json")
    _tea(recorder, 2)
    recorder.add(Rows({"catalog_content": ["tea"], "unit": ["g"]}), np.ones(1, np.float32))
    own = Recorder._counts_of

    def fail(self, rows, prices):
        if "unit" in rows.cells:
            raise ZeroDivisionError("odd")
        return own(self, rows, prices)

    with monkeypatch.context() as broken:
        broken.setattr(Recorder, "_counts_of", fail)
        recorder.write()
    recorder.write()
    found = _priced(tmp_path / "s.json")
    assert (found.rows, found.counts.rows) == (3, 3)


def test_any_number_of_words_is_counted(served, folder):
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = ["".join(each) for each in itertools.islice(itertools.product(letters, repeat=4), 12_000)]
    rows = [{"catalog_content": " ".join(names[start : start + 40])} for start in range(0, 12_000, 40)]
    with TestClient(app(served, engine="ort-cpu", sketches=folder)) as client:
        assert client.post("/predict", json={"rows": rows}).status_code == 200
    (file,) = folder.iterdir()
    assert _priced(file).rows == 300


def test_new_values_are_counted_however_many_they_are(predictor, tmp_path):
    """A sketch names at most 1,000 new ones of a field."""
    metrics = Metrics()
    recorder = Recorder(tmp_path / "s.json", "shop", predictor, metrics)
    texts = [f"Item Name: Tea\nUnit: bushel{row}" for row in range(1010)]
    recorder.add(Rows({"catalog_content": texts}), np.ones(1010, np.float32))
    recorder.write()
    assert set(_priced(tmp_path / "s.json").counts.fields["Unit"].values) == set()
    assert 'pricekit_drift_unseen_values_total{model="shop"} 1010.0' in metrics.text().decode()


def test_another_process_is_worth_a_warning_at_the_second_time(predictor, tmp_path, logged, being_written):
    file = tmp_path / "s.json"
    recorder = _recorder(predictor, file)
    for times in (1, 2):
        _tea(recorder)
        with being_written(file):
            recorder.write()
            assert "another thread of this process" not in logged()
            if times == 2:
                recorder.write()
        assert ("is kept in memory: another thread of this process" in logged()) == (times == 2)
        recorder.write()
        assert _priced(file).rows == times


def test_the_last_write_waits_for_another_process(served, folder, rows, monkeypatch, logged, being_written):
    refused, busy, twice = [], threading.Event(), threading.Event()

    def refuse(self, *arguments, init=BusyError.__init__, **facts):
        init(self, *arguments, **facts)
        refused.append(self)
        if len(refused) == 2:
            twice.set()

    def write(file):
        with being_written(file):
            busy.set()
            assert twice.wait(60)

    monkeypatch.setattr(BusyError, "__init__", refuse)
    with ThreadPoolExecutor(1) as other, TestClient(app(served, engine="ort-cpu", sketches=folder)) as client:
        version = client.get("/models").json()["models"][0]["version"]
        writing = other.submit(write, folder / f"shop-{version}.json")
        assert busy.wait(60)
        client.post("/predict", json={"rows": rows(3)})
    writing.result()
    (file,) = folder.iterdir()
    assert _priced(file).rows == 3
    assert "the sketch of the model" not in logged()


def test_rows_that_are_lost_at_the_end_are_told_once(predictor, tmp_path, logged, being_written):
    file = tmp_path / "s.json"
    recorder = _recorder(predictor, file)
    with being_written(file):
        _tea(recorder, 4)
        recorder.write()
        _tea(recorder)
        recorder.finish(until=0.0)
        recorder.finish(until=0.0)
    said = "the sketch of the model shop loses 5 rows: another thread of this process"
    found = logged()
    assert found.count("the sketch of the model shop") == found.count(said) == 1
    assert not file.exists()


def test_what_cannot_be_kept_is_an_error_at_the_start(served, predictor, tmp_path, raises):
    (tmp_path / "file").write_text("mine")
    with raises(ConfigError, "sketches"):
        app(served, engine="ort-cpu", sketches=tmp_path / "file")
    (tmp_path / f"shop-{predictor.digest[:12]}.json").write_text("mine")
    with pytest.raises(DataError, match="is no sketch of priced rows"):  # the digest in its name differs
        app(served, engine="ort-cpu", sketches=tmp_path)
