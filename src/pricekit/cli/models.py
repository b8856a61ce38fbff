"""A run or a bundle: both are a MODEL to the commands that read one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pricekit.errors import BundleError

if TYPE_CHECKING:
    from pricekit.predict import Predictor


def open_predictor(path: Path) -> Predictor:
    """Open a bundle with ONNX Runtime, or a run with torch; raises BundleError and others."""
    from pricekit.bundle import is_bundle
    from pricekit.predict import Predictor

    if is_bundle(path):
        return Predictor.load(path)
    if (path / "config.toml").is_file():
        from pricekit.training.run import open_run

        return open_run(path).predictor()
    state = (
        "holds neither a bundle nor a run"
        if path.is_dir()
        else "is not there"
        if not path.exists()
        else "is a file"
    )
    raise BundleError(
        f"the model {path} {state}; expected the folder of pricekit train --out or pricekit export --out"
    )
