"""Importance over the rows of a table, or over the held-out rows of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pricekit.errors import ConfigError
from pricekit.evaluation.scores import MIN_ROWS, metric_of
from pricekit.support.log import logger
from pricekit.workflows.importance.permute import baseline_of, permute_features, permute_lines
from pricekit.workflows.importance.result import Importance
from pricekit.workflows.importance.rows import shares_of
from pricekit.workflows.importance.words import explain_some, word_effects

REPEATS = 5
"""Default number of permutations."""


def measure_importance(
    model: Path,
    table: Any,
    options: Mapping[str, Any],
    *,
    metric: str | None = None,
    repeats: int = REPEATS,
) -> Importance:
    """Measure what a model's prices depend on; see `pricekit.importance`."""
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ConfigError(
            f"repeats is {repeats!r}; expected a number of permutations, at least 1", parameters=("repeats",)
        )
    judged_by = metric_of([model], metric)
    shares = shares_of(model, table, options)
    baseline = baseline_of(shares, judged_by, repeats)
    found = Importance(
        rows=len(baseline.terms),
        metric=judged_by,
        score=baseline.score,
        features=permute_features(baseline),
        lines=permute_lines(baseline),
        words=word_effects(explain_some(shares)),
    )
    unknown = any(frame["low"].isna().any() for frame in (found.features, found.lines, found.words))
    if unknown and found.rows >= MIN_ROWS:
        logger.warning("the intervals are omitted: they need scipy (pip install scipy)")
    return found
