"""Assets: files that a feature needs at prediction, such as the graph of an encoder.

A top-level value of a fitted state that is `bytes` is an asset. Runs and bundles store it as a file of its own whose
name contains the hash of its contents, so equal assets are one file, and preprocess.json names the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pricekit.core.contracts import State
from pricekit.errors import BundleError, PluginError
from pricekit.wording import shorten

MOST_ASSETS = 16
"""Assets of a feature."""
ASSET_BYTES = (2 << 30) - 1
"""Bytes of an asset; protocol buffers have no more."""
GRAPH = ".onnx"
"""The ending of a name whose asset is an ONNX graph, which is checked like the bundle's own."""

_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}(\.[a-z0-9]{1,8})?")
_FILE = re.compile(r"asset-[0-9a-f]{64}\.(onnx|bin)")


def is_asset(file: str) -> bool:
    """Return whether a file name is that of an asset.

    >>> is_asset("asset-" + "0" * 64 + ".onnx"), is_asset("model.onnx")
    (True, False)
    """
    return _FILE.fullmatch(file) is not None


def assets_in(folder: Path) -> list[str]:
    """Return the names of the assets in a folder, sorted."""
    return sorted(file.name for file in folder.iterdir() if is_asset(file.name)) if folder.is_dir() else []


def file_of(key: str, content: bytes) -> str:
    """Return the file name of an asset."""
    return f"asset-{hashlib.sha256(content).hexdigest()}{_ending(key)}"


def _ending(key: str) -> str:
    return GRAPH if key.endswith(GRAPH) else ".bin"


def split_state(state: Mapping[str, Any]) -> tuple[State, dict[str, bytes]]:
    """Return the other values of a state, and its assets by key."""
    assets = {key: value for key, value in state.items() if isinstance(value, bytes)}
    return {key: value for key, value in state.items() if key not in assets}, assets


def check_assets(name: str, assets: Mapping[str, bytes]) -> None:
    """Raise PluginError unless a bundle can hold the assets of a feature."""
    problem = ""
    if len(assets) > MOST_ASSETS:
        problem = f"{len(assets)} assets; expected {MOST_ASSETS} at most"
    for key, content in assets.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            problem = f"the asset {shorten(repr(key), 80)}; expected a name such as 'encoder.onnx'"
        elif len(content) > ASSET_BYTES:
            problem = f"the asset '{key}' of {len(content):,} bytes; expected {ASSET_BYTES:,} at most"
    if problem:
        raise PluginError(
            f"the fitted state of the feature '{name}' has {problem}; report it to the plugin's author"
        )


def read_assets(feature: str, named: Mapping[str, str], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the assets of a feature by key.

    Args:
        feature: its name, for errors.
        named: the file of each key, from preprocess.json.
        files: the contents of the files of a run or bundle by name.

    Raises:
        BundleError: a file is missing, or its name is not that of such an asset.
    """
    for key, file in named.items():
        right = _KEY.fullmatch(key) and is_asset(file) and file.endswith(_ending(key))
        if not right or file not in files:
            raise BundleError(
                f"the asset {shorten(repr(key), 80)} of the feature '{feature}' is missing: "
                f"{shorten(repr(file), 80)} is no file of the model; copy the whole folder again, or train again"
            )
    return {key: files[file] for key, file in named.items()}


def graphs_among(files: Iterable[str]) -> list[str]:
    """Return the names of assets that are ONNX graphs."""
    return [name for name in files if is_asset(name) and name.endswith(GRAPH)]
