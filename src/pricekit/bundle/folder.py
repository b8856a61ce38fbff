"""The bundle: a folder that predicts without torch and transformers.

    manifest.json     schema version, hashes of all other files, plugins, metrics
    model.onnx        input_ids, attention_mask, features -> price
    tokenizer.json    a `tokenizers` tokenizer
    preprocess.json   columns, length, feature plugins with their fitted state
    intervals.json    half widths of the price intervals; older bundles have none
    comparables.parquet, comparables.json    products with prices and their index; most bundles have none
    sketch.json       what tables are compared with, see `pricekit.monitoring`; older bundles have none
    self_test.json    invented rows and their prices; older bundles have none
    README.md         the model card

A bundle with several members has a graph, a tokenizer and a preprocess.json for each member, under the names in its
manifest.

The reader checks the hash of each file, then the limits of its contents, before parsing it. It reads no other file of
the folder. docs/bundle.schema.json is the JSON schema of the manifest:

    python -m pricekit.bundle.folder > docs/bundle.schema.json
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field, field_validator

from pricekit.bundle.limits import COMMON_JSON, check_json, check_members, check_sizes
from pricekit.errors import BundleError, first_invalid_field
from pricekit.support.cpus import available_memory
from pricekit.support.files import others, publish_folder
from pricekit.support.staging import read_whole
from pricekit.support.text import shorten

MANIFEST = "manifest.json"
PARTS = {"model": "model.onnx", "tokenizer": "tokenizer.json", "preprocess": "preprocess.json"}
"""The parts of a member, and their files in a bundle with one member."""
MAX_MANIFEST_BYTES = 1 << 20
_LONGEST_NAME = 80


SCHEMA_VERSION = 2
"""The highest known version: 2 has several members, or rearranged texts; any other bundle is written as 1."""

MOST_MEMBERS = 64

TOLERANCE = 1e-6
"""The largest difference of the sum of the members' weights from 1."""


class FileFacts(BaseModel):
    """Hash and size of a file."""

    sha256: str = Field(description="of its contents, in hexadecimal")
    bytes: int = Field(ge=0, description="its size")


class PluginFacts(BaseModel):
    """A plugin that the model was trained with; prediction needs only the features."""

    kind: str
    name: str
    package: str
    version: str


class Verified(BaseModel):
    """How the graph compares with its model."""

    shapes: list[tuple[int, int]] = Field(description="rows and tokens of each batch")
    max_relative_difference: float = Field(description="the largest relative difference of a price")
    smape_change: float | None = Field(
        None, description="on the sample rows, in points, against torch float32"
    )
    batch_sensitivity_relative_difference: float | None = Field(
        None,
        validation_alias=AliasChoices("batch_sensitivity_relative_difference", "company_relative_difference"),
        description="largest relative difference between a row's price alone and in a batch; bundles of version 0.1 "
        "call it company_relative_difference",
    )
    batch_sensitivity_share_of_sd: float | None = Field(
        None,
        validation_alias=AliasChoices("batch_sensitivity_share_of_sd", "company_share_of_sd"),
        description="the same for log prices, as a share of their standard deviation; bundles of version 0.1 call it "
        "company_share_of_sd",
    )


class RefitFacts(BaseModel):
    """The second pass of a training, on all rows."""

    rows: int = Field(description="rows that it was trained on, those of the validation included")
    epochs: int = Field(description="as many as were best in the first pass, which the metrics are of")


class MemberFacts(BaseModel):
    """One of several models whose log prices are averaged by weight."""

    weight: float = Field(gt=0, le=1, description="of its log price; those of all members sum to 1")
    model: str = Field(description="its graph: a name among the files")
    tokenizer: str = Field(description="its tokenizer")
    preprocess: str = Field(description="its columns, length and features")
    metrics: dict[str, float] | None = Field(None, description="on its own held-out rows")
    verified: Verified | None = None


class Manifest(BaseModel, extra="allow"):
    """The facts that readers of bundles rely on; a manifest may contain others."""

    schema_version: int = Field(ge=1, description="a reader refuses a higher version than it knows")
    files: dict[str, FileFacts] = Field(description="every file but the manifest, by its name in the folder")
    members: list[MemberFacts] | None = Field(
        None,
        min_length=1,
        max_length=MOST_MEMBERS,
        description="of schema version 2: the models whose log prices are averaged",
    )
    pricekit_version: str | None = Field(None, description="the version that wrote the bundle")
    created: str | None = Field(None, description="date and time of the export, ISO 8601, UTC")
    precision: Literal["fp32", "fp16", "int8"] | None = Field(None, description="of the graph's products")
    float32_nodes: list[str] | None = Field(
        None,
        description="nodes of an fp16 graph that stay in float32 because they would overflow; for "
        "several graphs, each name starts with the member's number",
    )
    opset: int | None = Field(None, description="of the graph")
    table: str | None = Field(
        None, description="name of the file that the model was trained on, without folders"
    )
    currency: str | None = Field(None, description="of the predicted prices, as found in the training table")
    rows: dict[str, int] | None = Field(None, description="trained on, validated on, unusable")
    best_epoch: int | None = Field(
        None, description="the epoch whose weights these are; after a refit, the number of its epochs"
    )
    refit: RefitFacts | None = Field(
        None, description="of a model that a second pass trained; metrics and intervals are of the first"
    )
    metrics: dict[str, float] | None = Field(None, description="on the validation rows")
    metric: str | None = Field(
        None,
        description="what the training minimised, one of `metrics`; none: smape, in bundles of version 0.1",
    )
    constant_score: float | None = Field(
        None,
        validation_alias=AliasChoices("constant_score", "constant_smape"),
        description="that metric of the best constant price, on the same rows; bundles of version 0.1 call it "
        "constant_smape",
    )
    plugins: list[PluginFacts] | None = None
    training_rows_in: list[str] | None = Field(
        None,
        description="features whose state contains texts, words of texts, or prices of single training rows",
    )
    comparables: int | None = Field(
        None, ge=1, description="products with prices that the bundle contains, to show beside a price"
    )
    verified: Verified | None = None
    sha256: str | None = Field(
        None, description="of the other values, as JSON with sorted keys; older bundles have none"
    )

    @field_validator("members")
    @classmethod
    def _weights_sum_to_one(cls, members: list[MemberFacts] | None) -> list[MemberFacts] | None:
        if members and abs(sum(member.weight for member in members) - 1) > TOLERANCE:
            raise ValueError("the weights of the members do not sum to 1")
        return members


