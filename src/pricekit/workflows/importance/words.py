"""The effects of words over a table, from explanations of some of its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from pricekit.explanation.attribution import Explanation, Factor, explain_rows
from pricekit.workflows.importance.rows import SEED, Share

EXPLAINED = 200
"""So many rows are explained, drawn by chance with a fixed seed."""
LEAST_ROWS = 5
"""Words that fewer rows have are left out."""
MOST_WORDS = 50
LEVEL = 0.95


def explain_some(shares: Sequence[Share]) -> list[Explanation]:
    """Explain `EXPLAINED` rows, or all of fewer."""
    counts = [len(share.table) for share in shares]
    total = sum(counts)
    chosen = np.sort(np.random.default_rng(SEED).permutation(total)[:EXPLAINED])
    found: list[Explanation] = []
    for share, start in zip(shares, np.cumsum([0, *counts]), strict=False):
        inside = chosen[(chosen >= start) & (chosen < start + len(share.table))] - start
        if len(inside):
            found += explain_rows(share.table.take(inside), share.columns, share.price)
    return found


def word_effects(explanations: Iterable[Explanation]) -> pd.DataFrame:
    """Return the words that at least `LEAST_ROWS` rows have, those with the largest sums of contributions first.

    A word that stands several times in a row contributes the sum. Columns: `word`, case-folded; `rows`; `factor`, the
    geometric mean over its rows; `low` and `high`, its 95% interval over them by Student's t distribution of the log
    factor, NaN without scipy; `size`, the mean absolute contribution to the log price.

    Args:
        explanations: one for each row.
    """
    logs: dict[str, list[float]] = defaultdict(list)
    for explanation in explanations:
        own: dict[str, float] = defaultdict(float)
        for word in explanation.words():
            if _is_word(word):
                own[word.text.casefold()] += word.log
        for text, log in own.items():
            logs[text].append(log)
    rows = [[word, *_effect(np.array(own))] for word, own in logs.items() if len(own) >= LEAST_ROWS]
    frame = pd.DataFrame(rows, columns=["word", "rows", "factor", "low", "high", "size"])
    order = np.argsort(-(frame["rows"] * frame["size"]).to_numpy(np.float64), kind="stable")
    return frame.iloc[order[:MOST_WORDS]].reset_index(drop=True)


def _is_word(part: Factor) -> bool:
    """Return whether a part is a word, or a phrase of a single word; phrases that were not divided are none."""
    return part.kind == "word" or (part.kind == "phrase" and not any(map(str.isspace, part.text)))


def _effect(logs: np.ndarray) -> tuple[int, float, float, float, float]:
    """Return rows, factor, low, high and size from the contributions of a word, (R,)."""
    mean, spread = float(logs.mean()), float(logs.std(ddof=1)) / np.sqrt(len(logs))
    try:
        from scipy.stats import t

        margin = float(t.ppf((1 + LEVEL) / 2, len(logs) - 1)) * spread
    except ModuleNotFoundError:
        margin = np.nan
    factor, low, high = np.exp([mean, mean - margin, mean + margin]).tolist()
    return len(logs), factor, low, high, float(np.abs(logs).mean())
