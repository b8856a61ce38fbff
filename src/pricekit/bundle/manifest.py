"""The manifest of a bundle: what it says, and reading it.

docs/bundle.schema.json is its JSON schema:

    python -m pricekit.bundle.manifest > docs/bundle.schema.json
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator

from pricekit.bundle.keys import SIGNATURE, Trust, check_signature
from pricekit.errors import BundleError, first_invalid_field
from pricekit.support.record import FORMAT
from pricekit.support.text import shorten

MANIFEST = "manifest.json"
PARTS = {"model": "model.onnx", "tokenizer": "tokenizer.json", "preprocess": "preprocess.json"}
"""The parts of a member, and their files in a bundle with one member."""
MAX_MANIFEST_BYTES = 1 << 20
_LONGEST_NAME = 80

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
    smape_change: float = Field(description="on the sample rows, in points, against torch float32")
    batch_sensitivity_relative_difference: float = Field(
        description="largest relative difference between a row's price alone and in a batch"
    )
    batch_sensitivity_share_of_sd: float = Field(
        description="the same for log prices, as a share of their standard deviation"
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
    metrics: dict[str, float] = Field(description="on its own held-out rows")
    verified: Verified


class Manifest(BaseModel, extra="allow"):
    """The facts that readers of bundles rely on; a manifest may contain others."""

    schema_version: int = Field(ge=FORMAT, le=FORMAT, description="a reader refuses any other")
    files: dict[str, FileFacts] = Field(description="every file but the manifest, by its name in the folder")
    members: list[MemberFacts] | None = Field(
        None,
        min_length=1,
        max_length=MOST_MEMBERS,
        description="the models whose log prices are averaged; a bundle with one model lists none",
    )
    pricekit_version: str = Field(description="the version that wrote the bundle")
    created: str = Field(description="date and time of the export, ISO 8601, UTC")
    precision: Literal["fp32", "fp16", "int8"] = Field(description="of the graph's products")
    float32_nodes: list[str] = Field(
        description="nodes of an fp16 graph that stay in float32 because they would overflow; for "
        "several graphs, each name starts with the member's number",
    )
    opset: int = Field(description="of the graph")
    table: str = Field(description="name of the file that the model was trained on, without folders")
    currency: str | None = Field(description="of the predicted prices, as found in the training table")
    rows: dict[str, int] = Field(description="trained on, validated on, unusable")
    best_epoch: int | None = Field(
        None,
        description="of one model: the epoch whose weights these are; after a refit, the number of its epochs",
    )
    refit: RefitFacts | None = Field(
        None, description="of a model that a second pass trained; metrics and intervals are of the first"
    )
    metrics: dict[str, float] = Field(description="on the validation rows")
    metric: str = Field(description="what the training minimised, one of `metrics`")
    constant_score: float = Field(description="that metric of the best constant price, on the same rows")
    plugins: list[PluginFacts]
    training_rows_in: list[str] | None = Field(
        None,
        description="features whose state contains texts, words of texts, or prices of single training rows",
    )
    comparables: int | None = Field(
        None, ge=1, description="products with prices that the bundle contains, to show beside a price"
    )
    verified: Verified
    sha256: str = Field(description="of the other values, as JSON with sorted keys")

    @field_validator("members")
    @classmethod
    def _weights_sum_to_one(cls, members: list[MemberFacts] | None) -> list[MemberFacts] | None:
        if members and abs(sum(member.weight for member in members) - 1) > TOLERANCE:
            raise ValueError("the weights of the members do not sum to 1")
        return members


def json_schema() -> str:
    """Return the JSON schema of the manifest."""
    return json.dumps(Manifest.model_json_schema(), indent=2) + "\n"


def read_manifest(path: Path, trust: Trust | None = None) -> tuple[dict[str, Any], str]:
    """Return the manifest of a bundle's folder and its hash.

    Args:
        path: the folder.
        trust: the keys one of which must have signed it, before it is parsed; None: no signature is needed.

    Raises:
        BundleError: there is no manifest, it is damaged, or no trusted key has signed it.
    """
    content = _manifest_bytes(path)
    if trust is not None:
        check_signature(path, content, trust)
    manifest = _parsed(path, content)
    if manifest["sha256"] != digest_of(manifest):
        raise BundleError(
            f"{path / MANIFEST} was altered: its SHA-256 differs from its own; copy or export the bundle again"
        )
    return manifest, sha256(content)


def _check_format(manifest: Mapping[str, Any], folder: Path) -> None:
    """Raise BundleError unless the manifest of a bundle has this schema version."""
    version = manifest.get("schema_version")
    if version != FORMAT:
        shown = f"the schema version {shorten(repr(version), 40)}"
        shown = shown if isinstance(version, int | float | str) else "no schema version"
        raise BundleError(
            f"{folder / MANIFEST} has {shown}, but this pricekit reads the schema version {FORMAT}; export the run "
            "again",
            path=str(folder),
        )


def _manifest_bytes(path: Path) -> bytes:
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
    return source.read_bytes()


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        manifest = dict(json.loads(content.decode("utf-8")))
        _check_format(manifest, path)
        Manifest.model_validate_json(content, strict=True)
    except (ValueError, TypeError, RecursionError) as error:
        raise BundleError(
            f"{path / MANIFEST} is damaged: it is not a bundle's manifest{first_invalid_field(error)}; export it again"
        ) from None
    return manifest


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Return the hash of a manifest's values, other than the hash itself."""
    values = {name: value for name, value in manifest.items() if name != "sha256"}
    return sha256(json.dumps(values, sort_keys=True).encode())


def check_name(path: Path, name: str) -> None:
    """Raise BundleError unless a manifest's name is that of a file inside its folder."""
    plain = Path(name).name == name and "\\" not in name and name not in ("", ".", "..")
    if not plain or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise BundleError(
            f"the bundle {path} names the file {shorten(repr(name), _LONGEST_NAME)}, which is outside its folder, too "
            "long or not printable; do not trust it"
        )
    if name in (MANIFEST, SIGNATURE):
        raise BundleError(f"the bundle {path} lists its own {name} among its files; do not trust it")


def sha256(content: bytes) -> str:
    """Return the hash of a file's contents, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    print(json_schema(), end="")
