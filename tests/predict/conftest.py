"""A graph, and toy engines."""

import sys
import types

import pytest

from pricekit.core.contracts import Graph
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.predict.bundle import open_bundle


@pytest.fixture
def graph(bundle, tmp_path):
    return Graph(open_bundle(bundle).files["model.onnx"], 64, 38, tmp_path / "cache")


@pytest.fixture(autouse=True)
def own_entries(monkeypatch):
    """Ignore the engines of other installed packages."""
    kept = {key: entry for key, entry in registry().entries.items() if entry.package == "pricekit"}
    monkeypatch.setattr(registry(), "entries", kept)


@pytest.fixture
def engines(monkeypatch, own_entries):
    """Return a function that registers toy engines by name; each is a function of a graph."""
    module = types.ModuleType("toy_engines")
    monkeypatch.setitem(sys.modules, "toy_engines", module)

    def add(**loads):
        for name, load in loads.items():
            made = type(name, (), {"length_multiple": 16, "load": staticmethod(load), "streams": 2})
            setattr(module, name, made)
            registry().add([Entry("engine", name, f"toy_engines:{name}", "a toy", "toy", "1.0")])

    return add
