"""Which texts say the same: equal but for case, punctuation and white space."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

_FOLDED = r"[\pP\pS\pZ\pC]+"
"""Punctuation, symbols, white space and control characters; letters, marks and digits stay."""


def equal_texts(texts: pd.Series) -> np.ndarray:
    """Return a number for each text, int64 (N,), equal where texts say the same; from 0, as they first appear."""
    codes: np.ndarray = normalised(texts).dictionary_encode().indices.to_numpy()
    return codes.astype(np.int64)


def normalised(texts: pd.Series) -> pa.Array:
    """Return texts, (N,), in lower case, Unicode's NFKC, with one space for all that is no letter, mark or digit.

    A text of nothing else stays as it is.
    """
    cells = pa.array(texts.to_numpy(object), pa.large_string())
    folded = pc.utf8_trim_whitespace(pc.replace_substring_regex(cells, _FOLDED, " "))
    folded = pc.utf8_lower(pc.utf8_normalize(folded, form="NFKC"))
    return pc.if_else(pc.equal(pc.utf8_length(folded), 0), cells, folded)
