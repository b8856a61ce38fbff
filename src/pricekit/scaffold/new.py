"""From a kind and a name to a package that passes its own checks."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

from pricekit.core.hookspecs import API
from pricekit.core.loader import registry
from pricekit.core.registry import KINDS
from pricekit.errors import PluginError
from pricekit.files import publish_folder

USE = {
    "feature": "pricekit train products.csv --features optimized22,numbers,$name --out run",
    "backbone": "pricekit train products.csv --backbone $name --out run",
    "loss": "pricekit train products.csv --loss $name --out run",
    "policy": "pricekit train products.csv --policy $name --out run",
    "engine": "pricekit predict bundle products.csv --engine $name --out prices.csv",
}
"""How a plugin of each kind is used, for its README."""

SUMMARY = {
    "feature": "length of a text and its share of digits",
    "backbone": "mean of a text's token embeddings; no download",
    "loss": "Huber loss of the log price",
    "policy": "bag with a learning rate that falls in a straight line",
    "engine": "ONNX Runtime on the CPU, with a number of threads",
}
"""What the plugin of each kind's template is."""


def new_package(kind: str, name: str, folder: Path) -> Path:
    """Write a package of one plugin into a new folder of that name; return the folder.

    Raises:
        PluginError: the name cannot be a plugin's or is taken, or there is such a folder.
    """
    module = name.replace("-", "_")
    _check_name(kind, name, module)
    path = folder / name
    if path.exists():
        raise PluginError(f"{path} exists already; choose another name, or another --dir")
    values = _values(kind, name, module)
    places = {
        "pyproject.toml": "package/pyproject.toml.txt",
        "README.md": "package/README.md.txt",
        "noxfile.py": "package/noxfile.py.txt",
        f"src/{module}/__init__.py": "package/__init__.py.txt",
        f"src/{module}/plugin.py": f"{kind}/plugin.py.txt",
        f"tests/test_{module}.py": f"{'loss' if kind == 'loss' else 'package'}/test.py.txt",
    }
    publish_folder(path, {place: _filled(name, values) for place, name in places.items()})
    return path


def _check_name(kind: str, name: str, module: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")
        hint = f" Try '{better}'." if better else ""
        raise PluginError(
            f"a plugin cannot be called '{name}', expected lower-case letters, digits and hyphens.{hint}"
        )
    if iskeyword(module) or iskeyword(_class_name(module)):
        raise PluginError(f"'{name}' is a word of Python's own; choose another name")
    if taken := registry().entries.get((kind, name)):
        raise PluginError(f"there is a {kind} '{name}' already, of {taken.package}; choose another name")
    if find_spec(module) is not None:
        raise PluginError(
            f"the package would be imported as {module}, and a module of that name is installed; choose another name"
        )


def _values(kind: str, name: str, module: str) -> dict[str, str]:
    return {
        "kind": kind,
        "name": name,
        "module": module,
        "prefix": module,
        "class_name": _class_name(module),
        "hook": KINDS[kind],
        "api": str(API),
        "summary": SUMMARY[kind],
        "requires": "pricekit" if kind in ("feature", "engine") else "pricekit[train]",
        "use": USE[kind].replace("$name", name),
    }


def _class_name(module: str) -> str:
    return "".join(part.title() for part in module.split("_"))


def _filled(template: str, values: dict[str, str]) -> bytes:
    text = files("pricekit.scaffold").joinpath("templates", template).read_text("utf-8")
    return Template(text).substitute(values).encode()
