"""The number of the formats of runs and bundles, and its check.

Until version 0.2.0 is released, every change of what a run or a bundle means raises the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pricekit.errors import BundleError, TrainingError
from pricekit.support.text import shorten

FORMAT = 4


def check_run_format(facts: Mapping[str, Any], folder: Path) -> None:
    """Raise TrainingError unless the facts of a run, an ensemble, a cross-validation or a search have this format."""
    if facts.get("format") != FORMAT:
        raise TrainingError(
            f"{folder} has {_found(facts, 'format')}, but this pricekit reads the format {FORMAT}; train again",
            path=str(folder),
        )


def check_bundle_format(manifest: Mapping[str, Any], folder: Path) -> None:
    """Raise BundleError unless the manifest of a bundle has this schema version."""
    if manifest.get("schema_version") != FORMAT:
        raise BundleError(
            f"the bundle {folder} has {_found(manifest, 'schema version')}, but this pricekit reads the schema version "
            f"{FORMAT}; export the run again",
            path=str(folder),
        )


def _found(facts: Mapping[str, Any], title: str) -> str:
    found = facts.get(title.replace(" ", "_"))
    return (
        f"the {title} {shorten(repr(found), 40)}" if isinstance(found, int | float | str) else f"no {title}"
    )
