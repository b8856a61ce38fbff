"""The layout rules: small folders, short functions, distinct names, tests that mirror the sources.

`test_X.py` or `test_X_TOPIC.py` tests the module X.
"""

import ast
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "pricekit", ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))
FOLDERS = sorted({module.parent for module in MODULES})
CODE = [*MODULES, *sorted(ROOT.glob("plugins/*/src/**/*.py")), *sorted(ROOT.glob("benchmarks/**/*.py"))]

FILES_OF_A_FOLDER = 12
LINES_OF_A_FUNCTION = 45
MOST_MODULES = 396
"""With `__init__.py`: 186 after the restructuring of 0.2, then locks, digests and limits of bundles; 7 for the cells of
columns, 7 for trees, 3 for neighbours, 4 for the roles of columns and suspicious prices, 1 for the refit, 1 for the
folder of an ensemble, 1 for the training of its members, 4 for the public functions, which were one long file, 2 for
ranges of settings and the cache of features, 13 for the search, 4 for a run that continues another one, 2 for the
weights and the latency of an ensemble, 1 for the conversion to 8 bits, 1 for the
options of every command, 2 for the folds of features and the package of neighbours, 7 for explanations, 10 for the
pictures, 8 for the report, 6 for the leaderboard, 7 for the importance over a table, 21 for drift, 7 for remote
files, 5 for several processes that train together, 5 for the likeness of texts, 9 for the processes and folders of
predictions, 2 for tables that are larger than memory, 1 for the self-test of bundles, 2 for what packages provide
besides plugins, 2 for Triton, 1 for how to install packages, 1 for the manifest of a bundle, 4 for signatures, 1 for
the inventory, 3 for the hub, 4 for fitting features, 3 for any encoder and none, 1 for the
assets of features, 2 for the pictures of the generated catalogue, 1 for LoRA, 1 for the policy of encoders from
scratch, and 11 for the folder, the preparation and the end of a run, which were three long files."""

SUFFIXES = {"", "e", "d", "s", "ed", "er", "or", "es", "ers", "ing", "ion", "tion", "able"}
"""Endings of one word: two modules of a folder whose names differ by them alone are mistaken for each other."""

LONG_FUNCTIONS: set[str] = set()
"""To be shortened; no function joins this list."""

FULL_FOLDERS = {"cli": "one file per command"}
"""Folders with more files, and the reasons."""

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
    "model/backbones/test_contract.py": "all built-in backbones",
    "table/formats/test_formats.py": "all formats",
    "table/test_bad_input.py": "reading unusable tables in every format",
    "table/test_real_tables.py": "reading excerpts of public tables",
    "cli/test_parity.py": "the commands against the public functions",
    "table/test_init.py": "the folder's public names",
    "test_docs.py": "the documents",
    "test_docstring_examples.py": "the examples in docstrings",
    "test_example_notebook.py": "the notebook in examples/",
    "test_example_scripts.py": "the scripts in examples/",
    "test_golden.py": "models of version 0.1",
    "test_public_api.py": "the public signatures",
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


def _functions(module: Path) -> Iterator[tuple[str, int]]:
    """Yield each function with its lines, from `def` to its end without the docstring."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
            yield node.name, node.end_lineno - node.lineno + 1 - docstring


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _common_start(one: str, other: str) -> str:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(letter for letter, _ in same)


def test_functions_are_short():
    long = {
        f"{_name(module, ROOT)}:{name}"
        for module in CODE
        for name, lines in _functions(module)
        if lines > LINES_OF_A_FUNCTION
    }
    assert long <= LONG_FUNCTIONS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: _name(folder, SOURCE))
def test_folders_contain_few_files(folder):
    files = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    if _name(folder, SOURCE) not in FULL_FOLDERS:
        assert len(files) <= FILES_OF_A_FOLDER, sorted(files)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: _name(folder, SOURCE))
def test_names_in_a_folder_are_distinct(folder):
    names = sorted(path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir())
    for one, other in itertools.combinations(names, 2):
        stem = _common_start(one, other)
        differ = {one.removeprefix(stem), other.removeprefix(stem)}
        assert len(stem) < 3 or not differ <= SUFFIXES, (one, other)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: _name(folder, SOURCE))
def test_the_first_line_of_a_package_states_its_purpose(folder):
    first = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))).splitlines()[0]
    assert first.endswith(".")
    assert len(first.split()) >= 4


def test_the_number_of_modules_does_not_grow():
    assert len(MODULES) <= MOST_MODULES


def test_tests_mirror_the_sources():
    lost = []
    for test in sorted(TESTS.rglob("test_*.py")):
        name = _name(test, TESTS)
        folder, stem = SOURCE / test.parent.relative_to(TESTS), test.stem.removeprefix("test_")
        if name.split("/")[0] in TEST_FOLDERS or name in TEST_FILES:
            continue
        modules = [path.stem for path in folder.glob("*") if path.suffix == ".py" or path.is_dir()]
        if not any(stem == module or stem.startswith(f"{module}_") for module in modules):
            lost.append(name)
    assert lost == []


def test_each_exception_is_still_needed():
    assert [name for name in TEST_FILES if not (TESTS / name).is_file()] == []
    assert [name for name in FULL_FOLDERS if not (SOURCE / name).is_dir()] == []


@pytest.mark.slow
def test_each_module_can_be_imported_first():
    """In an import cycle, the first import determines whether the others succeed."""
    names = [_name(module.with_suffix(""), SOURCE.parent).replace("/", ".") for module in MODULES]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    subprocess.run([sys.executable, "-c", IMPORT_EACH, *names], check=True)
