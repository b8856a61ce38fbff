"""How sure prices are: intervals and quantiles, each row with a width of its own, calibrated on the validation rows.

The *spread* of a row is how far its log price is expected to be from the true one. A forest predicts it from the
features of the row. It is grown from the training rows, whose features estimate their prices from other rows. The
*score* of a validation row is z = (log true price - log price) / spread. Split conformal prediction (Vovk et al. 2005;
with a scale for each row: Papadopoulos et al. 2002, Lei et al. 2018) makes quantiles of the price of them: of n + 1
exchangeable rows, the score of the new one is at most the k-th smallest of the others with a probability of at least
k / (n + 1), whatever the model, the spread and the distribution.

A price may go out without a person within a factor, with a confidence, if its spread is small enough (`SurestFirst`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from pricekit.errors import BundleError, ConfigError
from pricekit.features.forest import LEAF, Forest, from_lightgbm, joined
from pricekit.io.log import logger
from pricekit.io.packing import pack, unpack
from pricekit.predict.members import weighted_mean
from pricekit.text.labelled_lines import evenly
from pricekit.wording import counted, shorten

INTERVALS = "intervals.json"
"""The file of a model."""

BOUNDS = "price_low", "price_high"
"""The columns of an interval."""

LEVELS = (*np.arange(5, 100, 5) / 100, 0.96, 0.97, 0.98, 0.99)
"""Levels of intervals that pictures show."""

MOST_QUANTILES = 99

MOST_SCORES, TAIL = 4_000, 500
"""Scores that are stored, at most; the lowest and the highest ones of `TAIL` rows are all among them."""

ROUNDING = 1e-9
"""Keeps the rank q·(n + 1) from being rounded: nine tenths of 10 rows is 9, not 9.01."""

RELEASE, CONFIDENCE = "release", 0.95
"""The column that says which prices may go out, and the share of them that shall hold."""

MOST_REFUSED = 100
"""Tolerances that the log mentions at most for a model: requests to a server may name any number of them."""

_WIDEST = 200.0
"""Largest exponent of a factor of the price. Beyond it a bound has the smallest or the largest float32 in any case."""

_LOG_SPREADS = -7.0, 5.0
"""Limits of the log of a spread."""


@dataclass(frozen=True)
class Uncertainty:
    """What a prediction shall say about how sure each price is.

    Its attributes are the options `pricekit.options.UncertaintyOptions` of everything that prices rows.

    Attributes:
        interval: the share of true prices that the bounds `price_low` and `price_high` contain; None: no bounds.
        quantiles: shares of true prices below the columns `price_0.05` and so on, ascending.
        within: the column `release` says which prices may go out: their true prices are expected between price / within
            and price · within; None: no column.
        confidence: the share of the released prices for which this shall hold.

    Example:
        >>> Uncertainty.of(0.9, [0.05, 0.5, 0.95]).names
        ('price_low', 'price_high', 'price_0.05', 'price_0.5', 'price_0.95')
    """

    interval: float | None = None
    quantiles: tuple[float, ...] = ()
    within: float | None = None
    confidence: float = CONFIDENCE

    @classmethod
    def of(
        cls,
        interval: float | None = None,
        quantiles: Iterable[float] | None = None,
        within: float | None = None,
        confidence: float | None = None,
    ) -> Uncertainty:
        """Check the values that a caller passes; a confidence of None is 0.95.

        Raises:
            ConfigError: they are no shares, or not ascending; or `within` is no factor above 1, or is missing.
        """
        if interval is not None and not _is_share(interval):
            raise ConfigError(
                f"the interval is {interval!r}; expected a share between 0 and 1, such as 0.9",
                parameters=("interval",),
            )
        if within is not None and not (_is_number(within) and 1 < float(within) < math.inf):
            raise ConfigError(
                f"the tolerance is {within!r}; expected a factor above 1, such as 1.5 for true prices between "
                "price / 1.5 and price · 1.5",
                parameters=("within",),
            )
        if confidence is not None and not _is_share(confidence):
            raise ConfigError(
                f"the confidence is {confidence!r}; expected a share between 0 and 1, such as 0.95",
                parameters=("confidence",),
            )
        if confidence is not None and within is None:
            raise ConfigError(
                f"the confidence {confidence:g} has no tolerance; name one, such as 1.5, or leave the confidence out",
                parameters=("confidence", "within"),
            )
        shares = () if quantiles is None else _checked(quantiles)
        return cls(interval, shares, within, CONFIDENCE if confidence is None else confidence)

    @classmethod
    def of_options(cls, values: Mapping[str, Any]) -> Uncertainty:
        """Return what options, or the parameters of a protocol, ask for; a text is a number, or joins them by commas.

        Other names than the arguments of `of` are ignored.

        Raises:
            ConfigError: as of `of`, or a text is no number.

        Example:
            >>> Uncertainty.of_options({"quantiles": "0.05, 0.5", "within": 2}).names
            ('price_0.05', 'price_0.5', 'release')
        """
        options: dict[str, Any] = {}
        for field in fields(cls):
            value, several = values.get(field.name), isinstance(field.default, tuple)
            try:
                if isinstance(value, str):
                    value = [float(part) for part in value.split(",")] if several else float(value)
            except ValueError:
                expected = "numbers that are joined by commas" if several else "a number"
                raise ConfigError(
                    f"{field.name} is {shorten(repr(value), 200)}; expected {expected}",
                    parameters=(field.name,),
                ) from None
            options[field.name] = value
        return cls.of(**options)

    def __bool__(self) -> bool:
        return self.interval is not None or bool(self.quantiles) or self.within is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that follow the price."""
        names = [f"price_{np.format_float_positional(share, trim='-')}" for share in self.quantiles]
        released = () if self.within is None else (RELEASE,)
        return (*(BOUNDS if self.interval is not None else ()), *names, *released)

    def columns(self, intervals: Intervals, price: np.ndarray, spread: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of N prices by name: float32 (N,) each, and `release`, bool (N,).

        Args:
            intervals: of the model.
            price: the prices, float (N,).
            spread: as of `Intervals.spread`, float (N,).

        Raises:
            ConfigError: the model was calibrated on too few rows for the interval, a quantile or the confidence.
        """
        bounds = () if self.interval is None else intervals.bounds(price, spread, self.interval)
        values = [*bounds, *(intervals.quantile(price, spread, share) for share in self.quantiles)]
        if self.within is not None:
            values.append(intervals.released(spread, self.within, self.confidence))
        return dict(zip(self.names, values, strict=True))

    def of_no_rows(self) -> dict[str, np.ndarray]:
        """Return the columns of no price."""
        return {name: np.empty(0, bool if name == RELEASE else np.float32) for name in self.names}

    def check(self, intervals: Intervals, *, once: bool = False) -> None:
        """Raise ConfigError as `columns` does, before the work; log if no price may go out.

        Args:
            intervals: of the model.
            once: log it only if the log does not say it yet of these intervals, for servers, whose requests repeat.
        """
        self.columns(intervals, np.ones(1), np.ones(1))
        tolerance, refused = (self.within, self.confidence), intervals.refused
        if self.within is None or (once and (tolerance in refused or len(refused) >= MOST_REFUSED)):
            return
        if intervals.surest.largest_spread(self.within, self.confidence) is None:
            if once:
                refused.add(tolerance)
            logger.warning(
                f"no price may go out within a factor of {self.within:g} at a confidence of {self.confidence:g}: not "
                "even the surest prices of the validation rows are that close to the true ones. Allow a larger factor "
                "or a lower confidence, or train with more rows"
            )


CERTAIN = Uncertainty()
"""Nothing is said but the prices."""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_share(value: object) -> bool:
    return _is_number(value) and 0 < float(value) < 1


def _checked(quantiles: Iterable[float]) -> tuple[float, ...]:
    """Return quantiles as floats; raises ConfigError unless they are ascending shares, and not too many."""
    several = isinstance(quantiles, Iterable) and not isinstance(quantiles, str)
    shares: tuple[Any, ...] = tuple(quantiles) if several else ()
    if not shares or not all(map(_is_share, shares)) or (np.diff(shares) <= 0).any():
        raise ConfigError(
            f"the quantiles are {shorten(str(quantiles), 200)}; expected ascending shares between 0 and 1, such as "
            "0.05, 0.5, 0.95",
            parameters=("quantiles",),
        )
    if len(shares) > MOST_QUANTILES:
        raise ConfigError(
            f"there are {len(shares):,} quantiles; at most {MOST_QUANTILES} are possible",
            parameters=("quantiles",),
        )
    return tuple(map(float, shares))


@dataclass(frozen=True, repr=False)
class SurestFirst:
    """Rows with true prices in the order of their spreads: the prices that are surest to be right come first.

    Attributes:
        spread: ascending, float64 (M,).
        error: |log true price - log price| of each row, float64 (M,).
        weight: how much each row counts, float64 (M,); their mean is 1.
    """

    spread: np.ndarray
    error: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(
        cls, predicted: np.ndarray, actual: np.ndarray, spread: np.ndarray, weight: np.ndarray | None = None
    ) -> SurestFirst:
        """Sort rows; arguments as of `fit_intervals`, and rows without weight are left out."""
        error = np.abs(np.log(actual) - np.log(predicted.astype(np.float64)))
        weight = np.ones(len(error)) if weight is None else weight.astype(np.float64)
        order = np.argsort(spread, kind="stable")
        order = order[weight[order] > 0]
        weight = weight[order] / (weight[order].mean() if len(order) else 1)
        return cls(spread[order].astype(np.float64), error[order], weight)

    def __len__(self) -> int:
        return len(self.spread)

    def few(self) -> SurestFirst:
        """Return at most `MOST_SCORES` of the rows, evenly spaced."""
        chosen = evenly(len(self), MOST_SCORES)
        weight = self.weight[chosen]
        return SurestFirst(
            self.spread[chosen], self.error[chosen], weight / (weight.mean() if len(weight) else 1)
        )

    def largest_spread(self, within: float, confidence: float) -> float | None:
        """Return the largest spread of a price that may go out; None: no price may.

        A price *fails* if the true one is not between price / within and price · within. Two more rows count as
        failures among the rows up to the spread: the new one, and one because the largest spread is chosen, at which
        chance was kind. The largest spread at which failures have at most a share 1 - confidence is the result. Rows
        of equal spread are released together.
        """
        fails = self.weight * (self.error > math.log(within) * (1 + ROUNDING))
        share = (np.cumsum(fails) + 2) / (np.cumsum(self.weight) + 2)
        last = np.append(np.diff(self.spread) > 0, True)[: len(self)]
        allowed = np.flatnonzero(last & (share <= 1 - confidence + ROUNDING))
        return float(self.spread[allowed[-1]]) if len(allowed) else None


@dataclass(frozen=True, repr=False)
class Intervals:
    """The spreads of rows, and the scores of the validation rows.

    Attributes:
        spreads: for each member of the model a forest over the columns of its features, whose result is the log of the
            spread; None: the spread of every row is 1.
        score: distinct scores of the validation rows, ascending, float64 (M,).
        weight: how much the rows of each score count, float64 (M,); their sum is the number n of rows.
        surest: some of the validation rows by their spread.
    """

    spreads: tuple[Forest | None, ...]
    score: np.ndarray
    weight: np.ndarray
    surest: SurestFirst

    @cached_property
    def rows(self) -> int:
        """The number n of validation rows with a weight."""
        return round(float(self.weight.sum()))

    @cached_property
    def refused(self) -> set[tuple[float | None, float]]:
        """Tolerances and confidences of requests of which the log says already that no price may go out."""
        return set()

    @property
    def highest(self) -> float:
        """The highest level of an interval that the number of rows allows, to six digits; 0: there is no interval."""
        return max(0.0, math.floor(1e6 * (1 - 2 / (self.rows + 1)) + 1e-4) / 1e6)

    @property
    def highest_confidence(self) -> float:
        """The highest confidence that the number of rows allows for prices that may go out, to two digits."""
        return math.floor(100 * (1 - 2 / (len(self.surest) + 2)) + 1e-4) / 100

    @property
    def levels(self) -> np.ndarray:
        """The levels of `LEVELS` that the number of rows allows, float64 (Q,)."""
        levels = np.array(LEVELS)
        return levels[levels <= self.highest + ROUNDING]

    def spread(self, features: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
        """Return the spread of each row, float32 (N,): the weighted geometric mean of those of the members.

        Args:
            features: the feature columns of each member, float32 (N, K).
            weights: of the members; they sum to 1.
        """
        spreads = [spread_of(forest, rows) for forest, rows in zip(self.spreads, features, strict=True)]
        return weighted_mean(spreads, weights)

    def bounds(self, price: np.ndarray, spread: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds that contain a share `level` of true prices, both float32 (N,); the price is between them.

        They are the quantiles (1 - level) / 2 and (1 + level) / 2, or the price if it is not between these.

        Args:
            price: predicted prices, float (N,).
            spread: as of `spread`.
            level: in (0, 1).

        Raises:
            ConfigError: the level is no share, or too high for the number of validation rows.
        """
        Uncertainty.of(level)
        low, high = self._score((1 - level) / 2), self._score((1 + level) / 2)
        if low is None or high is None:
            raise ConfigError(
                f"the interval is {level:g}, which needs {_needed((1 - level) / 2)}, and this model was calibrated on "
                f"{self.rows:,}; train with more rows, or choose a level of at most {self.highest:g}",
                parameters=("interval",),
                highest=self.highest,
            )
        return _factored(price, spread, min(low, 0.0)), _factored(price, spread, max(high, 0.0))

    def quantile(self, price: np.ndarray, spread: np.ndarray, share: float) -> np.ndarray:
        """Return prices below which a share of the true prices is expected, float32 (N,); those of a row never cross.

        Raises:
            ConfigError: there are too few validation rows.
        """
        score = self._score(share)
        if score is None:
            least = math.ceil(1e6 * (1 - self.highest) / 2) / 1e6
            raise ConfigError(
                f"the quantile {share:g} needs {_needed(min(share, 1 - share))}, and this model was calibrated on "
                f"{self.rows:,}; train with more rows, or choose quantiles from {least:g} to {1 - least:g}",
                parameters=("quantiles",),
                rows=self.rows,
            )
        return _factored(price, spread, score)

    def released(self, spread: np.ndarray, within: float, confidence: float = CONFIDENCE) -> np.ndarray:
        """Return which prices may go out, bool (N,); see `SurestFirst.largest_spread`.

        Args:
            spread: as of `spread`.
            within: a factor above 1.
            confidence: in (0, 1).

        Raises:
            ConfigError: there are too few validation rows for the confidence, whatever the factor; or as of
                `Uncertainty.of`.
        """
        Uncertainty.of(None, None, within, confidence)
        if len(self.surest) < rows_needed(confidence):
            raise ConfigError(
                f"the confidence is {confidence:g}, which needs "
                f"{counted(rows_needed(confidence), 'validation row')}, and this model was calibrated on "
                f"{len(self.surest):,}; train with more rows, or choose a confidence of at most "
                f"{self.highest_confidence:g}",
                parameters=("confidence",),
                rows=len(self.surest),
            )
        largest = self.surest.largest_spread(within, confidence)
        return np.zeros(len(spread), bool) if largest is None else np.asarray(spread <= largest)

    def _score(self, share: float) -> float | None:
        """Return a quantile of the score of a new row, whose weight is the mean; None: there are too few rows.

        It is the mean of two for the median, and otherwise rounded outwards: at most a share of the scores is below a
        lower one, at least a share is not above an upper one.
        """
        lower = np.searchsorted(self._before, share + ROUNDING, side="right") - 1
        upper = np.searchsorted(self._up_to, share - ROUNDING)
        if (share <= 0.5 and lower < 0) or (share >= 0.5 and upper == len(self.score)):
            return None
        if share == 0.5:
            return float(self.score[lower] / 2 + self.score[upper] / 2)
        return float(self.score[lower if share < 0.5 else upper])

    @cached_property
    def _up_to(self) -> np.ndarray:
        """The least share of scores, with the new one, that is not above each score."""
        return np.asarray(np.cumsum(self.weight) / (self.weight.sum() + 1))

    @cached_property
    def _before(self) -> np.ndarray:
        """The largest share of scores, with the new one, that is below each score."""
        return np.asarray((np.cumsum(self.weight) - self.weight + 1) / (self.weight.sum() + 1))

    def __repr__(self) -> str:
        """Return one line without the numbers."""
        return f"Intervals(rows={self.rows}, members={len(self.spreads)})"

    def to_text(self) -> str:
        """Return JSON for `read_intervals`."""
        spreads = [None if forest is None else forest.to_json() for forest in self.spreads]
        surest = {name: pack(getattr(self.surest, name)) for name in _OF_SUREST}
        record = {
            "spreads": spreads,
            "score": pack(self.score),
            "weight": pack(self.weight),
            "surest": surest,
        }
        return json.dumps(record) + "\n"


def spread_of(forest: Forest | None, features: np.ndarray) -> np.ndarray:
    """Return the spread of each row by its features, float32 (N, K), as float32 (N,)."""
    if forest is None:
        return np.ones(len(features), np.float32)
    log = forest.predict(np.ascontiguousarray(features, np.float32)).astype(np.float64)
    return np.asarray(np.exp(np.clip(log, *_LOG_SPREADS)), np.float32)


def _factored(price: np.ndarray, spread: np.ndarray, score: float) -> np.ndarray:
    """Return price · exp(spread · score) as positive, finite float32 (N,)."""
    exponent = np.clip(spread.astype(np.float64) * score, -_WIDEST, _WIDEST)
    limits = np.finfo(np.float32)
    least, most = np.float64(limits.smallest_subnormal), np.float64(limits.max)
    return np.clip(price.astype(np.float64) * np.exp(exponent), least, most).astype(np.float32)


def rows_needed(confidence: float) -> int:
    """Return the least number of validation rows at which `SurestFirst.largest_spread` can reach a confidence."""
    tail = 1 - confidence
    return math.ceil(2 / tail - 2 - ROUNDING / tail)


def _needed(tail: float) -> str:
    """Return the number of validation rows of which a share can be below a quantile, in words."""
    return counted(math.ceil(1 / tail - 1 - ROUNDING / tail), "validation row")


def read_intervals(text: str | bytes, where: object, columns: Sequence[int] | None = None) -> Intervals:
    """Read the JSON of `to_text`.

    Args:
        text: the JSON, possibly a stranger's.
        where: names the model in errors.
        columns: the number of feature columns of each member; None: the spreads are not computed.

    Raises:
        BundleError: it is damaged, or does not fit the members.
    """
    try:
        record = json.loads(text)
        if not isinstance(record, dict) or not isinstance(record["spreads"], list):
            raise ValueError("expected an object with a list of spreads")
        spreads = tuple(map(_read_spread, record["spreads"]))
        if columns is not None and not _fit(spreads, columns):
            raise ValueError("the spreads do not fit the features of the members")
        score, weight = (unpack(record[name], np.float64, most=MOST_SCORES) for name in ("score", "weight"))
        if len(score) != len(weight) or (np.diff(score) <= 0).any():
            raise ValueError("expected ascending scores, each with a weight")
        if (weight <= 0).any() or (weight > _MOST_ROWS).any() or (np.abs(score) > _MOST_SCORE).any():
            raise ValueError("a score or a weight is out of its limits")
        surest = _read_surest(record["surest"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(
            f"the intervals of {where} are damaged ({shorten(str(error), 200)}); train or export it again"
        ) from None
    return Intervals(spreads, score, weight, surest)


_OF_SUREST = "spread", "error", "weight"
_MOST_ROWS, _MOST_SCORE = 1e12, 1e12
_MOST_NODES = 1 << 14
"""Nodes of the forest of a spread; `fit_spread` makes fewer than 2,400."""


def intervals_in(folder: Path) -> Intervals:
    """Read the intervals of a model's folder, for rows whose spreads are known; raises BundleError."""
    try:
        return read_intervals((folder / INTERVALS).read_bytes(), folder)
    except OSError as error:
        raise BundleError(
            f"{folder / INTERVALS} is missing or damaged ({error}); train again", path=str(folder)
        ) from None


def _fit(spreads: Sequence[Forest | None], columns: Sequence[int]) -> bool:
    """Return whether there is one spread for each member, over the columns of its features."""
    return len(spreads) == len(columns) and all(
        forest is None or forest.columns == number for forest, number in zip(spreads, columns, strict=True)
    )


def _read_surest(state: Any) -> SurestFirst:
    spread, error, weight = (unpack(state[name], np.float64, most=MOST_SCORES) for name in _OF_SUREST)
    if not len(spread) == len(error) == len(weight) or (np.diff(spread) < 0).any():
        raise ValueError("expected ascending spreads of rows, each with an error and a weight")
    if (spread <= 0).any() or (error < 0).any() or (weight <= 0).any() or (weight > _MOST_ROWS).any():
        raise ValueError("a spread, an error or a weight of a row is out of its limits")
    return SurestFirst(spread, error, weight)


def _read_spread(state: Any) -> Forest | None:
    if state is None:
        return None
    if not isinstance(state, dict) or len(state["feature"]) > _MOST_NODES:
        raise ValueError(f"expected a forest of at most {_MOST_NODES:,} nodes, or null")
    return Forest.from_json(state)


def fit_intervals(
    spreads: Sequence[Forest | None],
    predicted: np.ndarray,
    actual: np.ndarray,
    spread: np.ndarray,
    weight: np.ndarray | None = None,
) -> Intervals:
    """Calibrate intervals on validation rows, which neither the model nor the spreads have learned from.

    Args:
        spreads: those of the members.
        predicted: prices, float (N,).
        actual: true prices, float (N,).
        spread: as of `Intervals.spread`, float (N,).
        weight: how much each row counts, float (N,); None: equally. With weights, the shares are shares of the weight
            (Tibshirani et al. 2019, arXiv:1904.06019, with an average weight for the new row).
    """
    surest = SurestFirst.of(predicted, actual, spread, weight).few()
    score = (np.log(actual) - np.log(predicted.astype(np.float64))) / spread.astype(np.float64)
    weight = np.ones(len(score)) if weight is None else weight.astype(np.float64)
    score, weight = score[weight > 0], weight[weight > 0]
    order = np.argsort(score, kind="stable")
    score, weight = score[order], weight[order] / (weight.mean() if len(weight) else 1)
    score, row = np.unique(_outwards(score, weight), return_inverse=True)
    return Intervals(tuple(spreads), score, np.bincount(row, weight, minlength=len(score)), surest)


def _outwards(score: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return ascending scores, of which at most `MOST_SCORES` are distinct, each moved away from the median or kept.

    So a quantile of them is never inside of that of the scores themselves.
    """
    rows = len(score)
    if rows <= MOST_SCORES:
        return score
    share = np.cumsum(weight) / (weight.sum() + 1)
    median = int(np.searchsorted(share, 0.5))
    middle = np.linspace(TAIL, rows - TAIL, MOST_SCORES - 2 * TAIL - 4).astype(np.int64)
    tails = np.arange(TAIL), np.arange(rows - TAIL, rows)
    start = np.unique(np.concatenate([*tails, middle, [median, median + 1]]))
    last = np.append(start[1:], rows) - 1
    moved = np.where(start < median, score[start], score[last])
    return np.repeat(moved, last - start + 1)


# The spread

OFFSET = 0.02
"""Added to the error of a log price before its logarithm is predicted: small errors are chance."""

LEAST_ROWS, MOST_ROWS = 200, 100_000
"""Rows from which a spread is learned."""

_ROUNDS = 150
_PARAMETERS = {
    "objective": "gamma",
    "learning_rate": 0.03,
    "num_leaves": 8,
    "min_data_in_leaf": 40,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "use_missing": False,
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,  # otherwise LightGBM chooses the layout by timing, and sums differ
    "seed": 0,
    "verbosity": -1,
}


def rows_for_spread(count: int) -> np.ndarray:
    """Return the numbers of the training rows that a spread is learned from, int64, ascending; few of them: none."""
    return evenly(count, MOST_ROWS if count >= LEAST_ROWS else 0)


def fit_spread(features: np.ndarray, error: np.ndarray, weight: np.ndarray | None = None) -> Forest | None:
    """Grow the forest that predicts the log of the spread; None if there is nothing to learn it from, or no LightGBM.

    Args:
        features: of rows of `rows_for_spread`, float32 (N, K).
        error: |log true price - estimate| with an estimate that was not learned from the row, float64 (N,).
        weight: how much each row counts, float64 (N,); None: equally.
    """
    if weight is not None:
        features, error, weight = features[weight > 0], error[weight > 0], weight[weight > 0]
    if len(error) < LEAST_ROWS or not np.ptp(features, axis=0).any():
        return None
    try:
        import lightgbm
    except ModuleNotFoundError as missing:
        logger.info(
            f"price intervals have the same width for all rows: a width for each row needs {missing.name} in training "
            f"(pip install {missing.name})"
        )
        return None
    rows = lightgbm.Dataset(features, error + OFFSET, weight=weight, params=_PARAMETERS)
    forest, used = from_lightgbm(lightgbm.train(_PARAMETERS, rows, _ROUNDS).model_to_string())
    if not (forest.feature != LEAF).any():
        return None
    return joined([(forest, used)], features.shape[1])
