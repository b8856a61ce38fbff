"""The images that were downloaded, on disk.

    images/content/AB/HASH    the bytes of an image, by their SHA-256
    images/links/AB/HASH      what a link led to, by the SHA-256 of the link

Files appear under their names when they are complete, and the hash of an image is checked when it is read. So a process
can be killed at any moment, and several processes can share the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

from pricekit.plugin import cache_folder, logger, temporary_path
from pricekit_images.unusable import UnusableError

FAILURE_SECONDS = 86_400.0
"""A link that led to nothing is tried again after this time."""


def find(link: str) -> bytes | None:
    """Return the image that a link led to; None if it must be fetched.

    Raises:
        UnusableError: the link led to nothing lately.
    """
    try:
        record = json.loads(_place("links", _digest(link.encode())).read_text("utf-8"))
        if "failed" in record:
            if 0 <= time.time() - float(record["at"]) < FAILURE_SECONDS:
                raise UnusableError(str(record["failed"]))
            return None
        content = _place("content", str(record["sha256"])).read_bytes()
    except (OSError, ValueError, KeyError, TypeError):  # missing or damaged
        return None
    return content if _digest(content) == record["sha256"] else None


def keep(link: str, content: bytes) -> None:
    """Store the image that a link led to; a folder that cannot be written only causes a warning."""
    digest = _digest(content)
    place = _place("content", digest)
    if not _contains(place, content):
        _write(place, content)
    _write_record(link, {"sha256": digest, "bytes": len(content)})


def keep_failure(link: str, reason: str) -> None:
    """Store that a link leads to nothing."""
    _write_record(link, {"failed": reason, "at": time.time()})


def _contains(place: Path, content: bytes) -> bool:
    try:
        return place.stat().st_size == len(content) and place.read_bytes() == content
    except OSError:
        return False


def _write_record(link: str, record: dict[str, object]) -> None:
    _write(_place("links", _digest(link.encode())), json.dumps({"link": link, **record}).encode())


def _place(kind: str, digest: str) -> Path:
    if not digest.isalnum():  # of a damaged record
        raise ValueError(digest)
    return cache_folder() / "images" / kind / digest[:2] / digest


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_warned: set[str] = set()


def _write(path: Path, content: bytes) -> None:
    """Write a file and rename it, without waiting for the disk: a lost file is fetched again."""
    temporary = temporary_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True) if path.parent.is_dir() else None
        if not _warned:
            _warned.add("")
            logger.warning(
                f"images are not cached: {path} cannot be written ({error}); free space, or choose another folder with "
                "PRICEKIT_CACHE"
            )
