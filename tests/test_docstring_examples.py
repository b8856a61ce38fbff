"""The examples in the public docstrings run and show the right results."""

import doctest
import inspect

import pytest

import pricekit

FINDER = doctest.DocTestFinder(exclude_empty=True)
EXAMPLES = [
    test
    for package in (pricekit, pricekit.plots)
    for name in package.__all__
    if not name.startswith("_")
    for test in FINDER.find(
        getattr(package, name), name, globs={"pk": pricekit, name: getattr(package, name)}
    )
    if test.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_of_a_docstring_runs(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(example, out=seen.append)
    assert runner.failures == 0, "".join(seen)


@pytest.mark.parametrize(
    "name", [name for name in pricekit.__all__ if inspect.isfunction(getattr(pricekit, name))]
)
def test_a_public_function_has_an_example(name):
    assert [example for example in EXAMPLES if example.name == name], f"{name} has no example"
