"""The languages of texts, by py3langid (Lui and Baldwin 2012)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from babel import Locale, UnknownLocaleError

from pricekit.support.text import counted

MOST_TEXTS = 500
"""Of more texts, so many are drawn by chance, with a fixed seed."""
LEAST_PROBABILITY = 0.9
"""Below it, the language of a text counts as undetermined: most such texts are short."""
LEAST_SHARE = 0.02
"""Rarer languages are summed up: some of them are mistakes."""


def describe_languages(texts: Sequence[str]) -> str:
    """Return one sentence on the languages of texts, the most frequent first."""
    some = list(texts)
    if len(some) > MOST_TEXTS:
        chosen = np.random.default_rng(0).choice(len(some), MOST_TEXTS, replace=False)
        some = [some[place] for place in sorted(chosen)]
    if not some:
        return ""
    counts = Counter(language_of(text) for text in some)
    named = [(count, name) for name, count in counts.items() if count >= LEAST_SHARE * len(some) and name]
    shares = [f"{name} {count / len(some):.0%}" for count, name in sorted(named, reverse=True)]
    if rest := len(some) - sum(count for count, _ in named):
        shares.append(f"rare or undetermined {rest / len(some):.0%}")
    return f"Languages of {counted(len(some), 'text')}: {', '.join(shares)}."


@cache
def _identifier() -> Any:
    """Load the model of py3langid, which takes a second, with probabilities that sum to 1."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(text: str) -> str:
    """Return the English name of a text's language, "" if it cannot be determined."""
    code, probability = _identifier().classify(text)
    if probability < LEAST_PROBABILITY:
        return ""
    try:
        return Locale.parse(code).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):  # languages without a locale
        return str(code)
