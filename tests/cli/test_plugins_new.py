"""Packages that `plugins new` writes pass the checks of their kind; the nox session `scaffold` installs them."""

import compileall
import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pricekit import __version__, plugin
from pricekit.cli.plugins import USE
from pricekit.core.loader import load
from pricekit.testing import checks_of


def _delete_options(file):
    """Delete Options and what reads them, as an author does who needs none; the tests stay as they are."""
    source = file.read_text()
    model = source[source.index("    class Options") : source.index("    def __init__")]
    values = dict(re.findall(r"(\w+): \w+ = Field\(([^,]+),", model))
    source = source.replace(model, "").replace("(self, options)", "(self)")
    source = source.replace("        self.options = options\n", "")
    source = re.sub(r"(?:self\.)?options\.(\w+)", lambda option: values[option[1]], source)
    source = source.replace("__init__(self):\n\n", "__init__(self):\n        pass\n\n")
    file.write_text(source)


SLOW = ("backbone", "engine", "loss")  # their checks export a graph


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in USE]
)
def test_a_new_plugin_passes_its_checks(kind, pricekit, tmp_path, monkeypatch):
    name, module = f"new-{kind}", f"new_{kind}"
    code, _, err = pricekit("plugins", "new", kind, name, "--dir", tmp_path)
    assert code == 0
    assert f"pip install -e {tmp_path / name} && pricekit plugins check {name}" in " ".join(err.split())
    written = {p.relative_to(tmp_path / name).as_posix() for p in (tmp_path / name).rglob("*") if p.is_file()}
    assert written == {
        *("pyproject.toml", "README.md", "noxfile.py", f"tests/test_{module}.py"),
        *(f"src/{module}/__init__.py", f"src/{module}/plugin.py"),
    }
    assert compileall.compile_dir(tmp_path / name, quiet=1)
    project = tomllib.loads((tmp_path / name / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pricekit"] == {name: module}
    assert Requirement(project["dependencies"][0]).specifier.contains(__version__)
    assert not Requirement(project["dependencies"][0]).specifier.contains("0.1")
    monkeypatch.syspath_prepend(tmp_path / name / "src")
    found = load([EntryPoint(name, module, "pricekit")])
    assert not found.failed
    checks = checks_of(kind, lambda: found.create(kind, name))
    assert len(checks) > 5
    for check in checks:
        check()
    assert issubclass(found.get(kind, name).load(), getattr(plugin, kind.title()))
    if kind != "engine":  # it has none
        _delete_options(tmp_path / name / "src" / module / "plugin.py")
    monkeypatch.syspath_prepend(tmp_path / name / "tests")
    for loaded in (module, f"{module}.plugin"):
        del sys.modules[loaded]
    tests = import_module(f"test_{module}")
    (marker,) = tests.test_conformance.pytestmark
    assert len(marker.args[1]) >= len(checks)
    marker.args[1][0]()
    for loaded in (module, f"{module}.plugin", f"test_{module}"):
        sys.modules.pop(loaded, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My Loss", "Try 'my-loss'"),
        ("Loss", "Try 'loss'"),
        ("../up", "Try 'up'"),
        ("", "is not a valid plugin name"),
        ("smape", "already registers a loss named 'smape'"),
        ("numpy", "the module name numpy is already used"),
        ("there", "already exists"),
    ],
)
def test_an_invalid_name_writes_nothing(pricekit, tmp_path, name, expected):
    (tmp_path / "there").mkdir()
    code, _, err = pricekit("plugins", "new", "loss", name, "--dir", tmp_path)
    assert (code, expected in " ".join(err.split())) == (2, True)
    assert [p.name for p in Path(tmp_path).iterdir()] == ["there"]


def test_the_error_for_a_wrong_kind_lists_the_kinds(pricekit, tmp_path):
    code, _, err = pricekit("plugins", "new", "optimizer", "mine", "--dir", tmp_path)
    assert (code, "policy" in err) == (2, True)
