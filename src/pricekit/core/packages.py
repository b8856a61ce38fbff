"""Packages of plugins: how to install one that is missing, and the functions and commands that they provide."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pricekit.errors import PluginError
from pricekit.io.causes import raise_outside_cause


def install_command(package: str) -> str:
    """Return the command that installs a package.

    It names the folder of a package of this project if pricekit itself was installed from its sources. Otherwise, and
    for other packages, it names the package, as in an index. An extra of pricekit needs no such distinction: pip
    installs those of the installed pricekit.

    Args:
        package: a valid name, such as "pricekit-serve".

    Example:
        >>> install_command("some-package")
        'pip install some-package'
    """
    sources = _sources()
    folder = None if sources is None else sources / "plugins" / package
    if folder is not None and (folder / "pyproject.toml").is_file():
        return f"pip install {quote(str(folder))}"
    return f"pip install {package}"


def _sources() -> Path | None:
    """Return the folder from which pip installed pricekit, as it recorded (PEP 610); None for an index or a wheel."""
    try:
        record = json.loads(distribution("pricekit").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    if "dir_info" not in record or not str(record.get("url")).startswith("file://"):
        return None
    return Path(url2pathname(urlsplit(record["url"]).path))


def provided(group: str) -> dict[str, EntryPoint]:
    """Return what the installed packages name in an entry-point group, not imported yet, by name."""
    return {point.name: point for point in entry_points(group=group)}


def load_provided(point: EntryPoint, kind: str, parameters: tuple[str, ...] = ()) -> Any:
    """Import what an entry point names.

    Args:
        point: one of `provided`.
        kind: what it is, for the message, such as `runner`.
        parameters: those of the error.

    Raises:
        PluginError: it cannot be imported.
    """
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise_outside_cause(error)
        package = point.dist.name if point.dist else point.module
        raise PluginError(
            f"the {kind} '{point.name}' of {package} cannot be loaded: {type(error).__name__}: {error}. Install what "
            f"is missing, or upgrade {package}",
            parameters=parameters,
        ) from error
