"""Remote models: fetched into the cache, by a digest of their files, and checked before each use.

    CACHE/models/DIGEST/files.json    size and SHA-256 of every file below
    CACHE/models/DIGEST/NAME          the bundle, run or ensemble

A bundle's digest is that of its manifest and its signature, and each file must have the hash that the manifest lists.
Any other model is identified by what the provider tells about its files, and the hashes that it lists itself must be
right.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from pricekit.bundle.folder import check_listed_sizes
from pricekit.bundle.keys import Trust
from pricekit.bundle.manifest import MANIFEST, MAX_MANIFEST_BYTES, check_name, read_manifest, sha256
from pricekit.bundle.signature import MAX_SIGNATURE_BYTES, SIGNATURE, not_signed
from pricekit.errors import BundleError, DataError
from pricekit.storage import Address, cache_folder, download, files_below, fingerprint, for_all, size_of
from pricekit.support.digests import LISTING, DamagedError, check_files, list_files
from pricekit.support.files import delete_leftovers, replace_folder, sync, temporary_path
from pricekit.support.log import logger
from pricekit.support.text import shorten

_MARKS = ("run.json", "ensemble.json", "cv.json")
"""A folder with one of these files is a model, or several."""
_NOT_READ = re.compile(r"last(-\d+)?\.safetensors")
"""Checkpoints, from which only training continues."""


def fetch_model(address: Address, trust: Trust | None = None) -> Path:
    """Return the local folder of a remote bundle, run or ensemble: from the cache if it is there and intact.

    Args:
        address: of the folder.
        trust: the keys one of which must have signed the bundle, before its other files are fetched; None: no signature
            is needed.

    Raises:
        BundleError: there is no model, it is damaged, it changes meanwhile, or no trusted key has signed it.
        DataError: the address cannot be read, or the disk is full.
        ConfigError: the package for the scheme is not installed.
    """
    if address.is_stream:
        raise BundleError("a model is a folder, so it cannot be read from standard input; name a folder")
    size = size_of(address / MANIFEST)
    if size:
        return _fetch_bundle(address, size, trust)
    if trust is not None:
        raise not_signed(address)
    return _fetch_run(address)


def _fetch_bundle(address: Address, size: int, trust: Trust | None) -> Path:
    if size > MAX_MANIFEST_BYTES:
        raise BundleError(f"{address / MANIFEST} is over {MAX_MANIFEST_BYTES} bytes; export the bundle again")
    with _new_folder(address) as new, named_as(new, address):
        download(address / MANIFEST, new / MANIFEST, size)
        signature = _fetch_signature(address, new)
        manifest, digest = read_manifest(new, trust)
        place = _place(sha256(digest.encode() + signature) if signature else digest, address)
        if _is_intact(place):
            return place
        for name in manifest["files"]:
            check_name(new, name)
        check_listed_sizes(new, manifest)
        for name, facts in manifest["files"].items():
            download(address / name, new / name, facts["bytes"])
            check_hash(new / name, facts["sha256"])
        signed = [SIGNATURE] if signature else []
        _publish(new, place, [MANIFEST, *signed, *manifest["files"]])
    return place


def _fetch_signature(address: Address, new: Path) -> bytes:
    """Fetch the signature of a bundle; return b"" if it has none, or one that is too long to be read."""
    size = size_of(address / SIGNATURE)
    if not 0 < size <= MAX_SIGNATURE_BYTES:
        return b""
    download(address / SIGNATURE, new / SIGNATURE, size)
    return (new / SIGNATURE).read_bytes()


def check_hash(file: Path, expected: str) -> None:
    """Raise BundleError unless a file has the hash that the manifest lists."""
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != expected:
        raise BundleError(
            f"{file} was altered: its SHA-256 differs from the manifest's; copy or export the bundle again"
        )


def _fetch_run(address: Address) -> Path:
    sizes, digest = _state(address)
    if not any(name in sizes for name in _MARKS):
        found = "contains no model" if sizes else "does not exist"
        raise BundleError(f"{address} {found}; expected the folder of a run, an ensemble or a bundle")
    place = _place(digest, address)
    if _is_intact(place):
        return place
    logger.info(f"fetching {address} into the cache: {sum(sizes.values()) / 1e6:,.1f} MB")
    with _new_folder(address) as new, named_as(new, address):
        for name, size in sizes.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            download(address / name, new / name, size)
        if _state(address)[1] != digest:
            raise BundleError(f"{address} was replaced while it was read; try again when nothing writes it")
        try:
            for name in sizes:
                if PurePosixPath(name).name == LISTING:
                    check_files((new / name).parent)
        except DamagedError as error:
            raise BundleError(f"{error}; copy the whole folder again") from None
        _publish(new, place, list(sizes))
    return place


def _state(address: Address) -> tuple[dict[str, int], str]:
    """Return the size of each file by its path below a folder, and a digest of all that tells a later version."""
    files = [file for file in files_below(address) if not _NOT_READ.fullmatch(file.name)]
    facts_of_files = zip(files, for_all(fingerprint, files), strict=True)
    found = {str(file)[len(str(address)) + 1 :]: facts for file, facts in facts_of_files if facts}
    for name in found:
        if not name.isprintable() or "\\" in name or {"", ".", ".."} & set(name.split("/")):
            raise BundleError(
                f"{address} has a file {shorten(repr(name))}, whose name is invalid; do not trust it"
            )
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return {name: int(str(facts[1])) for name, facts in found.items()}, digest


def _place(digest: str, address: Address) -> Path:
    return cache_folder() / "models" / digest / address.name


def _is_intact(place: Path) -> bool:
    """Return whether the cache contains a model whose files all have their hashes."""
    if not place.is_dir() or not (place.parent / LISTING).is_file():
        return False
    try:
        check_files(place.parent)
    except DamagedError as error:
        logger.warning(f"the cache is damaged, so the model is fetched again: {error}")
        return False
    return True


@contextmanager
def _new_folder(address: Address) -> Iterator[Path]:
    """Yield a temporary folder in the cache for the files of a model, which is deleted unless it was published."""
    models = cache_folder() / "models"
    models.mkdir(parents=True, exist_ok=True)
    delete_leftovers(models / "new", locked=False)
    temporary = temporary_path(models / "new")
    try:
        (temporary / address.name).mkdir(parents=True)
        yield temporary / address.name
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def named_as(new: Path, source: object) -> Iterator[None]:
    """Give errors about a temporary folder the name of the address or the repository that it is a copy of."""
    try:
        yield
    except (BundleError, DataError) as error:
        message = str(error).replace(str(new), str(source))
        if message == str(error):
            raise
        raise type(error)(message, parameters=error.parameters) from error.__cause__


def _publish(new: Path, place: Path, names: list[str]) -> None:
    for name in names:
        sync(new / name)
    list_files(new.parent, [f"{new.name}/{name}" for name in names])
    sync(new)
    replace_folder(new.parent, place.parent)
