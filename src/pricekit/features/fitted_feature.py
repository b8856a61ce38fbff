"""A fitted feature, and the guard of a third-party one, because a wrong one would misprice silently.

What a third-party feature gets, and what is compared:

- It gets a copy of the rows, with the columns that it declares and no others. So it cannot change what others see, and
  a table without one of these columns is refused.
- Some rows of a call are computed again, one of them alone, and must have the same values (`Guard`). `repeated.py` also
  compares them with those of a new process.
- An error names the first row that fails.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from pricekit.core.calls import plugin_call, repair
from pricekit.core.contracts import Feature, State
from pricekit.core.loader import registry
from pricekit.core.registry import FILE
from pricekit.errors import (
    BundleError,
    DataError,
    PluginError,
    PricekitError,
    first_invalid_field,
    is_panic,
)
from pricekit.io.causes import raise_outside_cause
from pricekit.io.log import logger
from pricekit.table import Table
from pricekit.wording import did_you_mean, nearest, shorten

CALLS_PER_SIZE = 3
"""Calls of about each size that are always checked."""

RECOMPUTED_ROWS = 8
"""Maximum number of rows of a call that are computed again, as a call of their own."""

ROWS_ALONE = 32
"""Rows of the first call, and of the training rows, that are computed alone, at most."""

CHECKING_SHARE = 0.02
"""Share of a feature's own time that the checks may take, after the first ones."""

SLOW_SECONDS = 5.0
"""A feature that takes less is not called slow."""

ROUNDING = (
    "Sums in float32 are rounded differently in larger calls: compute in float64, and convert at the end"
)
_DEPENDS = (
    "Keep what fit learned in the state that it returns, and name formats: pandas guesses that of dates from the "
    "first row of a call"
)
"""Advice about values that differ."""

_SHOWN_TEXT = 60

_AGAIN = "train or export the model again, and do not trust it if it is a stranger's"


