"""The bundle: a folder that predicts without torch and transformers.

    pricekit.json     tells that the folder is a bundle
    manifest.json     schema version, hashes of all other files, plugins, metrics
    model.onnx        input_ids, attention_mask, features -> price
    tokenizer.json    a `tokenizers` tokenizer
    preprocess.json   columns, length, feature plugins with their fitted state
    asset-HASH.onnx, asset-HASH.bin    files that features need, see `pricekit.features.assets`; most bundles have none
    intervals.json    what intervals and quantiles of prices are made of; a model of transformers has none
    comparables.parquet, comparables.json    products with prices and their index; most bundles have none
    sketch.json       what tables are compared with, see `pricekit.insight`; a model of transformers has none
    self_test.json    invented rows and their prices; none if a feature cannot price them
    README.md         the model card
    signature.json    who wrote the manifest, see `keys.py`; unsigned bundles have none

A bundle with several members has a graph, a tokenizer and a preprocess.json for each member, under the names in its
manifest.

The reader checks the hash of each file, then the limits of its contents, before parsing it. It reads no other file of
the folder.

docs/bundle.schema.json is the JSON schema of the manifest:

    python -m pricekit.predict.bundle > docs/bundle.schema.json
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from pricekit.errors import BundleError, DataError, first_invalid_field
from pricekit.features.assets import is_asset
from pricekit.features.preprocess import LONGEST_NAME, MOST_FEATURES
from pricekit.io.cpus import available_memory
from pricekit.io.digests import LISTING, DamagedError, check_files, list_files
from pricekit.io.files import RECORD, delete_abandoned, new_folder, write_atomically
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.io.record import FORMAT, kind_of, record_of
from pricekit.io.staging import new_or_replaced, read_whole
from pricekit.io.storage import Address, cache_folder, download, fingerprints_below
from pricekit.predict.keys import (
    MAX_SIGNATURE_BYTES,
    SIGNATURE,
    SigningKey,
    Trust,
    check_signature,
    not_signed,
    sign_manifest,
)
from pricekit.predict.limits import COMMON_JSON, check_json, check_members, check_sizes
from pricekit.wording import shorten

MANIFEST = "manifest.json"
PARTS = {"model": "model.onnx", "tokenizer": "tokenizer.json", "preprocess": "preprocess.json"}
"""The parts of a member, and their files in a bundle with one member."""
MAX_MANIFEST_BYTES = 1 << 20
_LONGEST_NAME = 80

MOST_MEMBERS = 64
MOST_WIDTH = 1_000_000
"""Numbers in the vector of a row."""

TOLERANCE = 1e-6
"""The largest difference of the sum of the members' weights from 1."""


MOST_FILES, MOST_FACTS, MOST_PLUGINS = 1_000, 100, 1_000
"""Of a manifest: files; counts of rows, and metrics; plugins."""

