"""The bytes behind a cell: a link, or the path of a file that must stay in a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from threading import Event

from pricekit.plugin import ConfigError
from pricekit_images import cache
from pricekit_images.decode import identify
from pricekit_images.unusable import UnusableError
from pricekit_images.web.fetch import Downloader

ROOT = "PRICEKIT_IMAGES_ROOT"
"""The variable of the environment that names the folder that all local images are in; default: the current folder.

It belongs to the machine and not to the model, so that a bundle cannot read files elsewhere.
"""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://)?")


def is_link(cell: str) -> bool:
    """Return whether a cell is a link.

    >>> is_link("HTTPS://shop.example/1.jpg"), is_link("pictures/1.jpg")
    (True, False)
    """
    return cell[:8].lower().startswith(("http://", "https://"))


def folder_of(root: str) -> Path:
    """Return the folder of local images.

    Args:
        root: a folder inside of the one that `ROOT` names.

    Raises:
        ConfigError: it is outside of it, or does not exist; the fact `problem` says which.
    """
    base = Path(os.environ.get(ROOT) or ".").expanduser().resolve()
    folder = (base / root).resolve()
    if not folder.is_relative_to(base):
        raise ConfigError(
            f"feature_options.images.root is {root!r}, which is outside of {base}; name a folder inside of it, or set "
            f"the variable {ROOT} to a folder that contains it",
            parameters=("settings",),
            problem=f"their folder {root!r} is outside of {base}",
        )
    if not folder.is_dir():
        problem = f"the folder of images {folder} does not exist"
        raise ConfigError(
            f"{problem}; check feature_options.images.root and the variable {ROOT}",
            parameters=("settings",),
            problem=problem,
        )
    return folder


def file_of(cell: str, folder: Path) -> Path:
    """Return the file that a cell names; raises UnusableError if it is missing, or outside of the folder."""
    if _SCHEME.match(cell):
        raise UnusableError("neither a path nor a link for http")
    try:
        file = (folder / cell).resolve()
        if not file.is_relative_to(folder):
            raise UnusableError("outside of the folder of images")
        if not file.is_file():
            raise UnusableError(f"no such file in {folder}")
    except (OSError, ValueError, RuntimeError):
        raise UnusableError("not a path") from None
    return file


def read_file(file: Path, most_bytes: int) -> bytes:
    """Return the contents of a file; raises UnusableError."""
    try:
        with file.open("rb") as stream:
            content = stream.read(most_bytes + 1)
    except OSError as error:
        raise UnusableError(f"cannot be read: {error.strerror}") from None
    _check_size(content, most_bytes)
    return content


def _check_size(content: bytes, most_bytes: int) -> None:
    if len(content) > most_bytes:
        raise UnusableError(f"more than {most_bytes:,} bytes")


def read_link(link: str, downloader: Downloader, stopped: Event | None = None) -> bytes:
    """Return the image that a link leads to, from the cache or downloaded.

    Args:
        link: for http or https.
        downloader: its limit on bytes is also one on what is in the cache.
        stopped: ends the download soon, when it is set.

    Raises:
        UnusableError: it leads to no image.
        StoppedError: `stopped` was set while the download waited.
    """
    if (content := cache.find(link)) is not None:
        _check_size(content, downloader.limits.most_bytes)
        return content
    try:
        content = downloader.get(link, stopped)
        identify(content)
    except UnusableError as error:
        if error.lasting:
            cache.keep_failure(link, error.reason)
        raise
    cache.keep(link, content)
    return content
