"""Bootstrap intervals of a mean over rows, by scipy."""

from __future__ import annotations

import numpy as np

from pricekit.progress import progress

RESAMPLES = 2000
LEVEL = 0.95
MIN_ROWS = 10
"""With fewer rows there is no interval: their resamples vary too little, so it would be too narrow."""

_DRAWS_PER_BATCH = 4_000_000  # 64 MB


def mean_interval(terms: np.ndarray) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of some rows' terms; None for fewer than `MIN_ROWS`.

    Percentile bootstrap: the 2.5% and 97.5% quantiles of the means of resamples, each as large as the rows and drawn
    from them with replacement (Efron 1979; `scipy.stats.bootstrap`). The terms of SMAPE give the interval of SMAPE;
    the differences of two models' terms on the same rows give that of their difference. The draws are deterministic,
    and the order of the rows does not matter.

    Args:
        terms: float (N,).

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    from scipy.stats import bootstrap

    if len(terms) < MIN_ROWS:
        return None
    with progress("bootstrapping the interval", 1) as advance:
        found = bootstrap(
            (np.sort(terms),),
            np.mean,
            n_resamples=RESAMPLES,
            batch=max(1, _DRAWS_PER_BATCH // len(terms)),
            vectorized=True,
            confidence_level=LEVEL,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        advance(1)
    return float(found.low), float(found.high)
