"""Which models share held-out rows, so that a row-by-row comparison of them is possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.comparison import common_rows, row_keys
from pricekit.evaluation.scores import MIN_ROWS
from pricekit.support.log import logger
from pricekit.support.text import counted
from pricekit.table.currency import may_mean
from pricekit.workflows.ranking.contenders import Contender

_WORTH = 2
"""Models are named as odd if the others share so many times the rows without them."""


def keep_sharing(found: Sequence[Contender]) -> list[Contender]:
    """Return the models that share held-out rows, and log which ones are left out and why.

    This is the largest set of models that share at least ten rows, or, if there is none, any rows. Rows are the same
    if number, id, price and currency are equal.

    Raises:
        DataError: no two models share a row.
    """
    holders = _holders(found)
    kept = _largest(holders, holders.models, min(MIN_ROWS, *(len(one.held_out) for one in found)))
    if kept.sum() == 1 and len(found) > 1:
        raise _nothing_shared(found)
    chosen = [one for one, keep in zip(found, kept, strict=True) if keep]
    odd = [one for one, keep in zip(found, kept, strict=True) if not keep]
    if odd:
        _report_odd(odd, chosen)
    _report_fewer(chosen, _Holders(holders.models[:, kept], holders.counts))
    return chosen


@dataclass(frozen=True)
class _Holders:
    """Which models hold out the same rows.

    Attributes:
        models: different sets of models that hold out a row, bool (S, M).
        counts: the rows that exactly these models hold out, int (S,).
    """

    models: np.ndarray
    counts: np.ndarray

    def shared(self, chosen: np.ndarray) -> int:
        """Return the number of rows that all chosen models, bool (M,), hold out."""
        return int(self.counts[self.models[:, chosen].all(1)].sum())


def _holders(found: Sequence[Contender]) -> _Holders:
    usual = _usual_currency(found)
    keys = pd.concat(
        [
            pd.DataFrame(
                {
                    "row": one.held_out.rows,
                    "id": one.held_out.ids.to_numpy(object),
                    "price": one.held_out.price,
                    "currency": _currency_of(one, usual),
                    "model": number,
                }
            )
            for number, one in enumerate(found)
        ]
    )
    row = keys.groupby(["row", "id", "price", "currency"], sort=False, dropna=False).ngroup().to_numpy()
    held = np.zeros((row.max() + 1, len(found)), bool)
    held[row, keys["model"].to_numpy()] = True
    return _Holders(*np.unique(held, axis=0, return_counts=True))


def _largest(holders: _Holders, sets: np.ndarray, least: int) -> np.ndarray:
    """Return the largest set of models that share at least so many rows, or else any, bool (M,).

    Of sets of equal size, it is the one with the most rows.

    Args:
        holders: which models hold out which rows.
        sets: to choose from, bool (S, M). Those of `holders` are enough: all sets would take exponential time.
        least: number of rows.
    """
    best: np.ndarray
    sizes = sets.sum(1)
    for size in sorted(set(sizes[sizes > 1].tolist()), reverse=True):  # most often, the first one is enough
        same = [(holders.shared(chosen), chosen) for chosen in sets[sizes == size]]
        shared, best = max(same, key=lambda one: (one[0], one[1].tolist()))
        if shared >= least:
            return best
    best = sets[sizes.argmax()]
    return best


def _currency_of(one: Contender, usual: str) -> str:
    """Return the currency of a model, or the usual one if it is unknown or may mean that: "$" may mean USD."""
    own = one.currency or usual
    return usual if may_mean(own, usual) or may_mean(usual, own) else own


def _usual_currency(found: Sequence[Contender]) -> str:
    known = Counter(one.currency for one in found if one.currency)
    return known.most_common(1)[0][0] if known else ""


def _nothing_shared(found: Sequence[Contender]) -> DataError:
    """Return the error for models of which no two share a row."""
    try:
        common_rows({str(one.path): one.held_out for one in found})
    except DataError as error:
        return error
    currencies = ", ".join(f"{one.path}: {one.currency}" for one in found)
    return DataError(
        f"the models predict prices in different currencies ({currencies}); rank those of one currency"
    )


def _report_odd(odd: Sequence[Contender], chosen: Sequence[Contender]) -> None:
    """Warn about the models that are left out."""
    usual = _usual_currency(chosen)
    reasons = ", ".join(f"{one.path} ({_reason(one, chosen[0], usual)})" for one in odd)
    they = "it does" if len(odd) == 1 else "they do"
    logger.warning(
        f"left out, because {they} not hold out the rows that the other {len(chosen)} share: {reasons}. Train all "
        "models on one table with one seed, or cross-validate them, which holds out every row"
    )


def _reason(one: Contender, other: Contender, currency: str) -> str:
    if _currency_of(one, currency) != currency:
        return f"prices in {one.currency} instead of {currency}"
    numbers = np.intersect1d(one.held_out.rows, other.held_out.rows)
    same = row_keys(one.held_out).isin(row_keys(other.held_out)).sum()
    return "other ids or prices" if len(numbers) - same >= MIN_ROWS else "another table or another seed"


def _report_fewer(chosen: Sequence[Contender], holders: _Holders) -> None:
    """Log that models hold out more rows than all of them share; warn if a few of them are the reason."""
    count, sizes = holders.shared(np.ones(len(chosen), bool)), [len(one.held_out) for one in chosen]
    if count == max(sizes):
        return
    only = f"only the {counted(count, 'row')} that all {len(chosen)} hold out count"
    most = _largest(holders, holders.models[~holders.models.all(1)], _WORTH * count)
    odd = [str(one.path) for one, keep in zip(chosen, most, strict=True) if not keep]
    if holders.shared(most) >= _WORTH * count and 2 * len(odd) < len(chosen):
        logger.warning(
            f"{only}; without {', '.join(odd)}, the others share {counted(holders.shared(most), 'row')}: to rank them "
            "on these, name only the others"
        )
    else:
        logger.info(f"{only}; the models hold out between {min(sizes):,} and {max(sizes):,}")
