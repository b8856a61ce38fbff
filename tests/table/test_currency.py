"""The signs and codes of currencies."""

from __future__ import annotations

import re

import pytest
from babel.numbers import list_currencies

from pricekit.table.currency import (
    SHARED,
    SPELLINGS,
    canonical,
    currency_signs,
    find_currency,
    is_known,
    may_mean,
    sign_pattern,
)


def test_every_sign_stands_for_an_iso_code() -> None:
    signs = currency_signs()
    assert set(signs.values()) <= {
        *list_currencies(),
        "IRT",
    }  # toman: a tenth of a rial, with no code of its own
    assert all(re.fullmatch("[A-Z]{3}", code) for code in signs.values())
    assert all(sign in signs for sign in (*SHARED, *SPELLINGS))


def test_shared_signs_and_their_spellings_are_consistent() -> None:
    assert set(SPELLINGS.values()) <= set(SHARED)
    for sign, codes in SHARED.items():
        assert currency_signs()[sign] == codes[0]
        assert all(may_mean(sign, code) for code in codes)


@pytest.mark.parametrize(
    ("sign", "code"),
    [
        ("€", "EUR"), ("zł", "PLN"), ("₫", "VND"), ("₹", "INR"), ("R$", "BRL"), ("Kč", "CZK"), ("₺", "TRY"),
        ("元", "CNY"), ("руб", "RUB"), ("CFA", "XOF"), ("Sk", "SKK"), ("DM", "DEM"), ("fr", "CHF"), ("Bs", "BOB"),
        ("₧", "ESP"), ("MOP$", "MOP"), ("FC", "CDF"),
    ],
)  # fmt: skip
def test_the_meaning_of_currency_signs(sign: str, code: str) -> None:
    assert canonical(sign) == code
    assert is_known(sign)
    assert find_currency("", f" {sign}") == code


@pytest.mark.parametrize("text", ["T 5", "K", "Le", "-", "fl 3", "12 oz"])
def test_letters_with_another_meaning_are_not_signs(text: str) -> None:
    assert sign_pattern().search(text) is None


def test_the_longest_sign_is_found_and_letters_around_it_count() -> None:
    for sign in currency_signs():
        for before, after in (("12 ", " 5"), ("x", "x"), ("é", "é"), ("-", ".")):
            begins = before[-1].isalpha() and sign[0].isalpha() and sign[0].isascii()
            ends = after[0].isalpha() and sign[-1].isalpha()
            match = sign_pattern().match(before + sign + after, len(before))
            assert begins or ends or (match is not None and match[0].startswith(sign)), (before, sign, after)
            assert not (begins or ends) or match is None or match[0] != sign, (before, sign, after)
