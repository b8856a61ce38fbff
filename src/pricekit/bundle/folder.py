"""The bundle: a folder that predicts without torch and transformers.

    manifest.json     schema version, hashes of all other files, plugins, metrics
    model.onnx        input_ids, attention_mask, features -> price
    tokenizer.json    a `tokenizers` tokenizer
    preprocess.json   columns, length, feature plugins with their fitted state
    asset-HASH.onnx, asset-HASH.bin    files that features need, see `pricekit.features.assets`; most bundles have none
    intervals.json    half widths of the price intervals
    comparables.parquet, comparables.json    products with prices and their index; most bundles have none
    sketch.json       what tables are compared with, see `pricekit.monitoring`
    self_test.json    invented rows and their prices; none if a feature cannot price them
    README.md         the model card
    signature.json    who wrote the manifest, see `signature.py`; unsigned bundles have none

A bundle with several members has a graph, a tokenizer and a preprocess.json for each member, under the names in its
manifest.

The reader checks the hash of each file, then the limits of its contents, before parsing it. It reads no other file of
the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pricekit.bundle.keys import SigningKey, Trust
from pricekit.bundle.limits import COMMON_JSON, check_json, check_members, check_sizes
from pricekit.bundle.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    PARTS,
    check_name,
    digest_of,
    listed_files,
    read_manifest,
    sha256,
)
from pricekit.bundle.signature import SIGNATURE, not_signed, sign_manifest
from pricekit.errors import BundleError
from pricekit.features.assets import is_asset
from pricekit.formats import FORMAT
from pricekit.support.cpus import available_memory
from pricekit.support.files import others, publish_folder, write_atomically
from pricekit.support.staging import read_whole
from pricekit.support.text import shorten


@dataclass(frozen=True)
class Bundle:
    """A bundle in memory. The parsed bytes are those that were checked, even if the folder changes.

    Attributes:
        path: the folder that it was read from.
        manifest: the contents of manifest.json.
        files: the contents of all other files by name; each matches its hash. Equal contents are one object.
        digest: hash of the manifest, and so of all files.
    """

    path: Path
    manifest: dict[str, Any] = field(repr=False)
    files: dict[str, bytes] = field(repr=False)
    digest: str

    def members(self) -> list[tuple[dict[str, bytes], float]]:
        """Return each member's files, named as in a bundle with one member, with all assets, and its weight."""
        assets = {name: content for name, content in self.files.items() if is_asset(name)}
        return [
            (
                {plain: self.files[member[part]] for part, plain in PARTS.items()} | assets,
                float(member["weight"]),
            )
            for member in _members(self.manifest)
        ]


