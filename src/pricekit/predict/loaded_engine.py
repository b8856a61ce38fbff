"""An engine with a loaded model, and the guard of an engine of another package, which compares its prices.

It compares them with the reference's on the rows that are priced: bundles contain no training rows, so no earlier
check can use real rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np

from pricekit.core.contracts import Batch, Engine, PriceBatch
from pricekit.core.registry import Entry
from pricekit.errors import BundleError, PluginError
from pricekit.features.preprocess import Inputs
from pricekit.io.log import logger
from pricekit.text.tokens import batches_by_length, round_up
from pricekit.wording import shorten

Item = TypeVar("Item")

BATCH_SIZE = 256
"""Maximum number of rows per batch."""

BATCH_TOKENS = Engine.batch_tokens
"""Maximum number of tokens per batch, padding included, for engines without their own default."""


@dataclass(frozen=True)
class LoadedEngine:
    """An engine with a loaded model.

    Attributes:
        name: the name of the engine.
        price_batch: prices one batch.
        length_multiple: lengths are padded to a multiple of this.
        streams: the number of batches that it prices concurrently.
        batch_tokens: the maximum number of tokens per batch, padding included.
        max_length: the maximum padded length.
        guard: compares prices with the reference's; None for an engine of pricekit.
    """

    name: str
    price_batch: PriceBatch = field(repr=False)
    length_multiple: int = 1
    streams: int = 1
    batch_tokens: int = BATCH_TOKENS
    max_length: int | None = None
    guard: Guard | None = field(default=None, repr=False)

    def price(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return the prices of some rows, float32 (N,), and 0 for the others.

        Raises:
            BundleError: a price is missing, not finite or not above 0.
            PluginError: the engine of another package fails, or its prices differ from the reference's.
        """
        prices = np.zeros(len(inputs), np.float32)

        def fill(some: np.ndarray) -> None:
            prices[some] = self.price_rows(inputs, some)

        batches = self.batches(inputs, rows)
        longest_first = batches[::-1]  # so that all streams end at about the same time
        for_each(fill, longest_first, min(self.streams, len(longest_first)))
        if self.guard is not None:
            self.guard.check(self, inputs, batches, prices)
        wanted = prices[rows]
        invalid = int((~is_price(wanted)).sum())
        if not invalid:
            return prices
        fix = "float16 may overflow; export the run in fp32, or choose another engine"
        parameters: tuple[str, ...] = ("precision", "engine")
        if self.name == "torch":
            fix, parameters = "train again with a lower learning rate", ()
        raise BundleError(
            f"the engine {self.name} returns {invalid:,} of {len(wanted):,} prices that are not finite or not above "
            f"0: {fix}",
            parameters=parameters,
            rows=invalid,
        )

    def batch(self, inputs: Inputs, rows: np.ndarray) -> Batch:
        """Return the padded inputs of some rows."""
        return inputs.batch(rows, self.length_multiple, self.max_length)

    def price_rows(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return the prices of some rows as one batch, (B,), whatever they are.

        Raises:
            BundleError: there is not one price for each row.
            PluginError: the engine of another package fails, or returns no float32 (B,).
        """
        priced = self.price_batch(self.batch(inputs, rows))
        if self.guard is not None:
            return self.guard.require_prices(priced, len(rows))
        if np.shape(priced) != (len(rows),):
            raise BundleError(
                f"the engine {self.name} returns prices of shape {np.shape(priced)} for {len(rows)} rows; expected "
                "one price for each row. Export the run again; do not trust a bundle of others that does this",
                shape=np.shape(priced),
                rows=len(rows),
            )
        return priced

    def batches(self, inputs: Inputs, rows: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the row numbers of each batch; batches contain rows of similar length, shortest first."""
        wanted = np.arange(len(inputs)) if rows is None else rows
        padded = round_up(inputs.tokens.lengths, self.length_multiple, self.max_length)
        return list(batches_by_length(padded, wanted, BATCH_SIZE, self.batch_tokens))


def for_each(function: Callable[[Item], Any], items: Iterable[Item], streams: int) -> None:
    """Call a function with every item in `streams` threads; raise the first exception."""
    if streams <= 1:
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(streams) as pool:
        for _ in pool.map(function, items):
            pass


REFERENCE = "ort-cpu"
"""The engine whose prices all others must match."""

MAX_DIFFERENCE = 0.02
"""Maximum relative price difference from the reference: some engines compute float16 weights in bfloat16."""

MAX_CHANGE = 1e-3
"""Maximum relative price difference between two runs of one batch.

Engines repeat themselves to the bit, or, if a GPU adds in another order each time, to about 1e-6 in float32. Those that
compute products in bfloat16 add them in float32.
"""

FIRST_BATCHES, REFERENCE_TOKENS = 4, 4096
"""The number of batches that are compared at first; the maximum number of tokens that the reference prices of each."""

LARGER = 1.5
"""Later, a batch is compared if it has more rows or longer ones, by this factor, than those compared before."""

BEYOND = 1.05
"""A price is compared if it is higher or lower, by this factor, than those compared before."""

ROWS_BETWEEN, EXTREME_COUNTS_AS = 1000, 50
"""The number of rows after which three are compared, whatever their prices; what a call adds to that number if one of
its prices is at least as high, or as low, as those compared before. So a cap shows soon, even if a server prices single
rows, and a product that is asked for all the time costs little."""


class Guard:
    """Compares an engine's prices with the reference's; once they differ, each further call fails.

    At first it compares whole batches, and prices them twice; then the highest price, the lowest one and a random one
    of each call, or of several small ones. Threads may share a guard; comparisons take turns.
    """

    def __init__(self, entry: Entry, open_reference: Callable[[], LoadedEngine]) -> None:
        """Create the guard of the engine of an entry; the reference is opened when it is needed first."""
        self._engine = f"the engine '{entry.name}' of {entry.package} {entry.version}"
        self._facts = {"kind": "engine", "name": entry.name, "package": entry.package}
        self._open: Callable[[], LoadedEngine] | None = open_reference
        self._reference: LoadedEngine | None = None
        self._lock = threading.Lock()
        self._failure: PluginError | None = None
        self._random = np.random.default_rng()
        self._batches_left = FIRST_BATCHES  # batches still to compare
        self._largest_batch = self._longest_batch = 0  # rows and tokens of compared batches
        self._lowest, self._highest = np.inf, 0.0  # of compared prices
        self._rows_since = 0

    def require_prices(self, prices: Any, rows: int) -> np.ndarray:
        """Return an engine's prices of a batch; raise PluginError unless they are a float32 array (rows,)."""
        if isinstance(prices, np.ndarray) and prices.dtype == np.float32 and prices.shape == (rows,):
            return prices
        described = shorten(repr(prices), 80)
        if isinstance(prices, np.ndarray):
            described = f"{prices.dtype} of shape {prices.shape}"
        raise self._error(
            f"{self._engine} returned {described} for a batch of {rows} rows; expected a numpy array, float32 of shape "
            f"({rows},)"
        )

    def check(
        self, engine: LoadedEngine, inputs: Inputs, batches: Sequence[np.ndarray], prices: np.ndarray
    ) -> None:
        """Compare some of the prices of one call.

        Args:
            engine: the engine, which prices whole batches again.
            inputs: of N rows.
            batches: the rows of each batch that was priced, the shortest first.
            prices: float32 (N,).

        Raises:
            PluginError: prices differ, now or in an earlier call.
        """
        if not batches:
            return
        with self._lock:
            if self._failure is not None:
                raise PluginError(
                    str(self._failure), parameters=self._failure.parameters, **self._failure.facts
                )
            self._compare_whole_batches(engine, inputs, batches, prices)
            self._compare_extremes(inputs, batches, prices)

    def _compare_whole_batches(
        self, engine: LoadedEngine, inputs: Inputs, batches: Sequence[np.ndarray], prices: np.ndarray
    ) -> None:
        """Compare some batches at first, and later those that are larger than all before."""
        places = (len(batches) - 1, 0, int(np.argmax([*map(len, batches)])), len(batches) // 2)
        for batch in (batches[place] for place in dict.fromkeys(places)):
            length = int(inputs.tokens.lengths[batch].max())
            if (
                self._batches_left
                or len(batch) > LARGER * self._largest_batch
                or length > LARGER * self._longest_batch
            ):
                self._compare_whole(engine, inputs, batch, prices)
                self._batches_left = max(0, self._batches_left - 1)
                self._largest_batch = max(self._largest_batch, len(batch))
                self._longest_batch = max(self._longest_batch, length)

    def _compare_whole(
        self, engine: LoadedEngine, inputs: Inputs, batch: np.ndarray, prices: np.ndarray
    ) -> None:
        tokens = len(batch) * int(inputs.tokens.lengths[batch].max())
        self._compare(inputs, batch[:: -max(1, tokens // REFERENCE_TOKENS)], prices, [batch])
        again = engine.price_rows(inputs, batch)
        usable = is_price(prices[batch])  # where they are not, the reference's are not, either
        first, again = prices[batch][usable], again[usable]
        if (place := _most_different(again, first, MAX_CHANGE)) is not None:
            self._refuse(
                f"{self._engine} returned two prices for the same row of the same batch of {len(batch)} rows, first "
                f"{first[place]:.6g} and then {again[place]:.6g}; expected the same, up to {100 * MAX_CHANGE:g}%"
            )

    def _compare_extremes(self, inputs: Inputs, batches: Sequence[np.ndarray], prices: np.ndarray) -> None:
        rows = np.concatenate(batches)
        some = prices[rows]
        low, high = some.min(), some.max()  # NaN if any is
        self._rows_since += len(rows) + (
            0 if self._lowest < low <= high < self._highest else EXTREME_COUNTS_AS
        )
        within = self._lowest / BEYOND <= low <= high <= self._highest * BEYOND
        if self._rows_since >= ROWS_BETWEEN or not within:
            self._rows_since = 0
            places = {int(some.argmin()), int(some.argmax()), int(self._random.integers(len(rows)))}
            self._compare(inputs, rows[sorted(places)], prices, batches)

    def _compare(
        self, inputs: Inputs, rows: np.ndarray, prices: np.ndarray, batches: Sequence[np.ndarray]
    ) -> None:
        """Compare the prices of some rows of these batches with the reference's; without one, do nothing."""
        reference = self._opened()
        if reference is None:
            return
        expected, actual = reference.price_rows(inputs, rows), prices[rows]
        usable = is_price(expected)  # where they are not, the graph is the cause
        rows, expected, actual = rows[usable], expected[usable], actual[usable]
        if (worst := _most_different(actual, expected, MAX_DIFFERENCE)) is not None:
            batch = next(batch for batch in batches if rows[worst] in batch)
            place = int(np.flatnonzero(batch == rows[worst])[0])
            self._refuse(
                f"{self._engine} returned the price {actual[worst]:.6g} for row {place + 1} of a batch of "
                f"{len(batch)} rows; {REFERENCE} returns {expected[worst]:.6g}, and {100 * MAX_DIFFERENCE:g}% is the "
                "largest difference allowed"
            )
        if len(actual):
            self._lowest = min(self._lowest, float(actual.min()))
            self._highest = max(self._highest, float(actual.max()))

    def _opened(self) -> LoadedEngine | None:
        if self._open is not None:
            try:
                self._reference = self._open()
            except PluginError as error:
                logger.warning(
                    f"nothing can be compared with the prices of {self._engine}, so wrong ones would not be noticed: "
                    f"{error}"
                )
            self._open = None  # which holds the graph
        return self._reference

    def _refuse(self, problem: str) -> NoReturn:
        """Raise the error about a difference, now and in each further call."""
        self._failure = self._error(problem)
        raise self._failure

    def _error(self, problem: str) -> PluginError:
        advice = f"Choose the engine {REFERENCE}, and report this to the author of {self._facts['package']}"
        return PluginError(f"{problem}. {advice}", parameters=("engine",), **self._facts)


def is_price(values: np.ndarray) -> np.ndarray:
    """Return whether values are finite and above 0, bool (N,)."""
    return np.asarray(np.isfinite(values) & (values > 0))


def _most_different(prices: np.ndarray, expected: np.ndarray, most: float) -> int | None:
    """Return the place of the price that differs most from the expected one; None if none differs by more than `most`.

    A price that is not a number differs most.
    """
    differences = relative_differences(prices, expected)
    worst = int(differences.argmax()) if len(differences) else None
    return None if worst is None or differences[worst] <= most else worst


def relative_differences(prices: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return |price - expected| / expected, float64 (N,); infinity where it is undefined."""
    with np.errstate(all="ignore"):
        differences = np.abs(prices.astype(np.float64) - expected) / expected
    return np.where(np.isnan(differences), np.inf, differences)


def agree(
    engine: LoadedEngine, reference: LoadedEngine, inputs: Inputs, batches: Sequence[np.ndarray]
) -> bool:
    """Return whether an engine prices some batches twice, both times like the reference; False if it fails."""
    try:
        for batch in batches:
            expected = reference.price_rows(inputs, batch)
            first, again = (engine.price_rows(inputs, batch).copy() for _ in range(2))
            if _most_different(first, expected, MAX_DIFFERENCE) is not None:
                return False
            if _most_different(again, first, MAX_CHANGE) is not None:
                return False
    except Exception:  # it loads the graph, but cannot run it
        return False
    return True
