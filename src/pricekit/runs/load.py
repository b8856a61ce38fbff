"""The one loader: a run, an ensemble or a bundle to a predictor; torch is imported only for the first two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pricekit.errors import BundleError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pricekit.prediction.predictor import Predictor
    from pricekit.table import Columns


_EXPECTED = "expected the folder of pricekit train --out or of pricekit export --out"


def load_model(
    path: Path, engine: str | None = None, look: Callable[[Columns], None] = lambda _: None
) -> Predictor:
    """Open a bundle in an engine, or a run with torch; raises BundleError and others.

    `look` is given the columns that a bundle reads before an engine is chosen, which may take seconds.
    """
    from pricekit.bundle import is_bundle
    from pricekit.prediction.predictor import Predictor

    if is_bundle(path):
        return Predictor.load(path, engine or "auto", look)
    if not path.is_dir():
        state = "is a file" if path.exists() else "is not there"
        raise BundleError(f"the model {path} {state}; {_EXPECTED}")
    from pricekit.runs.ensemble import is_ensemble, open_ensemble
    from pricekit.runs.folder import is_run, open_run

    if is_ensemble(path) and not engine:
        return open_ensemble(path).predictor()
    if (path / "cv.toml").is_file():
        raise BundleError(
            f"the folder {path} is of pricekit cv, which has a model for each fold: make them one with "
            f"pricekit ensemble, or give one of them, such as {path / 'fold-0'}"
        )
    if not is_run(path) and not is_ensemble(path):
        raise BundleError(f"the folder {path} holds neither a bundle nor a run; {_EXPECTED}")
    if engine:
        raise ConfigError(
            f"--engine {engine} is for bundles, and {path} is a run, which runs in torch; make a bundle of it with "
            f"pricekit export {path} --out BUNDLE"
        )
    return open_run(path).predictor()
