"""Price intervals: reading and applying the half widths that were fitted on the validation rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from pricekit.errors import BundleError, ConfigError

WIDEST = 80.0
"""Half width of a log price; exp(80) times a price is still a float32."""


BOUNDS = "price_low", "price_high"
"""The columns of an interval."""


@dataclass(frozen=True, repr=False)
class Intervals:
    """Half widths of the log price by level and by predicted price.

    Split conformal prediction: a share `level` of new prices is within [p·exp(-w), p·exp(w)] for any distribution, if
    the rows are exchangeable with the validation rows (Papadopoulos et al. 2002; by bins of the
    prediction: Boström & Johansson 2020, Mondrian conformal regressors).

    Attributes:
        edges: prices between the bins, ascending, float64 (B - 1,).
        levels: ascending, each in (0, 1), float64 (Q,).
        widths: w for each level and bin, float64 (Q, B).
    """

    edges: np.ndarray
    levels: np.ndarray
    widths: np.ndarray

    def bounds(self, price: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound for each predicted price, both float32 (N,).

        A level that was not fitted is rounded up to the next one.

        Raises:
            ConfigError: the level is not in (0, 1), or higher than the number of validation rows allows.
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ConfigError(
                f"the interval is {level!r}; expected a share between 0 and 1, such as 0.9",
                parameters=("interval",),
            )
        known = np.flatnonzero(self.levels >= level - 1e-9)
        if not len(known):
            raise ConfigError(
                f"the interval is {level:g}; this model's validation rows allow levels above 0 and up to "
                f"{self.levels[-1]:g}; train with more validation rows for a higher one",
                parameters=("interval",),
                highest=float(self.levels[-1]),
            )
        factor = np.exp(self.widths[known[0]])[np.searchsorted(self.edges, price, side="right")]
        limits = np.finfo(np.float32)
        low = np.maximum(price / factor, np.float64(limits.smallest_subnormal))
        high = np.minimum(price * factor, np.float64(limits.max))
        return low.astype(np.float32), high.astype(np.float32)

    def __repr__(self) -> str:
        """Return one line without the numbers."""
        return f"Intervals(levels={self.levels[0]:g} to {self.levels[-1]:g}, bins={len(self.edges) + 1})"

    def to_json(self) -> dict[str, Any]:
        """Return lists of numbers for `read_intervals`."""
        return {"edges": self.edges.tolist(), "levels": self.levels.tolist(), "widths": self.widths.tolist()}


def read_intervals(text: str | bytes, where: object) -> Intervals:
    """Read the JSON of `to_json`; raises BundleError that names `where` if it is damaged."""
    try:
        record = json.loads(text)
        found = Intervals(*(np.asarray(record[name], np.float64) for name in ("edges", "levels", "widths")))
        if not _is_consistent(found):
            raise ValueError("the numbers are inconsistent")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(
            f"the intervals of {where} are damaged ({error}); train or export it again"
        ) from None
    return found


def _is_consistent(found: Intervals) -> bool:
    levels, edges, widths = found.levels, found.edges, found.widths
    shapes = levels.ndim == edges.ndim == 1 <= len(levels) and widths.shape == (len(levels), len(edges) + 1)
    return bool(
        shapes
        and ((levels > 0) & (levels < 1)).all()
        and (np.diff(levels) > 0).all()
        and (np.isfinite(edges) & (edges > 0)).all()
        and (np.diff(edges) >= 0).all()
        and ((widths >= 0) & (widths <= WIDEST)).all()
    )
