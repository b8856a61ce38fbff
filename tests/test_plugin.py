"""The names for plugins and services: each exists, costs nothing before its use, and is all that packages import."""

import ast
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from pricekit import plugin

ROOT = Path(__file__).parents[1]
PUBLIC = (
    "pricekit",
    "pricekit.plugin",
    "pricekit.plugin.commands",
    "pricekit.plugin.runners",
    "pricekit.testing",
)


@pytest.mark.parametrize("name", plugin.__all__)
def test_each_name_is_defined_in_its_module(name):
    assert getattr(plugin, name) is not None
    assert name in dir(plugin)


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match="nowhere"):
        _ = plugin.nowhere


def test_a_registering_module_loads_no_library():
    code = "import sys; from pricekit.plugin import Register, hookimpl; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert not modules & {"torch", "numpy", "pandas", "pyarrow", "onnxruntime", "click"}


def internals_in(code: str) -> list[str]:
    """Return the names that Python code, or code in its strings, imports from pricekit and that are not public."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [
                each.name
                for each in node.names
                if each.name.startswith("pricekit.") and each.name not in PUBLIC
            ]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pricekit":
            exported = import_module(str(node.module)).__all__ if node.module in PUBLIC else ()
            names += [f"{node.module}.{each.name}" for each in node.names if each.name not in exported]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            with suppress(SyntaxError):  # it is text
                names += internals_in(node.value)
    return names


@pytest.mark.parametrize("package", sorted(path.name for path in (ROOT / "plugins").iterdir()))
def test_the_packages_of_this_project_import_only_public_names(package):
    sources = sorted((ROOT / "plugins" / package).rglob("*.py"))
    assert {"src", "tests"} <= {part for source in sources for part in source.parts}
    if package == "pricekit-fast":  # its tests compare its functions with those of Python
        sources = [source for source in sources if "tests" not in source.parts]
    internals = {source: internals_in(source.read_text("utf-8")) for source in sources}
    assert not {source: names for source, names in internals.items() if names}
