"""Processes that price windows of rows: the same bits as one process, and errors that name the cause."""

import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from pricekit.errors import BundleError, ConfigError, PluginError
from pricekit.model import opened_model
from pricekit.predict import files, workers
from pricekit.predict.predictor import Predictor
from pricekit.table import iter_table


@pytest.fixture(scope="module")
def predictor(bundle):
    return Predictor.load(bundle, "ort-cpu")


@pytest.fixture
def windows(predictor, catalog):
    columns = replace(predictor.columns, price=None)
    return lambda rows: iter_table(catalog, columns, rows=rows)


def test_processes_return_the_bits_of_one_process(predictor, catalog, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WINDOW", 64)
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    assert opened_model(predictor).predict_file(catalog, one, processes=1) == 400
    assert opened_model(predictor).predict_file(catalog, two, processes=2) == 400
    assert one.read_bytes() == two.read_bytes()


def test_a_model_that_has_changed_is_refused(predictor, windows, raises):
    with raises(BundleError):
        list(workers.price_in_processes(replace(predictor, digest="x"), windows(100), 1))


def _workers():
    found = psutil.Process().children(recursive=True)
    return [child for child in found if "spawn_main" in " ".join(child.cmdline())]


def test_a_process_that_is_killed_is_explained(predictor, windows, raises):
    found = workers.price_in_processes(predictor, windows(10), 1)
    next(found)
    for child in _workers():
        child.kill()
    with raises(PluginError, "processes"):
        list(found)


def test_no_process_stays(predictor, windows):
    found = workers.price_in_processes(predictor, windows(10), 2)
    next(found)
    assert len(_workers()) == 2
    found.close()
    assert not _workers()


SCRIPT = """
import sys
import pricekit as pk
print("started", flush=True)
model = pk.load(sys.argv[1], "ort-cpu")
model.predict_file(sys.argv[2], sys.argv[3], processes=2)
print("ended", flush=True)
"""


@pytest.mark.slow
def test_a_script_needs_no_guard(bundle, catalog, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, tmp_path / "script.py", bundle, catalog, tmp_path / "out.csv"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
    assert ended.stdout.split() == ["started", "ended"]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 401


@pytest.mark.parametrize("processes", [0, 2])
def test_an_impossible_number_of_processes_is_refused(predictor, catalog, tmp_path, processes, raises):
    with raises(ConfigError, "processes"):
        workers.check_processes(replace(predictor, origin=None), processes)


@pytest.mark.parametrize(
    ("preparing", "pricing", "left", "expected"),
    [(2, 1, 30, 3), (1, 2, 30, 1), (2, 1, 3, 1)],
    ids=["python decides", "the engine decides", "soon done"],
)
def test_processes_are_used_where_they_pay(predictor, monkeypatch, preparing, pricing, left, expected):
    monkeypatch.setattr(workers, "available_memory", lambda: 8e9)
    monkeypatch.setattr(workers, "used_memory", lambda: 1e9)
    member = predictor.members[0]
    three = replace(predictor, members=(replace(member, engine=replace(member.engine, streams=3)),))
    assert workers.worthwhile(three, workers.Pricing(preparing, pricing), left) == expected
    monkeypatch.setattr(workers, "available_memory", lambda: 4e9)
    assert workers.worthwhile(three, workers.Pricing(preparing, pricing), left) == min(2, expected)
