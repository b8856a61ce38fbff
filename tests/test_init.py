"""The package's public names: their documentation, what importing costs, and pickling."""

import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import pricekit

ROOT = Path(__file__).parents[1]


def test_every_public_name_has_a_docstring():
    for package in (pricekit, pricekit.plots):
        for name in set(package.__all__) - {"__version__"}:
            assert len((getattr(package, name).__doc__ or "").strip()) > 20, name


def test_public_names_are_documented():
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert [name for name in pricekit.__all__ if f"`{name}" not in page and name != "__version__"] == []
    pictures = (ROOT / "docs" / "plots.md").read_text("utf-8")
    assert [name for name in pricekit.plots.__all__ if f"`{name}" not in pictures] == []


def test_a_module_does_not_replace_the_function_of_its_name(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("pricekit.comparables")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.import_module("pricekit.comparables")
    assert pricekit.comparables is importlib.import_module("pricekit.api").comparables


def test_importing_pricekit_stays_light():
    code = "import sys, pricekit; print(*sorted(n for n in sys.modules if not n.startswith('_')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert not modules & {"torch", "numpy", "pandas", "pyarrow", "pydantic", "rich", "click", "onnxruntime"}


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_function_that_uses_the_package_can_be_sent_to_another_process(dumps):
    assert pickle.loads(dumps(pricekit)) is pricekit