def json_schema() -> str:
    """Return the JSON schema of the manifest."""
    return json.dumps(Manifest.model_json_schema(), indent=2) + "\n"


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
        """Return each member's files, named as in a bundle with one member, and its weight."""
        return [
            ({plain: self.files[member[part]] for part, plain in PARTS.items()}, float(member["weight"]))
            for member in _members(self.manifest)
        ]


def write_bundle(
    path: Path, files: Mapping[str, bytes], facts: Mapping[str, Any], *, schema_version: int = 1
) -> dict[str, Any]:
    """Write a complete bundle or nothing; return its manifest.

    Args:
        path: the folder; an existing one is replaced.
        files: contents by file name.
        facts: the values of the manifest other than schema version and hashes.
        schema_version: the lowest version whose readers predict the right prices.

    Raises:
        BundleError: the bundle would exceed the limits of those that are read.
    """
    listed = {name: {"sha256": _sha256(content), "bytes": len(content)} for name, content in files.items()}
    manifest = {"schema_version": schema_version, **facts, "files": listed}
    manifest["sha256"] = _digest_of(manifest)
    text = (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode()
    check_sizes({name: len(content) for name, content in files.items()}, _names(manifest), "the bundle")
    if len(text) > MAX_MANIFEST_BYTES:
        raise BundleError(f"its manifest has {len(text):,} bytes; expected {MAX_MANIFEST_BYTES:,} at most")
    publish_folder(path, {**files, MANIFEST: text})
    return manifest


def is_bundle(path: Path) -> bool:
    """Return whether a folder looks like a bundle."""
    return (path / MANIFEST).is_file()


def unlisted_files(path: Path) -> list[str]:
    """Return the names of files in a bundle's folder that its manifest does not list; raises BundleError."""
    return others(path, [MANIFEST, *read_manifest(path)[0]["files"]])


def open_bundle(path: Path) -> Bundle:
    """Read a bundle and check every file's size, hash and limits; raises BundleError."""
    return read_whole(path, _open_bundle)


def _open_bundle(path: Path) -> Bundle:
    manifest, digest = read_manifest(path)
    listed = manifest["files"]
    required = [member[part] for member in _members(manifest) for part in PARTS]
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


def read_manifest(path: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest of a bundle's folder and its hash; raises BundleError."""
    source = path / MANIFEST
    if not path.exists():
        raise BundleError(f"the bundle {path} does not exist; check the path", path=path)
    if not source.is_file():
        raise BundleError(
            f"{path} is not a bundle: it has no {MANIFEST}; export the run, or open it with pricekit.load",
            path=path,
        )
    if source.is_symlink() or source.stat().st_size > MAX_MANIFEST_BYTES:
        raise BundleError(f"{source} is a link or over {MAX_MANIFEST_BYTES} bytes; export the bundle again")
    try:
        content = source.read_bytes()
        manifest = json.loads(content.decode("utf-8"))
        version = int(manifest["schema_version"])
        if version <= SCHEMA_VERSION:
            Manifest.model_validate_json(content, strict=True)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(
            f"{source} is damaged: it is not a bundle's manifest{first_invalid_field(error)}; export it again"
        ) from None
    if version > SCHEMA_VERSION:
        raise BundleError(
            f"the bundle {path} has schema version {version}, this pricekit reads up to {SCHEMA_VERSION}; "
            "upgrade pricekit, or export the run again with this version"
        )
    if "sha256" in manifest and manifest["sha256"] != _digest_of(manifest):
        raise BundleError(
            f"{source} was altered: its SHA-256 differs from its own; copy or export the bundle again"
        )
    return dict(manifest), _sha256(content)


def _digest_of(manifest: Mapping[str, Any]) -> str:
    """Return the hash of a manifest's values, other than the hash itself."""
    values = {name: value for name, value in manifest.items() if name != "sha256"}
    return _sha256(json.dumps(values, sort_keys=True).encode())


def check_name(path: Path, name: str) -> None:
    """Raise BundleError unless a manifest's name is that of a file inside its folder."""
    plain = Path(name).name == name and "\\" not in name and name not in ("", ".", "..")
    if not plain or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise BundleError(
            f"the bundle {path} names the file {shorten(repr(name), _LONGEST_NAME)}, which is outside its folder, too "
            "long or not printable; do not trust it"
        )


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
    if _sha256(content) != facts.get("sha256"):
        raise BundleError(
            f"{file} was altered: its SHA-256 differs from the manifest's; copy or export the bundle again"
        )
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    print(json_schema(), end="")
