"""What must be said of rows before a model is trained on them, and what stops it: leaks of the price."""

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

_TRIED = 64
_ANYWAY = "; say --allow-leak if it is known wherever prices will be predicted"


def check_leaks(table: Table, config: RunConfig, *, allow_leak: bool) -> tuple[str, ...]:
    """Say what equal texts of other prices cost, and name the columns that give the price away.

    Args:
        table: all usable rows.
        config: says which columns are text.
        allow_leak: train on them all the same.

    Returns:
        The columns that no feature may read.

    Raises:
        DataError: a text column gives the price away.
    """
    if table.known_price.min() == table.known_price.max():
        logger.warning(
            f"all prices are {table.known_price[0]:g}: there is nothing to learn but that one price."
        )
    error = irreducible_error(equal_texts(table.text), table.known_price)
    if error.rows:
        logger.info(error.sentence())
    columns = config.columns
    found = find_leaks(table, Columns(tuple(columns.text), columns.price, columns.id))
    for name, share in found.columns.items():
        _tell(_column(name, share), read=name in columns.text, allowed=allow_leak)
    if found.in_text:
        _tell_of_text(found.in_text, allow_leak)
    return () if allow_leak else tuple(found.columns)


def _tell(what: str, *, read: bool, allowed: bool) -> None:
    """Raise where the model would read a leak that is not allowed, else name it."""
    if not read:
        logger.warning(f"{what}; the model does not read it.")
    elif allowed:
        logger.warning(f"{what}; the model reads it, since --allow-leak was given.")
    else:
        raise DataError(f"{what}, and the model would read it. Leave it out of --text{_ANYWAY}")


def _column(name: str, share: float) -> str:
    return f"the column '{name}' explains {100 * share:.0f}% of the log price alone, as a price under another name does"


def _tell_of_text(share: float, allowed: bool) -> None:
    what = f"{100 * share:.0f}% of the texts hold their own price as a number, beyond what chance would give"
    if not allowed:
        raise DataError(f"{what}. Take it out of the text{_ANYWAY}")
    logger.warning(f"{what}; the model reads it, since --allow-leak was given.")


def check_feature_leaks(features: FittedFeatures, table: Table, leaks: tuple[str, ...]) -> None:
    """Raise DataError where the features of rows change with a column that gives the price away.

    Args:
        features: fitted.
        table: training rows as features see them.
        leaks: the columns.
    """
    sample = table.take(np.arange(min(_TRIED, len(table))))
    for name in leaks:
        if name not in sample.frame:
            continue
        other = sample.frame.assign(**{name: np.roll(sample.frame[name].to_numpy(object), 1)})
        other = other.astype({name: sample.frame[name].dtype})
        before, after = (features.transform(replace(sample, frame=frame)) for frame in (sample.frame, other))
        changed = (before != after).any(axis=0)
        if changed.any():
            read_options = ", ".join(np.array(features.names)[changed])
            raise DataError(
                f"the column '{name}' gives the price away, and the features {read_options} are computed from it. "
                f"Leave them out or drop the column{_ANYWAY}"
            )


def check_shared(train: Table, valid: Table, *, allow_leak: bool) -> None:
    """Count the validation rows whose text is trained on; raise DataError where all are, at the same price."""
    same = equal_texts(pd.concat([train.text, valid.text]))
    shared = np.isin(same[len(train) :], same[: len(train)])
    rows = set(zip(same[: len(train)].tolist(), train.known_price.tolist(), strict=True))
    equal = sum(
        row in rows for row in zip(same[len(train) :].tolist(), valid.known_price.tolist(), strict=True)
    )
    if not shared.any():
        return
    what = (
        f"{int(shared.sum()):,} of {len(valid):,} validation rows have a text that is trained on, {equal:,} of them "
        "at the same price"
    )
    if equal == len(valid) and not allow_leak:
        raise DataError(f"{what}: nothing is held out. Give other rows with --valid, or say --allow-leak")
    logger.warning(f"{what}: the validation metrics flatter by them. Leave them out of one of the tables.")
