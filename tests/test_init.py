"""The package's public names: their documentation, what importing costs, and pickling."""

import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import cloudpickle

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


def test_no_module_replaces_the_function_of_its_name():
    modules = {module.name for module in pkgutil.iter_modules(pricekit.__path__)}
    assert modules & set(pricekit.__all__) == {"bundles", "plots", "plugin"}


def test_importing_pricekit_stays_light():
    code = "import sys, pricekit; print(*sorted(n for n in sys.modules if not n.startswith('_')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert not modules & {"torch", "numpy", "pandas", "pyarrow", "pydantic", "rich", "click", "onnxruntime"}


def test_a_function_that_uses_the_package_can_be_sent_to_another_process():
    assert pickle.loads(cloudpickle.dumps(lambda: pricekit))() is pricekit
