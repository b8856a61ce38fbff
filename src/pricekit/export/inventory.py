"""The inventory of a bundle: a CycloneDX document (cyclonedx.org, version 1.6) of what it consists of and needs.

It lists pricekit and the packages that a prediction needs, with their versions at the export; the pretrained weights
that training started with; and the other files with their hashes. A licence that nothing states is `unknown`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pricekit import __version__
from pricekit.core.contracts import UNKNOWN_WEIGHTS, WeightsSource
from pricekit.core.loader import registry
from pricekit.predict.bundle import sha256
from pricekit.runs.opened import LoadedRun

INVENTORY = "inventory.cdx.json"
UNKNOWN = "unknown"
_ENGINES = ("onnxruntime", "onnxruntime-gpu")
_LONGEST_LICENCE = 100


@dataclass(frozen=True)
class Weights:
    """What the weights of a member come from.

    Attributes:
        model: the name of the backbone or the architecture.
        source: pretrained weights; None: the weights were random.
        description: of these weights.
    """

    model: str
    source: WeightsSource | None
    description: str


def weights_of(runs: Sequence[LoadedRun]) -> list[Weights]:
    """Return what the weights of runs come from: the pretrained ones that the trainings started with."""
    weights = []
    for run in runs:
        chosen = run.config.backbone
        source = registry().create("backbone", chosen.name, chosen.options).weights_source
        if source is UNKNOWN_WEIGHTS:
            source = WeightsSource(f"weights of the backbone {chosen.name}")
        weights.append(Weights(chosen.name, source, f"pretrained weights of the backbone {chosen.name}"))
    return weights


def make_inventory(files: Mapping[str, bytes], facts: Mapping[str, Any], weights: Sequence[Weights]) -> bytes:
    """Return the contents of a bundle's inventory; the same for the same bundle and packages.

    Args:
        files: the bundle's other files by name, without its manifest.
        facts: the values of its manifest.
        weights: of its members.
    """
    names = list(dict.fromkeys(each.model for each in weights))
    model = Component(
        name=f"{' and '.join(names)} price model",
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref="model",
        properties=[Property(name="pricekit:precision", value=facts["precision"])],
    )
    # A prediction needs the packages of the features; the package of a plugin in a file is no installed one.
    features = [plugin["package"] for plugin in facts["plugins"] if plugin["kind"] == "feature"]
    packages = ["pricekit", *_ENGINES, *features]
    parts = [*_libraries(packages), *_weights(weights), *map(_file, files, files.values())]
    metadata = BomMetaData(component=model, timestamp=datetime.fromisoformat(facts["created"]))
    digest = sha256(json.dumps([facts["created"], *map(sha256, files.values())]).encode())
    bom = Bom(components=parts, metadata=metadata, serial_number=uuid5(NAMESPACE_URL, f"pricekit:{digest}"))
    bom.register_dependency(model, parts)
    return (JsonV1Dot6(bom).output_as_string(indent=2) + "\n").encode()


def _libraries(names: Iterable[str]) -> Iterator[Component]:
    """Yield installed packages and all that they need, each once."""
    waiting, seen = list(names), set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            package = distribution(name)
        except PackageNotFoundError:  # an engine that is not installed, or pricekit from its sources
            if name == "pricekit":
                yield _library(name, __version__, "MIT")
            continue
        version = __version__ if name == "pricekit" else package.version
        yield _library(name, version, _licence(package))
        needed = map(Requirement, package.requires or [])
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]


def _library(name: str, version: str, licence: str) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"package {name}",
        purl=PackageURL("pypi", name=name, version=version),
        licenses=_licences(licence),
    )


def _licence(package: Distribution) -> str:
    """Return what a package states about its licence: an SPDX expression, a classifier or a short text."""
    stated = package.metadata.get_all("License-Expression") or []
    classified = [
        classifier.rpartition(" :: ")[2]
        for classifier in package.metadata.get_all("Classifier") or []
        if classifier.startswith("License :: ") and classifier.count(" :: ") > 1
    ]
    written = [
        text
        for text in package.metadata.get_all("License") or []
        if text.isprintable() and len(text) <= _LONGEST_LICENCE
    ]
    return next(iter([*stated, *classified, *written]), UNKNOWN)


def _licences(licence: str) -> list[License]:
    if licence == UNKNOWN:
        return [DisjunctiveLicense(name=UNKNOWN)]
    return [LicenseFactory().make_from_string(licence)]


def _weights(weights: Sequence[Weights]) -> Iterator[Component]:
    """Yield pretrained weights, each once."""
    seen = set()
    for each in weights:
        source = each.source
        if source is not None and source not in seen:
            seen.add(source)
            yield Component(
                name=source.name,
                type=ComponentType.MACHINE_LEARNING_MODEL,
                bom_ref=f"weights {source.name}",
                description=each.description,
                licenses=_licences(source.licence or UNKNOWN),
            )


def _file(name: str, content: bytes) -> Component:
    return Component(
        name=name,
        type=ComponentType.FILE,
        bom_ref=f"file {name}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256(content))],
        properties=[Property(name="pricekit:bytes", value=str(len(content)))],
    )
