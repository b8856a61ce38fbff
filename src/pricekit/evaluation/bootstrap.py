"""How far a mean over rows could lie from that over all rows of this kind: the bootstrap, by scipy."""

from __future__ import annotations

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
MIN_ROWS = 10
"""Of fewer rows no interval is given: resamples of so few differ too little, so it would be too narrow."""

_DRAWS = 4_000_000  # at a time, 64 MB


def mean_interval(terms: np.ndarray) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of some rows' terms, None for fewer than `MIN_ROWS`.

    Percentile bootstrap: the 2.5% and 97.5% quantiles of the means of samples as large as the rows, drawn from
    them with replacement (Efron 1979; `scipy.stats.bootstrap`). The terms of SMAPE give that of SMAPE, the
    differences of two models' terms on equal rows that of their difference. The draws are the same each time, and
    the order of the rows does not matter.

    Args:
        terms: float (N,).

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    from scipy.stats import bootstrap

    if len(terms) < MIN_ROWS:
        return None
    found = bootstrap(
        (np.sort(terms),),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(1, _DRAWS // len(terms)),
        vectorized=True,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)