@dataclass
class Guard:
    """The guard of one third-party feature in one process.

    One thread at a time computes the columns of a feature, unless it says that it is `parallel`.

    In a call that is checked, one row, another each time, is computed alone as well, and then a few rows as a call of
    their own. The first `CALLS_PER_SIZE` calls of each size (2 to 3 rows, 4 to 7 rows, and so on) are checked, because
    a feature may be wrong only in larger calls; the very first one is checked most thoroughly. A later call is checked
    if the checks took at most `CHECKING_SHARE` of the feature's own time, as for most windows of a feature that takes
    time for each row.

    Attributes:
        name: of the feature.
        seconds: that the feature has taken.
        checking: seconds of the checks so far.
        lock: for a call and its checks.
    """

    name: str
    seconds: float = 0.0
    checking: float = 0.0
    lock: Any = field(default_factory=threading.RLock)
    _checks: int = 0
    _sizes: Counter[int] = field(default_factory=Counter)
    _began: float = field(default_factory=time.perf_counter)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy it as a new one."""
        return Guard, (self.name,)

    def add(self, seconds: float) -> None:
        """Count seconds of the feature; say once in a process that it takes most of the time."""
        with self.lock:
            self.seconds += seconds
        passed = time.perf_counter() - self._began
        if self.seconds > SLOW_SECONDS and 2 * self.seconds > passed and self.name not in _slow:
            _slow.add(self.name)
            logger.info(
                f"the feature '{self.name}' takes most of the time: {self.seconds:.0f} of {passed:.0f} s so far"
            )

    def calls_to_check(self, block: np.ndarray, own: Callable[[], Table]) -> list[np.ndarray]:
        """Return the numbers of the rows to compute in calls of their own, int64 (M,) each: of one row, of some rows.

        The last row and the extremes of a column, another one each time, are among them; early ones of many columns.

        Args:
            block: the columns of a call, float32 (N, K).
            own: returns its rows, with the columns that the feature declares.
        """
        size = len(block).bit_length()
        with self.lock:
            early = self._sizes[size] < CALLS_PER_SIZE
            if len(block) < 2 or not (early or self.checking <= CHECKING_SHARE * self.seconds):
                return []
            self._sizes[size] += 1
            self._checks += 1
            number = self._checks
        draw = np.random.default_rng(number)
        seen = block[:, :ROWS_ALONE] if early else block[:, [number % block.shape[1]]]
        ends = [*seen.argmax(0), *seen.argmin(0), len(block) - 1]
        rows = draw.permutation(np.unique([*ends, *draw.integers(len(block), size=RECOMPUTED_ROWS - 3)]))
        return [*(unusual_rows(own())[:, None] if number == 1 else ()), rows[:1], rows]


def unusual_rows(table: Table) -> np.ndarray:
    """Return the numbers of up to `ROWS_ALONE` rows, int64, half with unusual cells, such as another date format.

    Pandas guesses the format of dates from the first cell, so it may read such a cell differently when it is alone.
    """
    rows = np.random.default_rng(0).permutation(len(table))
    alike = np.full(len(table), len(table))  # the least number of rows with a cell of the same shape
    for name in table.frame:
        cells = table.frame[name].astype("str").str.replace(r"\d+", "0", regex=True)
        shapes = pd.factorize(cells.str.replace(r"[^\W\d_]+", "a", regex=True))[0]
        alike = np.minimum(alike, np.bincount(shapes + 1)[shapes + 1])
    unusual = rows[np.argsort(alike[rows], kind="stable")]
    return np.unique([*unusual[: ROWS_ALONE // 2], *rows[: ROWS_ALONE // 2]]).astype(np.int64)


@dataclass(frozen=True)
class FittedFeature:
    """One feature plugin with its options and its fitted state, and its guard if it is not a built-in one."""

    name: str
    options: dict[str, Any]
    plugin: Feature
    state: State
    guard: Guard | None = field(default=None, repr=False, compare=False)

    @property
    def reads_files(self) -> bool:
        """Whether the plugin says that its columns depend on more than the table, its options and its state."""
        return self.plugin.reads_files


_slow: set[str] = set()
"""The features that were called slow in this process."""


def guard_of(name: str) -> Guard | None:
    """Return a guard for a third-party feature, None for a built-in one."""
    return None if registry().get("feature", name).package == "pricekit" else Guard(name)


def check_declared(part: FittedFeature, hidden: str | None = None) -> None:
    """Raise PluginError unless a feature declares a tuple of names, without that of the price, `hidden`."""
    columns = part.plugin.columns
    if not isinstance(columns, list | tuple) or not all(isinstance(name, str) for name in columns):
        raise PluginError(
            f"the feature {described(part)} has columns = {shorten(repr(columns))}; expected a tuple of names, such "
            'as ("weight",); report it to the plugin\'s author'
        )
    if not part.plugin.names:
        raise PluginError(
            f"the feature {described(part)} has no names; expected one for each column that it computes; "
            f"{repair('feature', part.name)}"
        )
    if hidden is not None and hidden in columns:
        raise PluginError(
            f"the feature {described(part)} declares the column '{hidden}', which is the price; a feature never sees "
            "it. Leave the feature out, or let it learn from prices with uses_price = True",
            parameters=("features",),
            column=hidden,
        )


def own_table(
    part: FittedFeature, table: Table, rows: np.ndarray | None = None, *, fitting: bool = False
) -> Table:
    """Return what a third-party feature gets: a copy of rows, numbered from 0, with the columns that it declares.

    Args:
        part: the feature.
        table: N rows, without prices.
        rows: numbers of rows to take, int64 (M,); None takes all.
        fitting: also copy weights, groups, times and clusters, which only training rows have.

    Raises:
        DataError: the table lacks a column.
    """

    def copied(values: pd.Series) -> Any:
        return values.array.copy() if rows is None else values.array.take(rows)

    _require_columns(part, table)
    count = len(table) if rows is None else len(rows)
    frame = pd.DataFrame(
        {name: copied(table.frame[name]) for name in part.plugin.columns}, pd.RangeIndex(count), copy=False
    )
    text = pd.Series(copied(table.text), name=table.text.name, copy=False)
    own = Table(pd.Series(np.arange(count), name="row"), text, None, frame)
    if not fitting:
        return own
    return replace(
        own,
        folder=table.folder,
        **{name: copy(getattr(table, name)) for name in ("cluster", "weight", "group", "time")},
    )


def _require_columns(part: FittedFeature, table: Table) -> None:
    """Raise DataError unless a table has the columns that a feature declares."""
    known = table.frame.columns
    for name in part.plugin.columns:
        if name not in known:
            raise _missing(part, name, [str(column) for column in known])


def _missing(part: FittedFeature, name: str, known: list[str]) -> DataError:
    shown = shorten(", ".join(known), 300) or "none"
    option = next((option for option, value in part.options.items() if value == name), None)
    other = "" if option is None else f", name another one with feature_options.{part.name}.{option}"
    return DataError(
        f"the feature {described(part)} reads the column '{name}', which the table does not have. Its columns are: "
        f"{shown}.{did_you_mean(name, known)} Add the column{other}, or use a model without this feature",
        parameters=("features",) if option is None else ("features", "settings"),
        column=name,
        candidates=known,
        suggestion=nearest(name, known),
        feature=part.name,
    )


def checked(part: FittedFeature, table: Table, block: Any, rows: np.ndarray | None = None) -> np.ndarray:
    """Return the columns that a feature computed, if they are finite float32 (N, K).

    They are those of all rows of a table, or of the rows with the numbers `rows`, int64 (N,).

    Raises:
        BundleError: a built-in feature returned a value that is not finite.
        PluginError: a plugin did, or the array has the wrong type or shape.
    """
    shape = (len(table) if rows is None else len(rows), len(part.plugin.names))
    if not isinstance(block, np.ndarray) or (block.dtype, block.shape) != (np.float32, shape):
        returned = (
            f"{block.dtype} of shape {block.shape}" if isinstance(block, np.ndarray) else type(block).__name__
        )
        raise PluginError(
            f"the feature '{part.name}' returned {returned}, expected finite float32 of shape {shape}; "
            f"{repair('feature', part.name)}"
        )
    finite = np.isfinite(block)
    if not finite.all():
        place, column = (int(place) for place in np.argwhere(~finite)[0])
        row, name = place if rows is None else int(rows[place]), part.plugin.names[column]
        problem = (
            f"the feature '{part.name}' returned {block[place, column]} in its column '{name}' for "
            f"{row_of(table, row)}, expected finite float32"
        )
        if part.guard is None:
            raise BundleError(f"{problem}: its stored state is damaged; {_AGAIN}", feature=part.name)
        raise PluginError(
            f"{problem}; {repair('feature', part.name)}",
            feature=part.name,
            column=name,
            row=row,
        )
    return block


@contextmanager
def built_in_call(part: FittedFeature) -> Iterator[None]:
    """Turn any exception of a built-in feature into a BundleError: only a damaged state makes it fail."""
    try:
        yield
    except PricekitError:
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise_outside_cause(error)
        reason = first_invalid_field(error) or f" ({type(error).__name__}: {shorten(str(error), 300)})"
        raise BundleError(f"the state of the feature '{part.name}' is damaged{reason}; {_AGAIN}") from error


def check_state(part: FittedFeature) -> None:
    """Check the stored state of a feature; raises BundleError if it is built in, otherwise PluginError."""
    action = "reading its stored state"
    with built_in_call(part) if part.guard is None else plugin_call("feature", part.name, action):
        part.plugin.check_state(part.state)


def learned(part: FittedFeature, table: Table, action: str, learn: Callable[[Table], Any]) -> Any:
    """Return what a feature learns from training rows; third-party features get a copy of them.

    Args:
        part: the feature.
        table: N rows, without prices.
        action: of the feature, for errors, such as "fitting to the training rows".
        learn: calls the plugin with a table.
    """
    if part.guard is None:
        _require_columns(part, table)
        with plugin_call("feature", part.name, action):
            return learn(table)
    own, began = own_table(part, table, fitting=True), time.perf_counter()
    try:
        with plugin_call("feature", part.name, action):
            return learn(own)
    except PluginError as error:
        _require_declared(part, table, error)
        raise
    finally:
        part.guard.add(time.perf_counter() - began)


def transform_guarded(part: FittedFeature, guard: Guard, table: Table) -> np.ndarray:
    """Return the columns of a third-party feature, float32 (N, K), and compare some rows.

    Raises:
        DataError: the table lacks a column.
        PluginError: the plugin breaks its contract.
    """
    with nullcontext() if part.plugin.parallel else guard.lock:
        own, began = own_table(part, table), time.perf_counter()
        try:
            block = _computed(part, own)
        except PluginError as error:
            _require_declared(part, table, error)
            if error.__cause__ is not None and len(table):
                _name_row(part, table, error.__cause__)
            raise
        block = checked(part, table, block).copy()  # the next call may use the same memory
        computed = time.perf_counter()
        guard.add(computed - began)
        if calls := guard.calls_to_check(block, lambda: own_table(part, table)):
            compare(part, table, block, calls)
            with guard.lock:
                guard.checking += time.perf_counter() - computed
    return block


def compare(part: FittedFeature, table: Table, block: np.ndarray, calls: Iterable[np.ndarray]) -> None:
    """Raise PluginError unless rows have the same values, to the bit, in calls of their own.

    Args:
        part: the feature.
        table: N rows.
        block: their columns, float32 (N, K).
        calls: the numbers of the rows of each call, int64 (M,).
    """
    for rows in calls:
        before = block[rows]
        after = checked(part, table, _computed(part, own_table(part, table, rows)), rows)
        if np.array_equal(before, after):
            continue
        place, column = np.argwhere(before != after)[0]
        row, name = int(rows[place]), part.plugin.names[column]
        call = "alone" if len(rows) == 1 else f"in a call of {len(rows)} rows"
        advice = ROUNDING if np.allclose(before, after, rtol=1e-5) else _DEPENDS
        raise PluginError(
            f"the feature {described(part)} returns for {row_of(table, row)} in its column '{name}' "
            f"{after[place, column]} {call}, and {before[place, column]} among {len(table):,} rows; expected the same "
            f"value to the bit, whatever else the call contains. {advice}; {repair('feature', part.name)}",
            feature=part.name,
            column=name,
            row=row,
        )


def _computed(part: FittedFeature, own: Table) -> Any:
    with plugin_call("feature", part.name, "computing its columns"):
        return part.plugin.transform(own, part.state)


def _require_declared(part: FittedFeature, table: Table, error: PluginError) -> None:
    """Raise PluginError with advice if an error is about a column of the table that the feature does not declare."""
    cause = error.__cause__
    if not isinstance(cause, KeyError | AttributeError):
        return
    declared = part.plugin.columns
    name = next(
        (name for name in map(str, table.frame) if name not in declared and repr(name) in str(cause)), None
    )
    if name is not None:
        columns = ", ".join(f'"{column}"' for column in (*declared, name))
        raise PluginError(
            f"the feature {described(part)} reads the column '{name}' without declaring it, so its frame lacks it; "
            f"declare it in the class: columns = ({columns}{',' * (not declared)})",
            feature=part.name,
            column=name,
        ) from cause


def _name_row(part: FittedFeature, table: Table, cause: BaseException) -> NoReturn:
    """Raise PluginError that names the first row which fails alone, found by halving the call."""

    def fails(start: int, stop: int) -> bool:
        try:
            part.plugin.transform(own_table(part, table, np.arange(start, stop)), part.state)
        except Exception:
            return True
        return False

    start, stop = 0, len(table)
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(start, middle):
            stop = middle
        elif fails(middle, stop):
            start = middle
        else:
            break
    alone = stop - start == 1 and (len(table) == 1 or fails(start, stop))
    where = row_of(table, start) if alone else f"a call of {len(table):,} rows, though smaller calls work"
    with plugin_call("feature", part.name, f"computing its columns of {where}"):
        raise cause
    raise AssertionError


def row_of(table: Table, row: int) -> str:
    """Describe a row by its id and its text."""
    return f"the row {shorten(repr(table.ids.tolist()[row]))} ({shorten(repr(table.text.iloc[row]), _SHOWN_TEXT)})"


def described(part: FittedFeature) -> str:
    """Name a feature and its package."""
    entry = registry().get("feature", part.name)
    version = "" if entry.version.startswith(FILE) else f" {entry.version}"  # the error names the file
    return f"'{part.name}' of {entry.package}{version}"


def transformed(part: FittedFeature, table: Table) -> np.ndarray:
    """Return the columns of one feature, float32 (N, K).

    Raises:
        DataError: the table lacks a column that the feature declares.
        PluginError: the plugin breaks its contract.
        BundleError: the state of a built-in feature is damaged.
    """
    if part.guard is not None:
        return transform_guarded(part, part.guard, table)
    _require_columns(part, table)
    with built_in_call(part):
        block = part.plugin.transform(table, part.state)
    return checked(part, table, block)
