"""A predictor in another process: opened again from its folder, or from a bundle that travels by value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.bundle import Bundle, is_bundle, open_bundle
from pricekit.errors import BundleError, ConfigError
from pricekit.prediction.members import BundleReader

if TYPE_CHECKING:
    from pricekit.prediction.predictor import Predictor

_opened: dict[tuple[object, ...], Predictor] = {}
"""The last predictor of this process, by what it was opened from."""


@dataclass(frozen=True)
class Shipped:
    """Opens a bundle whose files it contains; the hashes were checked where they were read.

    Attributes:
        bundle: the files.
        engine: the engine.
        batch_tokens: the sizes of batches of each member, on which the last bits of prices depend.
    """

    bundle: Bundle = field(repr=False)
    engine: str
    batch_tokens: tuple[int, ...]

    @classmethod
    def of(cls, predictor: Predictor) -> Shipped:
        """Return the bundle that a predictor was loaded from.

        Raises:
            ConfigError: it was not loaded from a bundle.
            BundleError: the bundle has changed since.
        """
        origin = predictor.origin
        if origin is None or origin.engine is None or not is_bundle(origin.path):
            raise ConfigError(
                "only a bundle can be sent to other machines; export the run, and predict with the bundle",
                parameters=("model",),
            )
        bundle = open_bundle(origin.path)
        if bundle.digest != predictor.digest:
            raise BundleError(
                f"the bundle {origin.path} has changed since it was loaded; load it again", path=origin.path
            )
        return cls(bundle, origin.engine, predictor.batch_tokens)

    def __call__(self) -> Predictor:
        """Return the predictor, which a process opens once; raises PluginError if it lacks a plugin or an engine."""
        key = (self.bundle.digest, self.engine, self.batch_tokens)
        if key not in _opened:
            predictor = _open(self.bundle, self.engine).with_batches(self.batch_tokens)
            _opened.clear()
            _opened[key] = predictor
        return _opened[key]


def _open(bundle: Bundle, engine: str) -> Predictor:
    from pricekit.prediction.predictor import Predictor

    return Predictor.from_bundle(BundleReader.of(bundle), engine)


@dataclass(frozen=True)
class Origin:
    """Where a predictor was loaded from.

    Attributes:
        path: the absolute path of the model's folder.
        engine: the engine in which to load it again; None for a run, which uses torch.
        load: a picklable function of path and engine that loads the model again.
    """

    path: Path
    engine: str | None
    load: Callable[[Path, Any], Predictor]


@lru_cache(maxsize=1)  # a pool that sends a predictor with each task opens it once
def reopen(
    load: Callable[[Path, Any], Predictor],
    path: Path,
    digest: str,
    engine: str | None,
    batch_tokens: tuple[int, ...],
) -> Predictor:
    """Open a pickled predictor in this process; raises BundleError if the model has changed.

    The batches have the same sizes, because the last bits of a price depend on its batch.
    """
    found = load(path, engine)
    if found.digest != digest:
        raise BundleError(
            f"the model {path} has changed since its predictor was pickled; load and pickle the new model",
            path=path,
        )
    return found.with_batches(batch_tokens)
