"""The layout rules: tests mirror the sources, and each folder says what it is for.

`test_X.py` or `test_X_TOPIC.py` tests the module X, and `test_init.py` tests `__init__.py`.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "pricekit", ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))
FOLDERS = sorted({module.parent for module in MODULES})

TEST_FOLDERS = {
    "benchmarks": "mirrors benchmarks/, which is not part of the package",
    "deploy": "the Dockerfile and deploy/, which are not part of the package",
    "release": "mirrors release/, which is not part of the package",
}
"""Folders of tests without a folder of sources, and the reasons."""

TEST_FILES = {
    "cli/test_bad_input.py": "all commands on unusable tables",
    "cli/test_commands.py": "the commands one after the other",
    "core/test_plugins.py": "the loader and the registry together",
    "nets/test_contract.py": "all built-in backbones",
    "table/test_formats.py": "all formats",
    "table/test_bad_input.py": "reading unusable tables in every format",
    "table/test_real_tables.py": "reading excerpts of public tables",
    "test_docs.py": "the documents",
    "test_docstring_examples.py": "the examples in docstrings",
    "test_example_notebook.py": "the notebook in examples/",
    "test_example_scripts.py": "the scripts in examples/",
    "test_golden.py": "the golden bundle",
    "test_site.py": "the built documentation",
    "test_plugin_docs.py": "the documents for plugin authors",
    "test_structure.py": "the layout",
}
"""Test files without a module of the same name, and what they test."""


IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [key for key in sys.modules if key.partition(".")[0] == "pricekit"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: _name(folder, SOURCE))
def test_the_first_line_of_a_package_states_its_purpose(folder):
    first = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))).splitlines()[0]
    assert first.endswith(".")
    assert len(first.split()) >= 4


def test_tests_mirror_the_sources():
    lost = []
    for test in sorted(TESTS.rglob("test_*.py")):
        name = _name(test, TESTS)
        folder, stem = SOURCE / test.parent.relative_to(TESTS), test.stem.removeprefix("test_")
        if name.split("/")[0] in TEST_FOLDERS or name in TEST_FILES:
            continue
        modules = [path.stem.strip("_") for path in folder.glob("*") if path.suffix == ".py" or path.is_dir()]
        if not any(stem == module or stem.startswith(f"{module}_") for module in modules):
            lost.append(name)
    assert lost == []


def test_each_exception_is_still_needed():
    assert [name for name in TEST_FILES if not (TESTS / name).is_file()] == []


@pytest.mark.slow
def test_each_module_can_be_imported_first():
    """In an import cycle, the first import determines whether the others succeed."""
    names = [_name(module.with_suffix(""), SOURCE.parent).replace("/", ".") for module in MODULES]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    subprocess.run([sys.executable, "-c", IMPORT_EACH, *names], check=True)
