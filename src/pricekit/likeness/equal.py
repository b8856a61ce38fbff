"""Texts that are equal whatever their case and punctuation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pricekit.likeness.words import normal_words, text_parts
from pricekit.support.cpus import in_threads

_LABEL_SHARE = 0.2


def equal_texts(texts: pd.Series) -> np.ndarray:
    """Return a number from 0 for each text, int64 (N,); texts of the same `normal_words` share a number.

    Texts without words, such as "!!", are equal only if all their characters are. A row takes 8 bytes, see
    `NormalWords.hashes`.

    Example:
        >>> equal_texts(pd.Series(["Green Tea", "ink", "green  tea!"])).tolist()
        [0, 1, 0]
    """
    found = in_threads(lambda cells: normal_words(cells).hashes(cells), text_parts(texts))
    return numbered(np.concatenate([np.zeros(0, np.int64), *found]))


def numbered(hashes: np.ndarray) -> np.ndarray:
    """Return a number for each hash, int64 (N,), from 0 in the order in which different ones first appear."""
    return np.asarray(pd.factorize(hashes)[0], np.int64)


def few_distinct(groups: np.ndarray) -> bool:
    """Return whether texts are labels, each for many products: fewer than a fifth are distinct.

    Args:
        groups: as `equal_texts` returns them, int64 (N,).
    """
    return bool(len(groups)) and int(groups.max()) + 1 < _LABEL_SHARE * len(groups)
