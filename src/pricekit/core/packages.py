"""How to install a package that is missing."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit
from urllib.request import url2pathname


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
