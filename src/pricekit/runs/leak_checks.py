"""Checks before training: leaks of the price, and validation rows that are also trained on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import DataError
from pricekit.evaluation.duplicates import irreducible_error
from pricekit.evaluation.leaks import find_leaks
from pricekit.features.fitted import FittedFeatures
from pricekit.log import logger
from pricekit.table import Columns, Table
from pricekit.table.columns import equal_texts

_SAMPLE_ROWS = 64
"""Rows on which features are computed with another value of a leaking column."""

_ALLOW = "or allow the leak if it is known wherever prices will be predicted"


def check_leaks(table: Table, config: RunConfig, *, allow_leak: bool) -> tuple[str, ...]:
    """Log how much prices of equal texts differ; find columns and texts that give the price away.

    Args:
        table: all usable rows.
        config: names the text columns.
        allow_leak: train on leaks with a warning.

    Returns:
        The columns that no feature may read.

    Raises:
        DataError: a text column or the text gives the price away.
    """
    if table.known_price.min() == table.known_price.max():
        logger.warning(
            f"all prices are {table.known_price[0]:g}: the model can learn nothing but this one price"
        )
    error = irreducible_error(equal_texts(table.text), table.known_price)
    if error.rows:
        logger.info(error.sentence())
    columns = config.columns
    found = find_leaks(table, Columns(tuple(columns.text), columns.price, columns.id))
    for name, share in found.columns.items():
        _check_column(name, share, read=name in columns.text, allowed=allow_leak)
    if found.in_text:
        _check_text(found.in_text, allow_leak)
    return () if allow_leak else tuple(found.columns)


def _check_column(name: str, share: float, *, read: bool, allowed: bool) -> None:
    """Warn of a column that leaks; raise DataError where the model would read it and leaks are not allowed."""
    found = f"the column '{name}' alone explains {100 * share:.0f}% of the log price, as a copy of the price would"
    if not read:
        logger.warning(f"{found}; the model does not read it")
    elif allowed:
        logger.warning(f"{found}; the model reads it, because leaks are allowed")
    else:
        raise DataError(
            f"{found}, and the model would read it. Leave it out of the text columns, {_ALLOW}",
            parameters=("text", "allow_leak"),
            column=name,
            share=share,
        )


def _check_text(share: float, allowed: bool) -> None:
    found = f"{100 * share:.0f}% of the texts contain their own price as a number, more than chance explains"
    if not allowed:
        raise DataError(
            f"{found}. Remove it from the text, {_ALLOW}", parameters=("allow_leak",), share=share
        )
    logger.warning(f"{found}; the model reads it, because leaks are allowed")


def check_feature_leaks(features: FittedFeatures, table: Table, leaks: tuple[str, ...]) -> None:
    """Raise DataError where a feature changes with a column that gives the price away.

    Args:
        features: fitted.
        table: training rows as features see them.
        leaks: columns that give the price away.
    """
    sample = table.take(np.arange(min(_SAMPLE_ROWS, len(table))))
    for name in leaks:
        if name not in sample.frame:
            continue
        other = sample.frame.assign(**{name: np.roll(sample.frame[name].to_numpy(object), 1)})
        other = other.astype({name: sample.frame[name].dtype})
        before, after = (features.transform(replace(sample, frame=frame)) for frame in (sample.frame, other))
        changed = (before != after).any(axis=0)
        if changed.any():
            names = ", ".join(np.array(features.names)[changed])
            raise DataError(
                f"the column '{name}' gives the price away, and the features {names} are computed from it. "
                f"Leave them out or drop the column, {_ALLOW}",
                parameters=("features", "allow_leak"),
                column=name,
            )


def check_shared(train: Table, valid: Table, *, allow_leak: bool) -> None:
    """Warn of validation rows whose text is also trained on.

    Raises:
        DataError: all of them are, at the same price, and `allow_leak` is False.
    """
    same = equal_texts(pd.concat([train.text, valid.text]))
    shared = np.isin(same[len(train) :], same[: len(train)])
    rows = set(zip(same[: len(train)].tolist(), train.known_price.tolist(), strict=True))
    equal = sum(
        row in rows for row in zip(same[len(train) :].tolist(), valid.known_price.tolist(), strict=True)
    )
    if not shared.any():
        return
    what = (
        f"{int(shared.sum()):,} of {len(valid):,} validation rows have the text of a training row, {equal:,} of "
        "them at the same price"
    )
    if equal == len(valid) and not allow_leak:
        raise DataError(
            f"{what}: nothing is held out. Validate on other rows, or allow the leak",
            parameters=("valid", "allow_leak"),
            rows=equal,
        )
    logger.warning(f"{what}, so validation metrics are optimistic; remove them from one of the tables")