def write_bundle(
    path: Path,
    files: Mapping[str, bytes],
    facts: Mapping[str, Any],
    *,
    key: SigningKey | None = None,
) -> dict[str, Any]:
    """Write a complete bundle or nothing; return its manifest.

    Args:
        path: the folder; an existing one is replaced.
        files: contents by file name.
        facts: the values of the manifest other than schema version and hashes.
        key: signs the manifest; None: nobody does.

    Raises:
        BundleError: the bundle would exceed the limits of those that are read.
    """
    listed = {name: {"sha256": sha256(content), "bytes": len(content)} for name, content in files.items()}
    manifest = {"schema_version": FORMAT, **facts, "files": listed}
    manifest["sha256"] = digest_of(manifest)
    text = (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode()
    check_sizes({name: len(content) for name, content in files.items()}, _names(manifest), "the bundle")
    if len(text) > MAX_MANIFEST_BYTES:
        raise BundleError(f"its manifest has {len(text):,} bytes; expected {MAX_MANIFEST_BYTES:,} at most")
    signature = {} if key is None else {SIGNATURE: sign_manifest(text, key)}
    publish_folder(path, {**files, **signature, MANIFEST: text})
    return manifest


def is_bundle(path: Path) -> bool:
    """Return whether a folder looks like a bundle."""
    return (path / MANIFEST).is_file()


def unlisted_files(path: Path) -> list[str]:
    """Return the names of files in a bundle's folder that its manifest, of any format, does not list.

    Raises:
        BundleError: there is no manifest of a bundle.
    """
    return others(path, [MANIFEST, SIGNATURE, *listed_files(path)])


def open_bundle(path: Path, trust: Trust | None = None) -> Bundle:
    """Read a bundle and check every file's size, hash and limits.

    Args:
        path: its folder.
        trust: the keys one of which must have signed it; None: no signature is needed.

    Raises:
        BundleError: it is damaged, exceeds the limits, or no trusted key has signed it.
    """
    return read_whole(path, partial(_open_bundle, trust=trust))


def check_trusted(path: Path, trust: Trust) -> None:
    """Raise BundleError unless a model's folder is a bundle that a trusted key has signed; read no other file."""
    if path.is_dir() and not is_bundle(path):
        raise not_signed(path)
    read_whole(path, partial(read_manifest, trust=trust))


def sign_bundle(path: Path, key: SigningKey) -> None:
    """Sign a bundle that is intact; an existing signature is replaced.

    Raises:
        BundleError: it is damaged.
    """
    content = files_of_bundle(open_bundle(path))[MANIFEST]
    with write_atomically(path / SIGNATURE) as temporary:
        temporary.write_bytes(sign_manifest(content, key))


def files_of_bundle(bundle: Bundle) -> dict[str, bytes]:
    """Return the contents of every file of a bundle by name, to copy it: also its manifest and signature.

    Raises:
        BundleError: its folder was replaced since it was opened.
    """
    manifest = (bundle.path / MANIFEST).read_bytes()
    if sha256(manifest) != bundle.digest:
        raise BundleError(
            f"the bundle {bundle.path} was replaced while it was read; try again", path=bundle.path
        )
    signature = bundle.path / SIGNATURE
    signed = {SIGNATURE: signature.read_bytes()} if signature.is_file() else {}
    return {MANIFEST: manifest, **signed, **bundle.files}


def _open_bundle(path: Path, trust: Trust | None) -> Bundle:
    manifest, digest = read_manifest(path, trust)
    listed = manifest["files"]
    parts = [member[part] for member in _members(manifest) for part in PARTS]
    required = [*parts, "intervals.json", "sketch.json"]
    for name in required:
        if name not in listed:
            raise BundleError(f"the bundle {path} lists no {shorten(name)} in its manifest; export it again")
    check_listed_sizes(path, manifest)
    same: dict[str, bytes] = {}
    files = {
        name: same.setdefault(facts["sha256"], _read_file(path, name, facts))
        for name, facts in listed.items()
    }
    bundle = Bundle(path, manifest, files, digest)
    with _limits_of(path) as where:
        check_members([files for files, _ in bundle.members()], where)
        for name in files.keys() & COMMON_JSON:
            check_json(files[name], name, where)
    return bundle


def check_listed_sizes(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise BundleError if the files that a manifest lists would exceed the limits, or the memory."""
    sizes = {name: facts["bytes"] for name, facts in manifest["files"].items()}
    with _limits_of(path) as where:
        check_sizes(sizes, _names(manifest), where)
    if (size := sum(sizes.values())) > (available := available_memory()):
        raise BundleError(
            f"the files of the bundle {path} have {size:,} bytes, but only {available:,.0f} bytes of memory are "
            "available; end other programs, or open it on a larger machine",
            path=path,
        )


def _names(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the file names of each member, by the names that they have in a bundle with one member."""
    return [{plain: member[part] for part, plain in PARTS.items()} for member in _members(manifest)]


@contextmanager
def _limits_of(path: Path) -> Iterator[str]:
    """Yield the words for a bundle, and add what to do to an error about its limits."""
    try:
        yield f"the bundle {path}"
    except BundleError as error:
        raise BundleError(
            f"{error}. pricekit exports no such bundle: do not trust it, or export the run again",
            path=path,
            **error.facts,
        ) from None


def _members(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the members of a manifest; a manifest does not list a single member."""
    members: list[dict[str, Any]] = manifest.get("members") or [{**PARTS, "weight": 1.0}]
    return members


def _read_file(path: Path, name: str, expected: Any) -> bytes:
    file = path / name
    check_name(path, name)
    if file.is_symlink() or not file.is_file():
        raise BundleError(f"the bundle {path} lacks {name}, or it is a link; copy the whole bundle again")
    facts = expected if isinstance(expected, dict) else {}
    size = file.stat().st_size
    if size != facts.get("bytes"):
        raise BundleError(
            f"{file} was altered or truncated: its {size:,} bytes differ from the size in the manifest; "
            "copy or export the bundle again"
        )
    content = file.read_bytes()
    if sha256(content) != facts.get("sha256"):
        raise BundleError(
            f"{file} was altered: its SHA-256 differs from the manifest's; copy or export the bundle again"
        )
    return content
