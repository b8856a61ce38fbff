"""Each public name has a docstring with the shapes of its arrays, and an example that runs."""

import doctest
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import pricekit
import pricekit.testing
from pricekit.core import contracts, hookspecs

ROOT = Path(__file__).parents[1]
PUBLIC = runpy.run_path(str(ROOT / "docs" / "site" / "public_names.py"))["public_names"]()
PARSER = doctest.DocTestParser()
NAMES = [one.dotted for one in PUBLIC]
MEMBERS = [
    (f"{one.dotted}.{name}", member)
    for one in PUBLIC
    if inspect.isclass(one.thing)
    for name, member in vars(one.thing).items()
    if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | classmethod))
]
EXAMPLES = [
    PARSER.get_doctest(doc, {"pk": pricekit, **namespace}, name, None, 0)
    for name, doc, namespace in [
        *((one.dotted, one.doc, vars(one.module)) for one in PUBLIC),
        *((name, inspect.getdoc(member) or "", {}) for name, member in MEMBERS),
    ]
    if ">>>" in doc
]


@pytest.mark.examples
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_of_a_docstring_runs(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(example, out=seen.append)
    assert runner.failures == 0, "".join(seen)


NEED_THE_HUB = {"pricekit.bundles.push", "pricekit.bundles.pull"}
"""Functions whose examples need a network and a repository; tests/predict/test_hub.py tests them with a server."""


@pytest.mark.parametrize("one", PUBLIC, ids=NAMES)
def test_a_public_name_has_a_docstring_with_an_example(one):
    assert len(one.doc.strip().splitlines()[0]) > 20
    tests = PARSER.get_examples(one.doc)
    assert tests, f"{one.dotted} has no example"
    skipped = any(doctest.SKIP in test.options for test in tests)
    assert skipped == (one.dotted in NEED_THE_HUB), f"the example of {one.dotted} is skipped"


@pytest.mark.parametrize(("name", "member"), MEMBERS, ids=[name for name, _ in MEMBERS])
def test_a_public_member_has_a_docstring(name, member):
    assert len((inspect.getdoc(member) or "").strip()) > 20


def _functions() -> list[tuple[str, Any]]:
    members = [
        (name, getattr(member, "fget", None) or getattr(member, "__func__", member))
        for name, member in MEMBERS
    ]
    return [(one.dotted, one.thing) for one in PUBLIC if inspect.isfunction(one.thing)] + members


@pytest.mark.parametrize(("name", "function"), _functions(), ids=[name for name, _ in _functions()])
def test_the_shape_of_each_array_is_documented(name, function):
    types = " ".join(map(str, getattr(function, "__annotations__", {}).values()))
    if any(word in types for word in ("ndarray", "ArrayLike", "Tensor", "Series")):
        assert re.search(r"\([A-Z],|scalar", function.__doc__), name


@pytest.mark.parametrize("one", PUBLIC, ids=NAMES)
def test_each_parameter_of_a_function_is_documented(one):
    if not inspect.isfunction(one.thing) or len(inspect.signature(one.thing).parameters) < 2:
        return
    for name in inspect.signature(one.thing).parameters:
        assert re.search(rf"\n    [*\w, ]*\b{name}\b[\w, ]*: |`{name}`", one.doc), name


def test_the_public_names_are_those_of_the_packages_and_the_contracts():
    named = set(NAMES)
    for package in (pricekit, pricekit.plots, pricekit.testing):
        assert {f"{package.__name__}.{name}" for name in package.__all__ if name != "__version__"} <= named
    for module in (contracts, hookspecs):
        own = {n for n, c in vars(module).items() if inspect.isclass(c) and c.__module__ == module.__name__}
        assert {f"{module.__name__}.{name}" for name in own} <= named
