"""Which currency a price is in, however it is written."""

from __future__ import annotations

import re
from functools import lru_cache

from pricekit.errors import DataError
from pricekit.table.prices.signs import SHARED, SPELLINGS, currency_signs, sign_pattern


@lru_cache(maxsize=4096)
def find_currency(before: str, after: str) -> str | None:
    """Return the currency of the sign next to a number: a code or a shared sign, or None. A code outranks a sign.

    Args:
        before: the text before the number, back to the number before it.
        after: the text after the number.
    """
    signs = currency_signs()
    near = [sign for sign in sign_pattern().finditer(before) if len(before) - sign.end() <= 2]
    prefix = [before[near[-1].start() : near[-1].end()]] if near else []
    if near and (code := re.search(r"\b([A-Z]{3})\s?$", before[: near[-1].start()])) and code[1] in signs:
        prefix.insert(0, code[1])
    suffix = [sign[0] for sign in sign_pattern().finditer(after) if sign.start() <= 1 and sign[0] != "R"]
    found = [SPELLINGS.get(sign, sign) for sign in prefix + suffix]
    plain = [sign for sign in found if sign not in SHARED]
    return signs[plain[0]] if plain else next(iter(found), None)


def currency_in(text: str) -> str | None:
    """Return the currency that a text names anywhere, or None."""
    found = sign_pattern().search(text)
    return None if found is None or found[0] == "R" else canonical(found[0])


def without_signs(text: str) -> str:
    """Return a text without its currency signs and codes."""
    return sign_pattern().sub("", text)


def canonical(given: str) -> str:
    """Return the name of a currency in this package: an ISO code or a shared sign; an unknown one in upper case.

    Example:
        >>> canonical("kč"), canonical("Kč"), canonical("US$"), canonical("$")
        ('KČ', 'CZK', 'USD', '$')
    """
    given = given.strip()
    sign = SPELLINGS.get(given, given)
    if sign in SHARED:
        return sign
    ways = sign, sign.rstrip("."), sign.upper()
    return next((currency_signs()[way] for way in ways if way in currency_signs()), sign.upper())


def is_known(given: str) -> bool:
    """Whether a sign or code, in upper or lower case, names a known currency."""
    name = canonical(given)
    return name in SHARED or name in currency_signs() or name in currency_signs().values()


def is_currency(text: str) -> bool:
    """Whether a text is exactly the code of a currency, or a sign without letters."""
    return text in currency_signs() and (
        re.fullmatch("[A-Z]{3}", text) is not None or not re.search(r"\w", text)
    )


def may_mean(shown: str, wanted: str) -> bool:
    """Whether a sign may mean the currency wanted, both as `canonical` names them: "$" may mean CAD."""
    return shown == wanted or wanted in SHARED.get(shown, ()) or shown == SHARED.get(wanted, ("",))[0]


def require_same_currency(trained: str | None, other: str | None, whose: str = "to evaluate on") -> None:
    """Raise a DataError where two sets of prices are in different currencies; None is compatible with all.

    Args:
        trained: the currency of the training prices.
        other: the currency of the other prices.
        whose: which prices those are, for the message.
    """
    if not trained or not other:
        return
    trained, other = (
        canonical(trained),
        canonical(other),
    )  # version 0.1 stored some signs instead of their codes
    if not (may_mean(other, trained) or may_mean(trained, other)):
        raise DataError(
            f"the training prices are in {label(trained)}, but the prices {whose} are in {label(other)}. Convert one "
            "of them, or use prices in the same currency.",
            parameters=("currency",),
            expected=trained,
            found=other,
        )


def label(name: str) -> str:
    """Return a currency for people: "USD ($)" for a shared sign, else the code."""
    return f"{SHARED[name][0]} ({name})" if name in SHARED and name != "kr" else name


def decimals_of(name: str) -> int:
    """Return how many decimals prices in a currency have, as ISO 4217 says; 2 for an unknown one."""
    from babel.numbers import get_currency_precision

    return int(get_currency_precision(SHARED.get(name, (name,))[0]))
