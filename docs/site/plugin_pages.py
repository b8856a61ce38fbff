"""The reference of the plugin interface, from the sources of hooks, decorators and base classes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import TypeVar

from pricekit.core import contracts, hookspecs
from pricekit.core.registry import KINDS
from pricekit.io import sources
from pricekit.text import kernel
from pricekit.training import policies

Node = TypeVar("Node", ast.FunctionDef, ast.ClassDef)


def plugins_page() -> str:
    """Return the base classes, decorators and hooks as Markdown."""
    policy = next(node for node in _nodes(policies, ast.ClassDef) if node.name == "Policy")
    functions = list(_nodes(hookspecs, ast.FunctionDef))
    parts = ["## Base classes"]
    parts += [
        _class(node)
        for node in (
            *_nodes(contracts, ast.ClassDef),
            policy,
            *_nodes(kernel, ast.ClassDef),
            *_nodes(sources, ast.ClassDef),
        )
    ]
    parts.append("## Decorators")
    parts += [_function(node) for node in functions if node.name in KINDS]
    parts.append("## Hooks")
    parts += [_function(node) for node in functions if node.name not in KINDS]
    parts += [_class(node) for node in _nodes(hookspecs, ast.ClassDef)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def hooks() -> dict[str, list[str]]:
    """Return the arguments of every hook."""
    nodes = [node for node in _nodes(hookspecs, ast.FunctionDef) if node.name not in KINDS]
    return {node.name: [a.arg for a in node.args.args] for node in nodes}


def _nodes(module: ModuleType, kind: type[Node]) -> Iterator[Node]:
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, kind) and not node.name.startswith("_"):
            yield node


def _function(node: ast.FunctionDef, level: str = "###") -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    signature = f"{node.name}({ast.unparse(node.args)}){returns}"
    return f"{level} `{node.name}`\n\n```python\n{signature}\n```\n\n{_text(ast.get_docstring(node))}"


def _class(node: ast.ClassDef) -> str:
    parts = [f"### `{node.name}`", _text(ast.get_docstring(node))]
    for member, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(member, ast.AnnAssign):
            parts.append(f"#### `{ast.unparse(member)}`\n\n{_text(_string(following))}")
        elif isinstance(member, ast.FunctionDef):
            parts.append(_function(member, "####"))
    return "\n\n".join(part for part in parts if part)


def _string(node: ast.stmt | None) -> str | None:
    """Return the string literal after an attribute."""
    value = node.value if isinstance(node, ast.Expr) else None
    return inspect.cleandoc(str(value.value)) if isinstance(value, ast.Constant) else None


def _text(docstring: str | None) -> str:
    """Return a docstring as Markdown, without its example: sections of arguments and errors become lists."""
    lines: list[str] = []
    listed = False
    text = (docstring or "").partition("\nExample:\n")[0]
    for line in text.splitlines():
        if line in ("Args:", "Raises:", "Attributes:", "Returns:"):
            listed = True
            lines += [f"**{line[:-1]}**", ""]
        elif listed and line.startswith("    ") and not line.startswith("     "):
            name, colon, said = line.strip().partition(": ")
            lines.append(f"- `{name}`: {said}" if colon else f"- {line.strip()}")
        elif listed and line.startswith(" "):
            lines.append(f"  {line.strip()}")
        else:
            listed = listed and not line
            lines.append(line)
    return "\n".join(lines)
