"""The single loader for runs, ensembles and bundles. Only the first two import torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pricekit.errors import BundleError, ConfigError

if TYPE_CHECKING:
    from pricekit.bundle.keys import Trust
    from pricekit.prediction.predictor import Predictor
    from pricekit.table import Columns

_EXPECTED = "expected the folder of a run, an ensemble or a bundle"


@dataclass(frozen=True)
class ModelReader:
    """A model that was read, but whose engine is not yet open.

    Attributes:
        columns: the columns that it reads, to check a table before engines are measured.
        open: returns the predictor.
    """

    columns: Columns
    open: Callable[[], Predictor]


def load_model(path: str | Path, engine: str | None = None, trust: Trust | None = None) -> Predictor:
    """Open a run or an ensemble in torch, or a bundle in an engine.

    Args:
        path: the folder of a run, an ensemble or a bundle.
        engine: the engine of a bundle; None or "auto" is the fastest on this machine, measured the first time.
        trust: the keys one of which must have signed the bundle; None: no signature is needed.

    Raises:
        BundleError: the folder contains no model, or a damaged bundle, or no trusted key has signed it.
        ConfigError: an engine other than "auto" is given for a run or an ensemble.
        PluginError: a plugin that the model needs is missing.
        TrainingError: the run is not finished.
    """
    return read_model(path, engine, trust).open()


def read_model(path: str | Path, engine: str | None = None, trust: Trust | None = None) -> ModelReader:
    """Read a model without opening its engine; arguments and errors are those of `load_model`."""
    from pricekit.bundle import is_bundle
    from pricekit.bundle.keys import not_signed
    from pricekit.prediction.members import read_bundle
    from pricekit.prediction.predictor import Origin, Predictor

    path = Path(path)
    if is_bundle(path):
        reader = read_bundle(path, trust)
        return ModelReader(reader.columns, lambda: Predictor.from_bundle(reader, engine or "auto"))
    if trust is not None:
        raise not_signed(path)
    predictor = replace(_open_trained(path, engine), origin=Origin(path.absolute(), None, load_model))
    return ModelReader(predictor.columns, lambda: predictor)


def _open_trained(path: Path, engine: str | None) -> Predictor:
    """Open a run or an ensemble."""
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise BundleError(f"the model {path} {state}; {_EXPECTED}", path=path)
    from pricekit.output import kind_of
    from pricekit.runs.opened import open_ensemble, open_run

    kind = kind_of(path)
    if kind == "cross-validation":
        raise BundleError(
            f"the folder {path} is a cross-validation, which has one model per fold: combine them into an ensemble, "
            f"or use one of them, such as {path / 'fold-0'}",
            path=path,
        )
    if kind not in ("run", "ensemble"):
        raise BundleError(f"the folder {path} contains no model; {_EXPECTED}", path=path)
    if engine not in (None, "auto"):
        raise ConfigError(
            f"the engine {engine} is for bundles, but {path} is a run, which uses torch; export it as a bundle, or "
            "omit the engine",
            parameters=("engine",),
            engine=engine,
        )
    return (open_ensemble(path) if kind == "ensemble" else open_run(path)).predictor()
