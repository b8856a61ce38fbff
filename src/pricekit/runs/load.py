"""The single loader for runs, ensembles and bundles. Only the first two import torch."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.errors import BundleError, ConfigError
from pricekit.io.record import kind_of
from pricekit.options import model_path

if TYPE_CHECKING:
    from pricekit.predict.keys import Trust
    from pricekit.predict.members import BundleReader
    from pricekit.predict.predictor import Predictor
    from pricekit.table import Columns

_EXPECTED = "expected the folder of a run, an ensemble or a bundle"


class ModelReader:
    """A model in a folder, which is read and opened when that is first needed, and once. Threads may share it.

    Args:
        path: the folder of a run, an ensemble or a bundle.
        engine: the engine of a bundle; None or "auto" is the fastest on this machine, measured the first time.
        trust: the keys one of which must have signed the bundle; None: no signature is needed.

    Attributes:
        digest: that the bundle must have; None: any.
    """

    def __init__(
        self,
        path: Path,
        engine: str | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.path, self.engine, self.trust = path, engine, trust
        self.digest: str | None = None
        self._lock = threading.RLock()
        self._bundle: BundleReader | None = None
        self._predictor: Predictor | None = None

    @classmethod
    def of(cls, predictor: Predictor) -> ModelReader:
        """Return the reader of a model that was opened from its folder."""
        assert predictor.origin is not None
        reader = cls(predictor.origin.path, predictor.origin.engine)
        reader._predictor = predictor
        return reader

    @property
    def is_open(self) -> bool:
        """Whether the model prices rows already."""
        return self._predictor is not None

    @property
    def columns(self) -> Columns:
        """The columns that the model reads, to check a table before engines are measured; errors as of `open`."""
        return self.bundle().columns if self._is_unopened_bundle() else self.open().columns

    def bundle(self) -> BundleReader:
        """Read the bundle and check it, without its engine; raises BundleError, PluginError."""
        from pricekit.predict.members import read_bundle

        with self._lock:
            if self._bundle is None:
                bundle = read_bundle(self.path, self.trust)
                if self.digest not in (None, bundle.bundle.digest):
                    raise BundleError(
                        f"the bundle {self.path} has changed since it was loaded; load it again",
                        path=self.path,
                    )
                self._bundle = bundle
            return self._bundle

    def open(self) -> Predictor:
        """Open a run or an ensemble in torch, or a bundle in its engine.

        Raises:
            BundleError: the folder contains no model, or a damaged bundle, or no trusted key has signed it.
            ConfigError: an engine other than "auto" is given for a run or an ensemble.
            PluginError: a plugin that the model needs is missing.
            TrainingError: the run is not finished.
        """
        from pricekit.predict.predictor import Origin, Predictor

        with self._lock:
            if self._predictor is None and self._is_unopened_bundle():
                self._predictor = Predictor.from_bundle(self.bundle(), self.engine or "auto")
            if self._predictor is None:
                check_trained(self.path, self.engine, self.trust)
                origin = Origin(self.path.absolute(), None, load_model)
                self._predictor = replace(_open_trained(self.path), origin=origin)
            return self._predictor

    def _is_unopened_bundle(self) -> bool:
        return self._predictor is None and kind_of(self.path, BundleError) == "bundle"


def reader_of(model: Any, engine: str | None = None) -> ModelReader:
    """Return the reader of what users call a model: that of a `pricekit.Model`, or a new one for a path.

    Args:
        model: the model or its path.
        engine: the engine for a path; a `pricekit.Model` has its own.

    Raises:
        ConfigError: it is no path.
    """
    reader = getattr(model, "_reader", None)
    return reader if isinstance(reader, ModelReader) else ModelReader(model_path(model, "model"), engine)


def open_predictor(model: Any, engine: str | None = None) -> Predictor:
    """Open what users call a model; arguments as of `reader_of`, errors as of `ModelReader.open`."""
    return reader_of(model, engine).open()


def load_model(path: str | Path, engine: str | None = None, trust: Trust | None = None) -> Predictor:
    """Open a model; arguments and errors are those of `ModelReader` and its `open`."""
    return ModelReader(Path(path), engine, trust).open()


def check_trained(path: Path, engine: str | None, trust: Trust | None) -> None:
    """Raise an error unless a folder that is no bundle is a run or an ensemble; errors as of `ModelReader.open`."""
    from pricekit.predict.keys import not_signed

    if trust is not None:
        raise not_signed(path)
    kind = kind_of(path)
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise BundleError(f"the model {path} {state}; {_EXPECTED}", path=path)
    if kind == "cross-validation":
        raise BundleError(
            f"the folder {path} is a cross-validation, which has one model per fold: combine them into an ensemble, "
            f"or use one of them, such as {path / 'fold-0'}",
            path=path,
        )
    if kind == "search":
        raise BundleError(
            f"the folder {path} is a search; use the model that it chose, {path / 'run'}", path=path
        )
    if kind not in ("run", "ensemble"):
        raise BundleError(
            f"the folder {path} contains no model: its pricekit.json is missing, or of another program; {_EXPECTED}",
            path=path,
        )
    if engine not in (None, "auto"):
        raise ConfigError(
            f"the engine {engine} is for bundles, but {path} is a run, which uses torch; export it as a bundle, or "
            "omit the engine",
            parameters=("engine",),
            engine=engine,
        )


def _open_trained(path: Path) -> Predictor:
    from pricekit.runs.opened import open_ensemble, open_run

    return (open_ensemble(path) if kind_of(path) == "ensemble" else open_run(path)).predictor()
