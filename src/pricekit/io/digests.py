"""Digests that reveal damaged files: a checksum inside each checkpoint, and a list for the other files of a folder.

A safetensors file that `seal` has processed contains its checksum, in the entry "checksum" of its header's metadata.
`files.json` lists size and SHA-256 of the files of a folder, or the checksum of a sealed one, and its own SHA-256.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pricekit.io.files import write_text

LISTING = "files.json"
SEAL = {"checksum": "0" * 32}
"""The metadata that `seal` needs in the header of a safetensors file."""

_SEAL = re.compile(rb'(?<!\\)"checksum":"(.{32})"', re.DOTALL)
_MOST_HEADER_BYTES = 100 << 20
_BLOCK_BYTES = 256 << 10
"""Of a file at a time, which fits into a CPU's cache."""


_OF_DAMAGE = {
    errno.EIO,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EBADMSG,
    getattr(errno, "EUCLEAN", 0),
}
"""Errors of a disk, and of a file that is missing or is a folder."""


class DamagedError(ValueError):
    """A file is not as it was written; the message names it."""


def tells_damage(error: OSError) -> bool:
    """Return whether an error says that a file is damaged or missing; others, such as too many open files, pass."""
    return error.errno in _OF_DAMAGE


def seal(path: Path) -> None:
    """Write the checksum of a safetensors file into its header, where `SEAL` has zeros."""
    with path.open("r+b", buffering=0) as file:
        header, place = _header_of(file)
        if place is None:
            raise ValueError(f"{path} has no place for a checksum")
        checksum = _checksum(header, place, file)
        file.seek(place)
        file.write(checksum)


def check_seal(path: Path) -> str:
    """Compare a safetensors file with its checksum; return the checksum, "" if it has none.

    Raises:
        DamagedError: they differ.
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        header, place = _header_of(file)
        if place is None:
            return ""
        checksum = header[place : place + len(SEAL["checksum"])]
        if _checksum(header, place, file) != checksum:
            raise DamagedError(
                f"{path} was altered or damaged: its checksum differs from the one in its header"
            )
    return checksum.decode()


def _header_of(file: BinaryIO) -> tuple[bytes, int | None]:
    """Return the bytes before the tensors, at most those of the largest valid header, and the checksum's place."""
    size = file.read(8)
    header = size + file.read(min(int.from_bytes(size, "little"), _MOST_HEADER_BYTES))
    checksum = _SEAL.search(header)
    return header, None if checksum is None else checksum.start(1)


def _checksum(header: bytes, place: int, tensors: BinaryIO) -> bytes:
    """Return 32 hexadecimal digits: the XXH3 hash, of 128 bits, of a file whose checksum at `place` counts as zeros.

    XXH3 finds accidental damage as a SHA-256 does, but does not resist intent. It takes a tenth of the time: a SHA-256
    would take several percent of the training time of a small model.

    Args:
        header: of the safetensors file.
        place: of the checksum in it.
        tensors: the file behind the header. It is not mapped: a disk that cannot be read would then end the process.
    """
    import xxhash  # installed with the extra "train", as safetensors is

    zeros = SEAL["checksum"].encode()
    digest = xxhash.xxh3_128(header[:place] + zeros + header[place + len(zeros) :])
    block = memoryview(bytearray(_BLOCK_BYTES))
    while size := tensors.readinto(block):  # type: ignore[attr-defined]
        digest.update(block[:size])
    return digest.hexdigest().encode()


def list_files(folder: Path, names: Iterable[str], coming: Mapping[str, str] | None = None) -> None:
    """Add files to a folder's `files.json`, which is created if it is absent.

    Args:
        folder: of the files.
        names: of the files; those that do not exist are left out.
        coming: texts of files that are about to be written, by name.

    Raises:
        DamagedError: the existing `files.json` is damaged.
    """
    listed = read_listing(folder) or {}
    for name in names:
        if (folder / name).is_file():
            listed[name] = _facts_of(folder / name)
    for name, text in (coming or {}).items():
        content = text.encode()
        listed[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_text(folder / LISTING, _listing(listed))


def write_listed(folder: Path, name: str, value: Any, others: Iterable[str], indent: int = 2) -> None:
    """Write the JSON file that says that a folder is complete, after its `files.json` lists it and the others.

    Args:
        folder: of the files.
        name: of the JSON file.
        value: of the JSON file.
        others: names of files that `list_files` adds.
        indent: of the JSON file.
    """
    text = json.dumps(value, indent=indent) + "\n"
    list_files(folder, others, {name: text})
    write_text(folder / name, text)


def unlist_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files, which are about to change, from a folder's `files.json`; raises DamagedError."""
    listed = read_listing(folder)
    if listed is not None and not listed.keys().isdisjoint(names := set(names)):
        rest = {name: facts for name, facts in listed.items() if name not in names}
        write_text(folder / LISTING, _listing(rest))


def _listing(listed: dict[str, dict[str, Any]]) -> str:
    return json.dumps({"files": listed, "sha256": _digest_of_list(listed)}, indent=1) + "\n"


def read_listing(folder: Path) -> dict[str, dict[str, Any]] | None:
    """Return size and digest of a folder's files by name; None if it has no `files.json`; raises DamagedError."""
    path = folder / LISTING
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text("utf-8"))
        listed: dict[str, dict[str, Any]] = record["files"]
        if record["sha256"] == _digest_of_list(listed):
            return listed
    except OSError as error:
        if not tells_damage(error):
            raise
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise DamagedError(f"{path} was altered or damaged: it does not match its own SHA-256")


def is_listed(folder: Path, name: str) -> bool:
    """Return whether there is a file, and the folder's `files.json`, if it has one, lists it; raises DamagedError."""
    return (folder / name).is_file() and name in (read_listing(folder) or {name: {}})


def check_files(folder: Path, names: Iterable[str] | None = None) -> None:
    """Compare files with a folder's `files.json`; those that it does not list are not checked.

    Args:
        folder: of the files.
        names: of the files; None: all that are listed.

    Raises:
        DamagedError: a file is damaged or missing, or `files.json` is damaged.
        OSError: a file cannot be read now.
    """
    listed = read_listing(folder) or {}
    known = [name for name in (listed if names is None else names) if name in listed]
    wrong = [name for name in known if not _has_facts(folder / name, listed[name])]
    if len(wrong) > 1 and wrong == known:
        raise DamagedError(f"{folder / LISTING} belongs to another folder: none of the files is as it says")
    if wrong:
        path = folder / wrong[0]
        if not path.is_file():
            raise DamagedError(f"{path} is missing: {LISTING} lists it")
        raise DamagedError(f"{path} was altered or damaged: its digest differs from the one in {LISTING}")


def _has_facts(path: Path, facts: dict[str, Any]) -> bool:
    try:
        return _facts_of(path) == facts
    except (DamagedError, OSError) as error:
        if isinstance(error, OSError) and not tells_damage(error):
            raise
        return False


def _facts_of(path: Path) -> dict[str, Any]:
    """Return the size of a file, and its SHA-256, or for a sealed file the checksum inside it; raises DamagedError."""
    size = {"bytes": path.stat().st_size}
    if path.suffix == ".safetensors" and (checksum := check_seal(path)):
        return {**size, "checksum": checksum}
    with path.open("rb") as file:
        return {**size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _digest_of_list(listed: dict[str, dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()
