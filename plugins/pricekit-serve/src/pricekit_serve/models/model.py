"""One open bundle: checked in the engine that serves it, with the queue that prices its rows."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from pricekit.plugin import logger
from pricekit.plugin.runners import BundleReader, Predictor
from pricekit_serve.limits import Limits
from pricekit_serve.metrics import Metrics
from pricekit_serve.models.queue import CallQueue, PriceQueue, Prices
from pricekit_serve.models.sketches import Sketches, recorded
from pricekit_serve.requests.rows import KnownColumns, Rows

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
        found: Prices = predictor.predict(rows.for_predictor(predictor.columns))
        return found

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
