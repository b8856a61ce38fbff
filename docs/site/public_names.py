"""The public names of pricekit, for the site's reference and for the test of their docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

PACKAGES = ("pricekit", "pricekit.bundles", "pricekit.plots", "pricekit.testing")
CONTRACTS = ("pricekit.core.contracts", "pricekit.core.hookspecs")


@dataclass(frozen=True)
class PublicName:
    """A public name.

    Attributes:
        dotted: where users import it from, such as `pricekit.train`.
        thing: the function, class, module or object.
        doc: its docstring, without indentation.
        module: the module that defines it.
    """

    dotted: str
    thing: Any
    doc: str
    module: ModuleType

    @property
    def kind(self) -> str:
        """What autodoc calls it: function, class, exception, module or data."""
        if inspect.isclass(self.thing):
            return "exception" if issubclass(self.thing, BaseException) else "class"
        if inspect.ismodule(self.thing):
            return "module"
        return "function" if inspect.isroutine(self.thing) else "data"

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, on one line."""
        return " ".join(self.doc.partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".")


def public_names() -> list[PublicName]:
    """Return the names that `__all__` lists in each public package, and the contracts and hooks of plugins."""
    found = [
        _public(f"{package}.{name}", getattr(import_module(package), name))
        for package in PACKAGES
        for name in import_module(package).__all__
        if not name.startswith("_")
    ]
    for name in CONTRACTS:
        module = import_module(name)
        own = [thing for thing in vars(module).values() if getattr(thing, "__module__", "") == name]
        found += [_public(f"{name}.{one.__name__}", one) for one in own if inspect.isclass(one)]
    return found


def _public(dotted: str, thing: Any) -> PublicName:
    module = thing if inspect.ismodule(thing) else inspect.getmodule(thing)
    if module is None or not module.__name__.startswith("pricekit"):  # an object of another package's class
        module = import_module("pricekit.core.hookspecs")
        doc = _string_after(module, dotted.rpartition(".")[2])
    else:
        doc = inspect.getdoc(thing) or ""
    return PublicName(dotted, thing, doc, module)


def _string_after(module: ModuleType, name: str) -> str:
    """Return the string literal after the assignment to a name, which is its documentation; "" if there is none."""
    body = ast.parse(inspect.getsource(module)).body
    for node, following in itertools.pairwise(body):
        targets = getattr(node, "targets", ())
        if any(getattr(target, "id", "") == name for target in targets) and isinstance(following, ast.Expr):
            value = following.value
            return inspect.cleandoc(str(value.value)) if isinstance(value, ast.Constant) else ""
    return ""
