"""Signs and codes of currencies: which one a price is in, however it is written.

The codes are ISO 4217 as babel knows them, the signs those of babel (CLDR) and of price-parser.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from pricekit.errors import DataError

_LOCALES: tuple[str, ...] = (
    *(
        "en",
        "en_US",
        "vi",
        "pl",
        "ru",
        "cs",
        "ja",
        "tr",
        "uk",
        "hu",
        "bg",
        "id",
        "ms",
        "th",
        "fa",
        "ar",
        "he",
    ),
    *("kk", "ka", "hy", "az", "bn", "km", "lo", "mn", "is", "sq", "mk", "sr", "ro", "da"),
)

# What neither library names, or not as people write it, by code.
_ALSO = {
    "USD": "US$ U$S USD$ ＄ $ dollar dollars",
    "CAD": "C$ CA$ CAD$",
    "AUD": "A$ AU$ AUD$",
    "NZD": "NZ$",
    "SGD": "S$ SG$",
    "HKD": "HK$",
    "TWD": "NT$",
    "MXN": "MX$ Mex$",
    "ARS": "AR$",
    "CLP": "CL$",
    "COP": "COL$ CO$",
    "NAD": "N$",
    "EUR": "euro euros Euro Euros EURO",
    "GBP": "£ pound pounds",
    "CNY": "CN¥ RMB 元 圆 块 人民币",
    "JPY": "¥ 円 yen",
    "KRW": "₩ 원 won",
    "VND": "đ Đ VNĐ vnđ đồng",
    "RUB": "RUR ₽ руб Руб РУБ рублей рубля рубль р Р",
    "INR": "Rs RS rs Re ₨ रु रू rupees",
    "CHF": "Fr SFr sFr",
    "CZK": "Kč Kc",
    "PLN": "zl złotych",
    "HUF": "Ft",
    "RON": "lei leu Lei",
    "BGN": "лв lv",
    "UAH": "грн",
    "RSD": "дин din",
    "HRK": "kn",
    "KZT": "тг тңг тенге",
    "TRY": "TL ليرة",
    "MYR": "RM",
    "IDR": "Rp RP",
    "THB": "฿ บาท",
    "ZAR": "R",
    "PEN": "S/ S/.",
    "PHP": "Php P$",
    "BDT": "Tk ৳",
    "AED": "Dhs Dh DH درهم",
    "SAR": "SR ريال",
    "KWD": "KD دينار",
    "BHD": "BD",
    "JOD": "JD",
    "TND": "DT",
    "EGP": "E£ LE جنيه",
    "IRT": "تومان",
    "ILS": 'NIS ש״ח ש"ח',
    "KES": "KSh Ksh",
    "UGX": "USh",
    "TZS": "TSh",
    "GHS": "GH₵ ₵",
    "NGN": "₦",
    "CRC": "₡",
    "PYG": "₲",
    "IRR": "﷼ ریال",
    "DOP": "RD$",
    "UYU": "$U",
    "TTD": "TT$",
    "BZD": "BZ$",
    "BND": "BN$",
    "LBP": "LB£",
    "PKR": "PKRs",
    "LKR": "SLRs",
    "NPR": "NPRs",
    "MUR": "MURs",
    "SEK": "kr Kr KR Skr",
    "NOK": "Nkr",
    "DKK": "Dkr",
    "ISK": "Ikr",
    "QAR": "QR",
    "DZD": "DA",
    "AOA": "Kz",
    "BAM": "KM",
    "BYN": "Br",
    "ALL": "Lek",
}

# Codes that are read in lower case, too: those that are no words.
_LOWER = (
    "usd eur gbp inr chf cad aud jpy cny rub pln czk sek nok dkk vnd brl uah kzt huf idr myr sgd hkd krw thb php aed "
    "sar nzd mxn"
)

# Letters that stand for a currency nowhere near as often as for something else.
_RISKY = frozenset(
    [
        "-",
        "",
        "XXX",
        "¤",
        "T",
        "D",
        "G",
        "K",
        "L",
        "F",
        "P",
        "Q",
        "Le",
        "T$",
        "Z$",
        "J$",
        "FR",
        "Pt",
        "mk",
        "UM",
    ]
)

# Signs of several currencies: each means the first, unless the user or a code says another.
SHARED = {
    "$": (
        "USD",
        "CAD",
        "AUD",
        "NZD",
        "SGD",
        "HKD",
        "TWD",
        "MXN",
        "ARS",
        "CLP",
        "COP",
        "UYU",
        "BBD",
        "JMD",
        "NAD",
    ),
    "£": ("GBP", "EGP", "LBP", "SYP", "SDG", "GIP", "FKP", "SHP"),
    "¥": ("JPY", "CNY"),
    "kr": ("SEK", "NOK", "DKK", "ISK"),
    "Rs": ("INR", "PKR", "LKR", "NPR", "MUR", "SCR"),
}
_SAME_SIGN = {"￥": "¥", "＄": "$", "Kr": "kr", "KR": "kr", "RS": "Rs", "rs": "Rs", "₨": "Rs"}


@lru_cache(maxsize=4096)
def find_currency(before: str, after: str) -> str | None:
    """Return the currency whose sign touches a number, a code or a shared sign, or None; a code outranks a sign.

    Args:
        before: what stands before the number, back to another number.
        after: what stands behind it.
    """
    signs = _signs()
    near = [sign for sign in _pattern().finditer(before) if len(before) - sign.end() <= 2]
    prefix = [before[near[-1].start() : near[-1].end()]] if near else []
    if near and (code := re.search(r"\b([A-Z]{3})\s?$", before[: near[-1].start()])) and code[1] in signs:
        prefix.insert(0, code[1])
    suffix = [sign[0] for sign in _pattern().finditer(after) if sign.start() <= 1 and sign[0] != "R"]
    found = [_SAME_SIGN.get(sign, sign) for sign in prefix + suffix]
    plain = [sign for sign in found if sign not in SHARED]
    return signs[plain[0]] if plain else next(iter(found), None)


def currency_in(text: str) -> str | None:
    """Return the currency that a text names anywhere, or None."""
    found = _pattern().search(text)
    return None if found is None or found[0] == "R" else canonical(found[0])


def without_signs(text: str) -> str:
    """Return a text without the signs and codes of currencies in it."""
    return _pattern().sub("", text)


def canonical(given: str) -> str:
    """Return a sign or code as this module names it: the code, a shared sign, or what was given."""
    given = given.strip()
    sign = _SAME_SIGN.get(given, given)
    if sign in SHARED:
        return sign
    ways = sign, sign.rstrip("."), sign.upper()
    return next((_signs()[way] for way in ways if way in _signs()), sign.upper())


def is_known(given: str) -> bool:
    """Whether a sign or code, in capitals or not, names a currency here."""
    name = canonical(given)
    return name in SHARED or name in _signs() or name in _signs().values()


def is_currency(text: str) -> bool:
    """Whether a text is the code of a currency, or a sign without letters, and nothing else."""
    return text in _signs() and (re.fullmatch("[A-Z]{3}", text) is not None or not re.search(r"\w", text))


def may_mean(shown: str, wanted: str) -> bool:
    """Whether what a price shows may mean the currency wanted, both named as of `canonical`: "$" may mean CAD."""
    return shown == wanted or wanted in SHARED.get(shown, ()) or shown == SHARED.get(wanted, ("",))[0]


def require_like(trained: str | None, others: str | None, whose: str = "to judge by") -> None:
    """Raise DataError where prices, to judge by or `whose`, show another currency than those of the training."""
    if trained and others and not (may_mean(others, trained) or may_mean(trained, others)):
        raise DataError(
            f"the prices of the training are in {label(trained)}, those {whose} in {label(others)}: together they mean "
            "nothing. Convert one of them, or give others in the same currency"
        )


def label(name: str) -> str:
    """Return a currency as people are told of it."""
    return f"{SHARED[name][0]} ({name})" if name in SHARED and name != "kr" else name


def decimals_of(name: str) -> int:
    """Return how many decimals prices in a currency have, 2 where nobody knows it."""
    from babel.numbers import get_currency_precision

    return int(get_currency_precision(SHARED.get(name, (name,))[0]))


@cache
def _signs() -> dict[str, str]:
    """Each sign and code, and the ISO code that it stands for, or itself where babel has none."""
    from babel import Locale
    from babel.numbers import list_currencies
    from price_parser import _currencies

    known = {code: code for code in list_currencies()}
    known |= {code: code.upper() for code in _LOWER.split()}
    for locale in _LOCALES:
        for code, sign in Locale.parse(locale).currency_symbols.items():
            known.setdefault(_bare(sign), code)
    for sign in (*_currencies.CURRENCY_SYMBOLS, *_currencies.CURRENCY_NATIONAL_SYMBOLS):
        known.setdefault(_bare(sign), _bare(sign))
    known |= {sign: code for code, signs in _ALSO.items() for sign in signs.split()}
    return {sign: code for sign, code in known.items() if sign not in _RISKY}


def _bare(sign: str) -> str:
    return re.sub("[\u200e\u200f]", "", sign).replace("\u202f", " ").strip(" .")


@cache
def _pattern() -> re.Pattern[str]:
    """All signs, the longest first; one of letters is a word of its own, save for what follows it at once."""
    signs = sorted(_signs(), key=len, reverse=True)
    letters = r"[^\W\d_]"
    each = (
        (rf"(?<!{letters})" if sign[0].isalpha() and sign[0].isascii() else "")
        + re.escape(sign)
        + (rf"(?!{letters})" if sign[-1].isalpha() else "")
        for sign in signs
    )
    return re.compile("|".join(each))
