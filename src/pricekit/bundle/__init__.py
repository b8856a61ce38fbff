"""The bundle, a folder that predicts with ONNX Runtime: its manifest, reading and writing."""

from pricekit.bundle.folder import (
    Bundle,
    files_of_bundle,
    is_bundle,
    open_bundle,
    sign_bundle,
    write_bundle,
)
from pricekit.bundle.manifest import MANIFEST, PARTS

__all__ = [
    "MANIFEST",
    "PARTS",
    "Bundle",
    "files_of_bundle",
    "is_bundle",
    "open_bundle",
    "sign_bundle",
    "write_bundle",
]
