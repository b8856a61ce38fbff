"""The reference of public names, for Sphinx's autodoc."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from public_names import public_names

PARTS = (
    "pricekit.metrics.Metric",
    "pricekit.evaluation.comparison.ComparedRun",
    "pricekit.answers.leaderboard.Entry",
    "pricekit.insight.explanations.Factor",
    "pricekit.export.verify.ShapeCheck",
    "pricekit.evaluation.table_report.Suspect",
    "pricekit.evaluation.duplicates.Duplicates",
    "pricekit.evaluation.leaks.Leaks",
    "pricekit.table.source.ReadOptions",
    "pricekit.plots.learning.Curve",
    "pricekit.io.progress.Reporter",
)
"""Classes of the parts of what public functions return, and of what they take."""


def names_page(package: str, *kinds: str) -> str:
    """Return the public names of a package as Markdown: a list of them, then each with its docstring.

    Args:
        package: such as `pricekit` or `pricekit.plots`.
        kinds: function, class, exception, module or data; default: all but modules.
    """
    wanted = kinds or ("function", "class", "exception", "data")
    names = [one for one in public_names() if one.dotted.rpartition(".")[0] == package and one.kind in wanted]
    table = ["| name | purpose |", "|---|---|"]
    table += [
        f"| [`{one.dotted.rpartition('.')[2]}`](#{one.dotted}) | {one.summary} |".replace("|d|", "d")
        for one in names
    ]
    parts = ["\n".join(table)]
    for one in names:
        parts.append(f"```{{eval-rst}}\n.. auto{one.kind}:: {one.dotted}\n```")
    return "\n\n".join(parts)


def results_page() -> str:
    """Return the classes of what functions return, and of its parts, as Markdown."""
    names = dict.fromkeys([*_returned(), *PARTS])
    return "\n\n".join(f"```{{eval-rst}}\n.. autoclass:: {name}\n```" for name in names)


def _returned() -> Iterator[str]:
    """Yield the classes that the annotations of public functions and methods name and that are not public themselves.

    They are imported for type checkers only, so their modules are those of the import statements.
    """
    public = {one.thing for one in public_names() if one.kind == "class"}
    for one in public_names():
        if one.kind not in ("function", "class") or one.dotted.startswith("pricekit.core."):
            continue
        tree = ast.parse(inspect.getsource(one.module))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        modules = {alias.name: node.module or "" for node in imports for alias in node.names}
        public_members = [member for name, member in vars(one.thing).items() if not name.startswith("_")]
        members = [one.thing] if one.kind == "function" else map(_function_of, public_members)
        returned = " ".join(str(getattr(each, "__annotations__", {}).get("return", "")) for each in members)
        for word in re.findall(r"\w+", returned):
            if modules.get(word, "").startswith("pricekit."):
                result = getattr(import_module(modules[word]), word)
                if inspect.isclass(result) and result not in public:
                    yield f"{result.__module__}.{result.__qualname__}"


def _function_of(member: Any) -> Any:
    """Return the function of a method, a property or a class method."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


def errors_page() -> str:
    """Return the classes of errors, as Markdown."""
    module = import_module("pricekit.errors")
    kinds = [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, module.PricekitError)
    ]
    return "\n\n".join(
        f"```{{eval-rst}}\n.. autoexception:: pricekit.errors.{kind.__name__}\n```"
        for kind in kinds
        if kind is not module.PricekitError and kind.__module__ == module.__name__
    )
