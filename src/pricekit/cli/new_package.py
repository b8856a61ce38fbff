"""Write a plugin package from its kind and name; the package passes its own checks."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

from pricekit import __version__
from pricekit.core.hookspecs import API
from pricekit.core.loader import registry
from pricekit.core.registry import KINDS
from pricekit.errors import ConfigError
from pricekit.io.files import publish_folder

USE = {
    "feature": "pricekit train products.csv --features optimized22,columns,$name --out run",
    "backbone": "pricekit train products.csv --backbone $name --out run",
    "loss": "pricekit train products.csv --loss $name --out run",
    "policy": "pricekit train products.csv --policy $name --out run",
    "engine": "pricekit predict bundle products.csv --engine $name --out prices.csv",
}
"""The command that uses a plugin of each kind, for the README of the package."""

SUMMARY = {
    "feature": "length of the text and share of digits",
    "backbone": "mean of the token embeddings; no download",
    "loss": "Huber loss on the log price",
    "policy": "bag with a linearly decaying learning rate",
    "engine": "ONNX Runtime on the CPU, with a configurable number of threads",
}
"""The summary that each kind's template registers."""


def new_package(kind: str, name: str, folder: Path) -> Path:
    """Write a package with one plugin into a new folder and return the folder.

    Args:
        kind: feature, backbone, loss, policy or engine.
        name: the name of the plugin, the package and the new folder.
        folder: the parent of the new folder.

    Raises:
        ConfigError: the name is invalid or taken, or the folder exists.
    """
    module = name.replace("-", "_")
    _check_name(kind, name, module)
    path = folder / name
    if path.exists():
        raise ConfigError(
            f"{path} already exists; choose another name or another folder",
            parameters=("name", "folder"),
            path=str(path),
        )
    values = _values(kind, name, module)
    places = {
        "pyproject.toml": "package/pyproject.toml.txt",
        "README.md": "package/README.md.txt",
        "noxfile.py": "package/noxfile.py.txt",
        f"src/{module}/__init__.py": "package/__init__.py.txt",
        f"src/{module}/plugin.py": f"{kind}/plugin.py.txt",
        f"tests/test_{module}.py": f"{'loss' if kind == 'loss' else 'package'}/test.py.txt",
    }
    templates = files("pricekit.cli").joinpath("templates")
    texts = {place: templates.joinpath(name).read_text("utf-8") for place, name in places.items()}
    publish_folder(path, {place: Template(text).substitute(values).encode() for place, text in texts.items()})
    return path


def _check_name(kind: str, name: str, module: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")
        hint = f" Try '{better}'." if better else ""
        raise ConfigError(
            f"'{name}' is not a valid plugin name; expected lower-case letters, digits and hyphens.{hint}",
            parameters=("name",),
        )
    if iskeyword(module) or iskeyword(_class_name(module)):
        raise ConfigError(f"'{name}' is a Python keyword; choose another name", parameters=("name",))
    if taken := registry().entries.get((kind, name)):
        raise ConfigError(
            f"{taken.package} already registers a {kind} named '{name}'; choose another name",
            parameters=("name",),
        )
    if find_spec(module) is not None:
        raise ConfigError(
            f"the module name {module} is already used by an installed package; choose another name",
            parameters=("name",),
        )


def _values(kind: str, name: str, module: str) -> dict[str, str]:
    oldest = ".".join(__version__.split(".")[:2])  # the package supports all versions from this one on
    return {
        "kind": kind,
        "name": name,
        "module": module,
        "class_name": _class_name(module),
        "hook": KINDS[kind],
        "api": str(API),
        "summary": SUMMARY[kind],
        "requires": f"{'pricekit' if kind in ('feature', 'engine') else 'pricekit[train]'}>={oldest}",
        "use": USE[kind].replace("$name", name),
    }


def _class_name(module: str) -> str:
    return "".join(part.title() for part in module.split("_"))
