"""The models of a server: open bundles, which newer ones replace while requests go on."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pricekit.plugin import ConfigError, PricekitError, logger, shorten
from pricekit.plugin.runners import (
    Address,
    BundleReader,
    Predictor,
    Trust,
    fingerprints_below,
    location_of,
    read_bundle,
    scheme_of,
    table_of,
)
from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits
from pricekit_serve.metrics import Metrics
from pricekit_serve.queues import CallQueue, PriceQueue, Prices
from pricekit_serve.rows import KnownColumns, Rows
from pricekit_serve.sketches import Sketches, recorded

_VERSION_DIGITS = 12


@dataclass(frozen=True, eq=False)
class Model:
    """An open bundle.

    Attributes:
        name: in addresses.
        predictor: prices rows.
        columns: those that rows may have.
        queue: prices rows of several requests together. It ends when nobody holds the model any more.
        details: explains rows and finds comparables in a thread of its own. It ends with the queue.
    """

    name: str
    predictor: Predictor
    columns: KnownColumns
    queue: PriceQueue
    details: CallQueue

    @property
    def version(self) -> str:
        """The beginning of the digest of the bundle."""
        return version_of(self.predictor)


def version_of(predictor: Predictor) -> str:
    """Return the beginning of the digest of a bundle."""
    return str(predictor.digest)[:_VERSION_DIGITS]


def open_model(
    name: str,
    reader: BundleReader,
    engine: str,
    limits: Limits,
    metrics: Metrics,
    sketches: Sketches | None = None,
) -> Model:
    """Open a bundle that was read, run its self-test, and price a row with it.

    Args:
        name: of the model.
        reader: of the bundle.
        engine: in which it is opened.
        limits: of its queue.
        metrics: of the server.
        sketches: of what is priced; None: none are kept.

    Raises:
        BundleError: the bundle cannot be opened, or its self-test fails; or it has no sketch to count rows with.
        PluginError: a feature or an engine is missing or fails.
    """
    predictor = Predictor.from_bundle(reader, engine)
    _check(name, predictor)
    columns = KnownColumns.of(predictor)

    def price(rows: Rows) -> Prices:
        inputs = predictor.prepare(table_of(rows.for_predictor(predictor.columns), predictor.columns))
        price: Prices = predictor.price(inputs)
        return np.column_stack([price, predictor.spread(inputs)]) if rows.spread else price

    price(Rows({column: [""] for column in (*columns.text, *columns.others)}))
    recorder = None if sketches is None else sketches.recorder(name, version_of(predictor), predictor)
    queue = PriceQueue(
        price if recorder is None else recorded(price, recorder),
        limits,
        metrics.of_queue(name),
        None if recorder is None else recorder.finish,
    )
    model = Model(name, predictor, columns, queue, CallQueue(limits.queue_explanations, "details"))
    for each in (model.queue, model.details):
        weakref.finalize(model, each.close)
    metrics.serves(name, predictor.digest, predictor.engine)
    return model


def _check(name: str, predictor: Predictor) -> None:
    """Run the self-test of a bundle that has one; raises BundleError if it fails."""
    if predictor.invented is None:
        logger.warning(
            f"the bundle of the model {name} has no self-test, so nothing checks its prices in the engine "
            f"{predictor.engine}; export it again"
        )
        return
    found = predictor.self_test()
    logger.info(
        f"the model {name} passes its self-test in the engine {found.engine}: {found.rows} prices differ by "
        f"{100 * found.difference:.2g}% at most; the limit is {100 * found.tolerance:g}%"
    )


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

FileStates = tuple[tuple[object, ...], ...]
"""Name, inode, size and time of each file of a bundle; at an address, name, size, and entity tag or time."""


class Models:
    """Models by name. Threads may share it.

    Args:
        bundles: the folder or the address of each bundle, by name; the first one is the default.
        engine: in which they are opened.
        limits: of their queues.
        metrics: of the server.
        sketches: of what is priced; None: none are kept.
        trust: the keys one of which must have signed each bundle, also when it is opened again; None: no signature is
            needed.

    Raises:
        ConfigError: there is no bundle, or a name cannot be used.
        BundleError, PluginError: a bundle cannot be opened, or its self-test fails.
    """

    def __init__(
        self,
        bundles: Mapping[str, str | Path],
        engine: str,
        limits: Limits,
        metrics: Metrics,
        sketches: Sketches | None = None,
        trust: Trust | None = None,
    ) -> None:
        if not bundles:
            raise ConfigError("there is no bundle to serve; name at least one", parameters=("bundles",))
        for name in bundles:
            if not _NAME.fullmatch(name):
                raise ConfigError(
                    f"the name of a model is {name!r}; expected letters, digits, dots, hyphens and underscores",
                    parameters=("bundles",),
                )
        self._paths, self._engine, self._limits, self._metrics = dict(bundles), engine, limits, metrics
        self._sketches, self._trust = sketches, trust
        self._turn = threading.Lock()
        self._unseen: set[str] = set()
        self._seen = {name: _states_now(path) for name, path in self._paths.items()}
        self._models = {name: self._opened(name, None) for name in self._paths}
        self.stopping = False

    @property
    def ready(self) -> bool:
        """Whether new requests are welcome."""
        return not self.stopping

    def all(self) -> list[Model]:
        """Return the models that are served now."""
        return list(self._models.values())

    def get(self, name: str | None, version: str | None = None) -> Model:
        """Return a model, by default the first one; raises RequestError if there is none of that name or version."""
        model = next(iter(self._models.values())) if name is None else self._models.get(name)
        if model is None:
            names = ", ".join(self._models)
            raise RequestError(404, f"there is no model {shorten(repr(name))}; available: {names}")
        if version not in (None, model.version):
            raise RequestError(
                404, f"the model {name} has the version {model.version}, not {shorten(repr(version))}"
            )
        return model

    def changed(self) -> dict[str, FileStates]:
        """Return the files of models, by name, that differ from those of the last attempt to open them.

        An address that cannot be listed is left out, which is logged once.
        """
        found = {}
        for name, path in self._paths.items():
            try:
                states = file_states(path)
            except Exception as error:  # whatever a provider's library raises, the next look may succeed
                if name not in self._unseen:
                    logger.warning(
                        f"the server cannot see whether the bundle of the model {name} was replaced: {error}"
                    )
                self._unseen.add(name)
                continue
            self._unseen.discard(name)
            if states != self._seen[name]:
                found[name] = states
        return found

    def reload(self, names: list[str] | None = None) -> None:
        """Open bundles again, by default all, and let each replace the one before.

        The old model answers until the new one has passed its self-test; requests that it has begun end with it. A
        bundle that cannot be opened or fails is refused: this is logged, and the old model stays.
        """
        with self._turn:
            for name in names or list(self._paths):
                self._seen[name] = _states_now(self._paths[name])
                try:
                    self._replace(name)
                except Exception as error:  # whatever is wrong with the new one, the old one answers
                    self._metrics.reloaded(name, "refused")
                    kind = "" if isinstance(error, PricekitError) else f"{type(error).__name__}: "
                    logger.error(f"the model {name} stays, because its new bundle is refused: {kind}{error}")

    def _replace(self, name: str) -> None:
        old = self._models[name]
        new = self._opened(name, old)
        self._metrics.reloaded(name, "unchanged" if new is old else "replaced")
        if new is not old:
            self._models[name] = new
            logger.info(f"the model {name} is now {new.version}; it was {old.version}")

    def _opened(self, name: str, old: Model | None) -> Model:
        """Open a bundle; return the old model if the bundle is the same."""
        reader = read_bundle(self._paths[name], self._trust)
        if old is not None and old.predictor.digest == reader.bundle.digest:
            return old
        return open_model(name, reader, self._engine, self._limits, self._metrics, self._sketches)


def file_states(path: str | Path) -> FileStates:
    """Return what shows a change of a bundle; () if nothing is there.

    Raises:
        ConfigError: the package for an address is not installed, or its scheme is unknown.
        DataError: an address cannot be listed.
    """
    location = location_of(path, "bundles")
    if isinstance(location, Address):
        return tuple((name, *version) for name, version in fingerprints_below(location).items())
    try:
        found = [(entry.name, entry.stat()) for entry in location.iterdir()]
    except OSError:
        return ()
    return tuple(sorted((name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in found))


def _states_now(path: str | Path) -> FileStates | None:
    """Return the files of a bundle; None if they cannot be listed, which is a matter of those who open it."""
    try:
        return file_states(path)
    except Exception:
        return None


def named(bundles: str | Path | Mapping[str, str | Path]) -> dict[str, str | Path]:
    """Return bundles by name; a single one is called like its folder."""
    if isinstance(bundles, Mapping):
        return dict(bundles)
    name = (
        str(bundles).rstrip("/").rpartition("/")[2]
        if scheme_of(str(bundles))
        else Path(bundles).absolute().name
    )
    return {name if _NAME.fullmatch(name) else "model": bundles}
