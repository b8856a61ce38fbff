"""What was measured of a bundle's engines on this machine, cached in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import re
import shutil
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pricekit.core.loader import registry
from pricekit.cpus import usable_cpus
from pricekit.files import write_text
from pricekit.log import logger

_ENGINE_EXTRA = re.compile("extra == .(?:cpu|gpu)")


@dataclass(frozen=True)
class EngineRecord:
    """Results for one graph; they hold until the machine or an engine changes.

    Attributes:
        path: of the JSON file.
        fastest: the engine that `auto` chose; "" before a measurement.
        batch_tokens: the fastest batch size by engine, in tokens.
        checked: engines whose prices agree with the reference.
        without_gpu: there was an NVIDIA GPU that could not be used.
    """

    path: Path
    fastest: str = ""
    batch_tokens: dict[str, int] = field(default_factory=dict)
    checked: tuple[str, ...] = ()
    without_gpu: bool = False

    def save(self, **changes: Any) -> None:
        """Write the record with some changes; if that is impossible, the engines are measured again next time."""
        changed = replace(self, **changes)
        found = {
            "machine": _machine(),
            "fastest": changed.fastest,
            "batch_tokens": changed.batch_tokens,
            "checked": changed.checked,
            "without_gpu": changed.without_gpu,
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, json.dumps(found) + "\n")
        except OSError as error:
            logger.warning(
                f"the measurements cannot be cached in {self.path.parent}: {error.strerror or error}."
            )


def read_record(path: Path) -> EngineRecord:
    """Read a record; an empty one if there is none for this machine or the file is damaged."""
    try:
        found = json.loads(path.read_text("utf-8"))
        if found["machine"] != _machine():
            return EngineRecord(path)
        sizes = {str(name): int(tokens) for name, tokens in found["batch_tokens"].items()}
        checked = tuple(map(str, found.get("checked", sizes)))
        return EngineRecord(path, str(found["fastest"]), sizes, checked, bool(found.get("without_gpu")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return EngineRecord(path)


def _machine() -> str:
    """Return a hash of the processor, the usable CPUs, and the versions of engines and their libraries."""
    model = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    names = [line for line in model.splitlines() if line.startswith("model name")][:1] or [model]
    engines = [(entry.name, entry.package, entry.version) for entry in registry().of_kind("engine")]
    libraries = {package: _library_versions(package) for _, package, _ in engines}
    text = json.dumps(
        [platform.machine(), names, usable_cpus(), shutil.which("nvidia-smi"), engines, libraries]
    )
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _library_versions(package: str) -> dict[str, str]:
    """Return the versions of an engine package's requirements; of pricekit, those of the extras `cpu` and `gpu`."""
    found = {}
    with contextlib.suppress(metadata.PackageNotFoundError, ValueError):  # a file given with --plugin
        for requirement in metadata.requires(package) or []:
            if package == "pricekit" and not _ENGINE_EXTRA.search(requirement):
                continue
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(name)
    return found
