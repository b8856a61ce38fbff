"""What is at a location: files, folders, sizes, and fingerprints that change when a file is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pricekit.storage.address import Address, Location
from pricekit.storage.connect import call, connect, explained

Item = TypeVar("Item")

WILD = frozenset("*?[")
"""The letters that make a pattern."""

_VERSIONS = ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "created")
"""What the providers call the facts that change when a file is replaced, the most reliable first."""
_WITH_BUCKETS = frozenset({"s3", "gs"})
_AT_A_TIME = 16
"""Requests for the facts of many files."""


def facts_of(address: Address) -> dict[str, Any] | None:
    """Return what the provider says about a remote file or folder; None if there is nothing; raises DataError."""
    with explained(address, "read"):
        try:
            return dict(call(address, "info"))
        except FileNotFoundError:
            return None


def exists(location: Location) -> bool:
    """Return whether there is a file or folder; a stream exists; raises DataError if the provider refuses to tell."""
    if isinstance(location, Path):
        return location.exists()
    return location.is_stream or facts_of(location) is not None


def is_folder(location: Location) -> bool:
    """Return whether there is a folder; on an object store, a prefix of existing files; raises DataError."""
    if isinstance(location, Path):
        return location.is_dir()
    return not location.is_stream and (facts_of(location) or {}).get("type") == "directory"


def check_bucket(address: Address) -> None:
    """Raise DataError if a file cannot be written because its bucket is missing; one without rights to look passes."""
    if address.scheme not in _WITH_BUCKETS:
        return
    start, _, rest = address.text.partition("://")
    bucket = Address(f"{start}://{rest.partition('/')[0]}")
    with explained(address, "written", "out"), suppress(PermissionError):
        call(bucket, "info")


def files_below(folder: Location) -> list[Location]:
    """Return all files in a folder and its subfolders, sorted; local links without a target count; raises DataError."""
    if isinstance(folder, Path):
        return _without_folders(folder.rglob("*"))
    with explained(folder, "read"):
        return _addresses(folder, call(folder, "find"))


def is_pattern(location: Location) -> bool:
    """Return whether a location has a letter that makes a pattern; a file of that name may exist."""
    return bool(WILD & set(str(location)))


def split_pattern(pattern: Location) -> tuple[Location, PurePath]:
    """Return the folder in which a pattern begins to vary, and the pattern below it."""
    if isinstance(pattern, Path):
        fixed = Path(*takewhile(lambda part: not WILD & set(part), pattern.parts))
        return fixed, pattern.relative_to(fixed)
    head, _, rest = pattern.text.partition("://")
    start = "/".join(takewhile(lambda part: not WILD & set(part), rest.split("/")))
    folder = Address(f"{head}://{start}")
    return folder, pattern.relative_to(folder)


def matching(pattern: Location) -> list[Location]:
    """Return the files that match a pattern, in which `**` is any number of folders, sorted; raises DataError."""
    folder, varying = split_pattern(pattern)
    if isinstance(folder, Path):
        return _without_folders(folder.glob(str(varying)))
    assert isinstance(pattern, Address)
    with explained(pattern, "read"):
        found = call(pattern, "glob", detail=True)
        return _addresses(folder, (path for path, facts in found.items() if facts["type"] != "directory"))


def _without_folders(paths: Iterable[Path]) -> list[Location]:
    return sorted(path for path in paths if path.is_file() or not path.exists())


def _addresses(folder: Address, paths: Iterable[str]) -> list[Location]:
    """Return the addresses of paths below a folder, sorted; the provider's paths lack scheme, server and account.

    Some tools write empty objects that stand for folders, whose names end with a slash; they are omitted.
    """
    start = str(connect(folder)._strip_protocol(folder.text)).rstrip("/")
    return sorted(folder / path.removeprefix(start).lstrip("/") for path in paths if not path.endswith("/"))


def size_of(location: Location) -> int:
    """Return the bytes of a file; 0 if it is missing or a stream; raises DataError."""
    if isinstance(location, Path):
        return location.stat().st_size if location.exists() else 0
    return 0 if location.is_stream else int((facts_of(location) or {}).get("size") or 0)


def fingerprint(location: Location) -> list[object]:
    """Return values that change when a file is replaced: its name, size, and time or entity tag; [] if it is missing.

    They are plain JSON. A stream has only its name. Raises DataError if the provider refuses to tell.

    Example:
        >>> fingerprint(Path("a missing file"))
        []
    """
    if isinstance(location, Path):
        if not location.exists():
            return []
        facts = location.stat()
        return [str(location.absolute()), facts.st_size, facts.st_mtime_ns]
    if location.is_stream:
        return [location.text]
    found = facts_of(location)
    return [] if found is None else [location.text, *version_of(found)]


def fingerprints_below(folder: Address) -> list[list[object]]:
    """Return the fingerprints of all files below a remote folder by one request, sorted by name; raises DataError."""
    with explained(folder, "read"):
        found = call(folder, "find", detail=True)
    return [[name, *version_of(facts)] for name, facts in sorted(found.items())]


def version_of(facts: dict[str, Any]) -> list[object]:
    """Return size and version from what a provider says about a file."""
    version = next((facts[name] for name in _VERSIONS if facts.get(name) is not None), None)
    return [facts.get("size"), str(version)]


def for_all(function: Callable[[Location], Item], locations: Sequence[Location]) -> list[Item]:
    """Return what a function of this module returns for each location; remote ones are asked several at a time."""
    if len(locations) < 2 or isinstance(locations[0], Path):
        return [function(location) for location in locations]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(function, locations))