Text = Annotated[str, Field(max_length=100)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Metrics = Annotated[dict[Text, float], Field(max_length=MOST_FACTS)]


class FileFacts(BaseModel):
    """Hash and size of a file."""

    sha256: Text = Field(description="of its contents, in hexadecimal")
    bytes: int = Field(ge=0, description="its size")


class PluginFacts(BaseModel):
    """A plugin that the model was trained with; prediction needs only the features."""

    kind: Text
    name: Name
    package: Name
    version: Text


class Verified(BaseModel):
    """How the graph compares with its model."""

    shapes: list[tuple[int, int]] = Field(max_length=1_000, description="rows and tokens of each batch")
    max_relative_difference: float = Field(description="the largest relative difference of a price")
    smape_change: float = Field(description="on the sample rows, in points, against torch float32")
    batch_sensitivity_relative_difference: float = Field(
        description="largest relative difference between a row's price alone and in a batch"
    )
    batch_sensitivity_share_of_sd: float = Field(
        description="the same for log prices, as a share of their standard deviation"
    )
    embedding_difference: float | None = Field(
        None,
        description="the largest distance of a row's two vectors, relative to the mean length; null: no vectors",
    )


class RefitFacts(BaseModel):
    """The second pass of a training, on all rows."""

    rows: int = Field(description="rows that it was trained on, those of the validation included")
    epochs: int = Field(description="as many as were best in the first pass, which the metrics are of")


class TransformersFacts(BaseModel):
    """A regressor that was trained with transformers."""

    architecture: Text = Field(description="the class of transformers, such as BertForSequenceClassification")
    target: Text = Field(
        description="what it predicts: log, log1p or price; (target - mean) / std is its output"
    )
    mean: float
    std: float = Field(gt=0)


class MemberFacts(BaseModel):
    """One of several models whose log prices are averaged by weight."""

    weight: float = Field(gt=0, le=1, description="of its log price; those of all members sum to 1")
    model: Text = Field(description="its graph: a name among the files")
    tokenizer: Text = Field(description="its tokenizer")
    preprocess: Text = Field(description="its columns, length and features")
    metrics: Metrics = Field(description="on its own held-out rows")
    embedding_width: int | None = Field(
        None,
        ge=1,
        le=MOST_WIDTH,
        description="numbers of a row in its graph's output `embedding`; null: it has no such output",
    )
    verified: Verified


class Manifest(BaseModel, extra="allow"):
    """The facts that readers of bundles rely on; a manifest may contain others."""

    schema_version: int = Field(ge=FORMAT, le=FORMAT, description="a reader refuses any other")
    files: dict[str, FileFacts] = Field(
        max_length=MOST_FILES, description="every file but the manifest, by its name in the folder"
    )
    members: list[MemberFacts] | None = Field(
        None,
        min_length=1,
        max_length=MOST_MEMBERS,
        description="the models whose log prices are averaged; a bundle with one model lists none",
    )
    pricekit_version: Text = Field(description="the version that wrote the bundle")
    created: Text = Field(description="date and time of the export, ISO 8601, UTC")
    precision: Literal["fp32", "fp16", "int8"] = Field(description="of the graph's products")
    float32_nodes: list[Name] = Field(
        description="nodes of an fp16 graph that stay in float32 because they would overflow; for "
        "several graphs, each name starts with the member's number",
    )
    opset: int = Field(description="of the graph")
    transformers: TransformersFacts | None = Field(
        None, description="of a model that pricekit has not trained; its table, rows and metrics are unknown"
    )
    table: Name | None = Field(
        description="name of the file that the model was trained on, without folders; null: unknown"
    )
    currency: Text | None = Field(description="of the predicted prices, as found in the training table")
    price_unit: Text | None = Field(
        None, description="what each price is for, such as m2 or month; null: totals"
    )
    rows: dict[Text, int] = Field(max_length=MOST_FACTS, description="trained on, validated on, unusable")
    best_epoch: int | None = Field(
        None,
        description="of one model: the epoch whose weights these are; after a refit, the number of its epochs",
    )
    refit: RefitFacts | None = Field(
        None, description="of a model that a second pass trained; metrics and intervals are of the first"
    )
    metrics: Metrics = Field(description="on the validation rows")
    metric: Text | None = Field(description="what the training minimised, one of `metrics`; null: unknown")
    constant_score: float | None = Field(
        description="that metric of the best constant price, on the same rows; null: unknown"
    )
    plugins: list[PluginFacts] = Field(max_length=MOST_PLUGINS)
    training_rows_in: list[Name] | None = Field(
        None,
        max_length=MOST_FEATURES,
        description="features whose state contains texts, words of texts, or prices of single training rows",
    )
    comparables: int | None = Field(
        None, ge=1, description="products with prices that the bundle contains, to show beside a price"
    )
    embedding_width: int | None = Field(
        None,
        ge=1,
        le=MOST_WIDTH,
        description="numbers in the vector of a row, those of all members; null: it was exported without",
    )
    verified: Verified
    sha256: Text = Field(description="of the other values, as JSON with sorted keys")

    @field_validator("members")
    @classmethod
    def _weights_sum_to_one(cls, members: list[MemberFacts] | None) -> list[MemberFacts] | None:
        if members and abs(sum(member.weight for member in members) - 1) > TOLERANCE:
            raise ValueError("the weights of the members do not sum to 1")
        return members

    @model_validator(mode="after")
    def _knows_its_training(self) -> Manifest:
        if not self.transformers and None in (self.table, self.metric, self.constant_score):
            raise ValueError("table, metric or constant_score is null")
        return self


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
    content = source.read_bytes()
    if trust is not None:
        check_signature(path, content, trust)
    try:
        manifest = dict(json.loads(content.decode("utf-8")))
        version = manifest.get("schema_version")
        if version != FORMAT:
            shown = f"the schema version {shorten(repr(version), 40)}"
            shown = shown if isinstance(version, int | float | str) else "no schema version"
            raise BundleError(
                f"{source} has {shown}, but this pricekit reads the schema version {FORMAT}; export the run again",
                path=str(path),
            )
        Manifest.model_validate_json(content, strict=True)
    except (ValueError, TypeError, RecursionError) as error:
        raise BundleError(
            f"{source} is damaged: it is not a bundle's manifest{first_invalid_field(error)}; export it again"
        ) from None
    if manifest["sha256"] != digest_of(manifest):
        raise BundleError(
            f"{source} was altered: its SHA-256 differs from its own; copy or export the bundle again"
        )
    return manifest, sha256(content)


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Return the hash of a manifest's values, other than the hash itself."""
    values = {name: value for name, value in manifest.items() if name != "sha256"}
    return sha256(json.dumps(values, sort_keys=True).encode())


def sha256(content: bytes) -> str:
    """Return the hash of a file's contents, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    print(json_schema(), end="")


_NOT_READ = re.compile(r"last(-\d+)?\.safetensors")
"""Checkpoints, from which only training continues."""


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
            ({plain: self.files[name] for plain, name in names.items()} | assets, weight)
            for names, weight in _members(self.manifest)
        ]

    def embedding_widths(self) -> list[int | None]:
        """Return the width of the vectors of each member; None for a member without them."""
        return [member.get("embedding_width") for member in self.manifest.get("members") or [self.manifest]]


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
    files = {RECORD: record_of("bundle"), **files}
    listed = {name: {"sha256": sha256(content), "bytes": len(content)} for name, content in files.items()}
    manifest = {"schema_version": FORMAT, **facts, "files": listed}
    manifest["sha256"] = digest_of(manifest)
    text = (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode()
    _check_sizes(manifest, "the bundle")
    if len(text) > MAX_MANIFEST_BYTES:
        raise BundleError(f"its manifest has {len(text):,} bytes; expected {MAX_MANIFEST_BYTES:,} at most")
    signature = {} if key is None else {SIGNATURE: sign_manifest(text, key)}
    with new_or_replaced(path) as folder:
        for name, content in {**files, **signature, MANIFEST: text}.items():
            (folder / name).write_bytes(content)
    return manifest


def is_bundle(path: Path) -> bool:
    """Return whether a folder is a bundle."""
    return kind_of(path, BundleError) == "bundle"


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
    parts = [name for names, _ in _members(manifest) for name in names.values()]
    common = () if manifest.get("transformers") else ("intervals.json", "sketch.json")
    for name in (*parts, *common, RECORD):
        if name not in listed:
            raise BundleError(f"the bundle {path} lists no {shorten(name)} in its manifest; export it again")
    check_listed_files(path, manifest)
    same: dict[str, bytes] = {}
    files = {
        name: same.setdefault(facts["sha256"], _read_file(path, name, facts))
        for name, facts in listed.items()
    }
    if files[RECORD] != record_of("bundle"):
        raise BundleError(
            f"{path / RECORD} is not the record of a bundle; do not trust it, or export the run again"
        )
    bundle = Bundle(path, manifest, files, digest)
    with _limits_of(path) as where:
        check_members([files for files, _ in bundle.members()], where)
        for name in files.keys() & COMMON_JSON:
            check_json(files[name], name, where)
    return bundle


def _members(manifest: Mapping[str, Any]) -> list[tuple[dict[str, str], float]]:
    """Return the file names of each member, by those in a bundle with one member, and its weight."""
    members = manifest.get("members") or [
        {**PARTS, "weight": 1.0}
    ]  # a manifest does not list a single member
    return [
        ({plain: member[part] for part, plain in PARTS.items()}, float(member["weight"]))
        for member in members
    ]


def _check_sizes(manifest: Mapping[str, Any], where: str) -> int:
    """Return the bytes of all files that a manifest lists; raise BundleError if they would exceed the limits."""
    sizes = {name: facts["bytes"] for name, facts in manifest["files"].items()}
    check_sizes(sizes, [names for names, _ in _members(manifest)], where)
    return sum(sizes.values())


def check_listed_files(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise BundleError if a manifest lists files outside its folder, or more than the limits or the memory allow."""
    for name in manifest["files"]:
        plain = Path(name).name == name and "\\" not in name and name not in ("", ".", "..")
        if not plain or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise BundleError(
                f"the bundle {path} names the file {shorten(repr(name), _LONGEST_NAME)}, which is outside its folder, "
                "too long or not printable; do not trust it"
            )
        if name in (MANIFEST, SIGNATURE):
            raise BundleError(f"the bundle {path} lists its own {name} among its files; do not trust it")
    with _limits_of(path) as where:
        size = _check_sizes(manifest, where)
    if size > (available := available_memory()):
        raise BundleError(
            f"the files of the bundle {path} have {size:,} bytes, but only {available:,.0f} bytes of memory are "
            "available; end other programs, or open it on a larger machine",
            path=path,
        )


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


def _read_file(path: Path, name: str, facts: Mapping[str, Any]) -> bytes:
    file = path / name
    if file.is_symlink() or not file.is_file():
        raise BundleError(f"the bundle {path} lacks {name}, or it is a link; copy the whole bundle again")
    size = file.stat().st_size
    if size != facts["bytes"]:
        raise BundleError(
            f"{file} was altered or truncated: its {size:,} bytes differ from the size in the manifest; "
            "copy or export the bundle again"
        )
    content = file.read_bytes()
    if sha256(content) != facts["sha256"]:
        raise BundleError(
            f"{file} was altered: its SHA-256 differs from the manifest's; copy or export the bundle again"
        )
    return content


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
    state = _state(address)
    sizes = {name: int(str(facts[0])) for name, facts in state.items()}
    has_manifest = MANIFEST in state
    if trust is not None and not has_manifest:
        raise not_signed(address)
    if not has_manifest and RECORD not in state:
        reason = "contains no model" if state else "does not exist"
        raise BundleError(f"{address} {reason}; expected the folder of a run, an ensemble or a bundle")
    if has_manifest:  # which tells the hashes of all other files
        state = {name: state[name] for name in (MANIFEST, SIGNATURE) if name in state}
    digest = sha256(json.dumps([address.text, state], sort_keys=True).encode())
    place = cache_folder() / "models" / digest / address.name
    if _is_intact(place):
        if trust is not None:
            with named_as(place, address):
                check_trusted(place, trust)
        return place
    logger.info(f"fetching {address} into the cache: {sum(sizes.values()) / 1e6:,.1f} MB")
    with _new_in_cache(place) as new, named_as(new, address):

        def fetch(name: str) -> None:
            download(address / name, new / name, sizes[name])

        if has_manifest:
            fetch_bundle(new, address, sizes, fetch, trust)
            return place
        for name in sizes:
            if not name.isprintable() or "\\" in name or {"", ".", ".."} & set(name.split("/")):
                raise BundleError(
                    f"{address} has a file {shorten(repr(name))}, whose name is invalid; do not trust it"
                )
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            fetch(name)
        if _state(address) != state:
            raise BundleError(f"{address} was replaced while it was read; try again when nothing writes it")
        try:
            for name in sizes:
                if PurePosixPath(name).name == LISTING:
                    check_files((new / name).parent)
        except DamagedError as error:
            raise BundleError(f"{error}; copy the whole folder again") from None
    return place


def _state(address: Address) -> dict[str, list[object]]:
    """Return size and version of each file that is read of a model, by its path below the folder."""
    facts = fingerprints_below(address).items()
    return {name: each for name, each in facts if not _NOT_READ.fullmatch(PurePosixPath(name).name)}


def fetch_bundle(
    new: Path, source: object, sizes: Mapping[str, int], fetch: Callable[[str], None], trust: Trust | None
) -> None:
    """Fetch the files of a bundle into a new folder, first the manifest and its signature, and check all of them.

    Args:
        new: the folder.
        source: names the bundle in errors.
        sizes: of the files there are, by name.
        fetch: writes a file with a name into the folder.
        trust: the keys one of which must have signed the manifest, before other files are fetched; None: none need to.

    Raises:
        BundleError: the bundle is damaged, or no trusted key has signed it.
    """
    for name, most in ((MANIFEST, MAX_MANIFEST_BYTES), (SIGNATURE, MAX_SIGNATURE_BYTES)):
        if sizes.get(name, 0) > most:
            raise BundleError(f"{name} of {source} has over {most} bytes; do not trust it")
        if name in sizes:
            fetch(name)
    manifest, _ = read_manifest(new, trust)
    check_listed_files(new, manifest)
    listed = manifest["files"]
    for name, facts in listed.items():
        if sizes.get(name) != facts["bytes"]:
            state = f"has {sizes[name]:,}" if name in sizes else "is missing, and has none of its"
            raise BundleError(f"{name} of {source} {state} bytes; the manifest lists {facts['bytes']:,}")
    with progress("fetching", len(listed)) as advance:
        for name in listed:
            fetch(name)
            advance(1, name)
    open_bundle(new, trust)


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
def _new_in_cache(place: Path) -> Iterator[Path]:
    """Yield a new folder for the files of a model, which appears at its place in the cache when it is complete."""
    models = place.parent.parent
    delete_abandoned([models], models)
    with new_folder(place.parent) as temporary:
        new = temporary / place.name
        new.mkdir()
        yield new
        list_files(temporary, [file.relative_to(temporary).as_posix() for file in new.rglob("*")])


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
