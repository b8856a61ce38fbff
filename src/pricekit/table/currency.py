"""Currencies: ISO 4217 codes and CLDR signs from Babel, other common signs, and detection of a price's currency."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from pricekit.errors import DataError

_LOCALES = "en en_US vi pl ru cs ja tr uk hu bg id ms th fa ar he kk ka hy az bn km lo mn is sq mk sr ro da"

_WRITTEN = """
USD US$ U$S USD$ ＄ $ dollar dollars
CAD C$ CA$ CAD$ CDN CDN$
AUD A$ AU$ AUD$
NZD NZ$
SGD S$ SG$
HKD HK$
TWD NT$
MXN MX$ Mex$
ARS AR$
CLP CL$
COP COL$ CO$
NAD N$
EUR euro euros Euro Euros EURO
GBP £ pound pounds ₤
CNY CN¥ RMB rmb 元 圆 块 人民币
JPY ¥ 円 yen
KRW ₩ 원 won
VND đ Đ VNĐ vnđ đồng
RUB RUR ₽ руб Руб РУБ рублей рубля рубль р Р
INR Rs RS rs Re ₨ रु रू rupees र
CHF Fr SFr sFr fr
CZK Kč Kc
PLN zl złotych
HUF Ft
RON lei leu Lei LEI
BGN лв lv
UAH грн
RSD дин din
HRK kn
KZT тг тңг тенге
TRY TL ليرة
MYR RM
IDR Rp RP
THB ฿ บาท
ZAR R
PEN S/ S/.
PHP Php P$
BDT Tk ৳ টকা
AED Dhs Dh DH درهم
SAR SR ريال
KWD KD دينار
BHD BD
JOD JD
TND DT
EGP E£ LE جنيه
IRT تومان
ILS NIS ש״ח ש"ח
KES KSh Ksh
UGX USh
TZS TSh
GHS GH₵ ₵
NGN ₦
CRC ₡
PYG ₲
IRR ﷼ ریال
DOP RD$
UYU $U
TTD TT$
BZD BZ$
BND BN$
LBP LB£
PKR PKRs
LKR SLRs
NPR NPRs नेरू
MUR MURs
SEK kr Kr KR Skr
NOK Nkr
DKK Dkr
ISK Ikr
QAR QR
DZD DA
AOA Kz
BAM KM
BYN Br
ALL Lek
AMD դր
XOF CFA
XPF CFP
BOB Bs
VEF Bs.F
YER YR
SYP SY£
LYD LD
SOS Ssh
AFN Af
ZMW ZK
MWK MK
MZN MTn
BIF FBu
GNF FG
KMF CF
CDF FC FrCD
DJF Fdj
ERN Nfk
STN Db
CVE CV$
MVR Rf MRf
AZN man ман
BBD Bds$
CUC CUC$
CLF UF
PAB B/
AWG ƒ Afl
MOP MOP$
WST WS$
VUV VT
DEM DM D-Mark
ATS öS
ESP Pta Pts Ptas ₧
FRF ₣
GRD ₯ Δρχ Δρ
IEP IR£
SKK Sk
SIT tolarjev
EEK kroon
LVL Ls
LTL Lt litų
MTL Lm
ECS Sucre
"""
"""Each line has an ISO code and the signs that Babel lacks or spells differently; from DEM on, replaced currencies."""

_LOWER_CASE = (
    "usd eur gbp inr chf cad aud jpy cny rub pln czk sek nok dkk vnd brl uah kzt huf idr myr sgd hkd krw thb php aed "
    "sar nzd mxn twd ngn zar pkr bdt lkr egp qar kwd"
)
"""Codes that are also read in lower case, because they are not words."""

_AMBIGUOUS = "- XXX ¤ T D G K L F P Q Le T$ Z$ J$ FR Pt mk UM"
"""Signs in Babel that far more often mean something else."""

_SHARED = {
    "$": "USD CAD AUD NZD SGD HKD TWD MXN ARS CLP COP UYU BBD JMD NAD",
    "£": "GBP EGP LBP SYP SDG GIP FKP SHP",
    "¥": "JPY CNY",
    "kr": "SEK NOK DKK ISK",
    "Rs": "INR PKR LKR NPR MUR SCR",
}
SHARED = {sign: tuple(codes.split()) for sign, codes in _SHARED.items()}
"""Signs of several currencies: each means the first one, unless the user or a code names another."""

SPELLINGS = {"￥": "¥", "＄": "$", "₤": "£", "Kr": "kr", "KR": "kr", "RS": "Rs", "rs": "Rs", "₨": "Rs"}
"""Other spellings of shared signs."""


@cache
def currency_signs() -> dict[str, str]:
    """Return the ISO code of each sign and code."""
    from babel import Locale
    from babel.numbers import list_currencies

    known = {code: code for code in list_currencies()}
    known |= {code: code.upper() for code in _LOWER_CASE.split()}
    for locale in _LOCALES.split():
        for code, sign in Locale.parse(locale).currency_symbols.items():
            bare = re.sub("[\u200e\u200f]", "", sign).replace("\u202f", " ").strip(" .")
            known.setdefault(bare, code)
    for code, *signs in map(str.split, _WRITTEN.strip().splitlines()):
        known |= dict.fromkeys(signs, code)
    return {sign: code for sign, code in known.items() if sign not in ("", *_AMBIGUOUS.split())}


@cache
def sign_pattern() -> re.Pattern[str]:
    """Return a pattern of all signs, longest first; a sign of letters matches only as a separate word.

    Signs with the same first character share one branch, so that most places of a text are passed with one look.
    """
    letter = r"[^\W\d_]"
    behind: dict[str, list[str]] = {}
    for sign in sorted(currency_signs(), key=len, reverse=True):
        rest = re.escape(sign[1:]) + (rf"(?!{letter})" if sign[-1].isalpha() else "")
        behind.setdefault(sign[0], []).append(rest)
    first = "".join(map(re.escape, behind))
    each = (
        re.escape(character)
        + (rf"(?<!{letter}{character})" if character.isalpha() and character.isascii() else "")
        + f"(?:{'|'.join(rests)})"
        for character, rests in behind.items()
    )
    return re.compile(f"(?=[{first}])(?:{'|'.join(each)})")


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
    near_signs = [SPELLINGS.get(sign, sign) for sign in prefix + suffix]
    plain = [sign for sign in near_signs if sign not in SHARED]
    return signs[plain[0]] if plain else next(iter(near_signs), None)


def currency_in(text: str) -> str | None:
    """Return the currency that a text names anywhere, or None."""
    sign = sign_pattern().search(text)
    return None if sign is None or sign[0] == "R" else canonical(sign[0])


@lru_cache(maxsize=4096)
def without_signs(text: str) -> str:
    """Return a text without its currency signs and codes."""
    return sign_pattern().sub("", text)


def canonical(name: str) -> str:
    """Return the canonical name of a currency: an ISO code or a shared sign; an unknown currency in upper case.

    Example:
        >>> canonical("kč"), canonical("Kč"), canonical("US$"), canonical("$")
        ('KČ', 'CZK', 'USD', '$')
    """
    name = name.strip()
    sign = SPELLINGS.get(name, name)
    if sign in SHARED:
        return sign
    ways = sign, sign.rstrip("."), sign.upper()
    return next((currency_signs()[way] for way in ways if way in currency_signs()), sign.upper())


def is_known(name: str) -> bool:
    """Return whether a sign or code, in upper or lower case, names a known currency."""
    return canonical(name) in {*SHARED, *currency_signs().values()}


def is_currency(text: str) -> bool:
    """Return whether a text is exactly the code of a currency, or a sign without letters."""
    return text in currency_signs() and (
        re.fullmatch("[A-Z]{3}", text) is not None or not re.search(r"\w", text)
    )


def may_mean(shown: str | None, wanted: str | None) -> bool:
    """Return whether a sign may mean a currency, both named by `canonical`: "$" may mean CAD, and no sign any."""
    if not shown or not wanted:
        return True
    return shown == wanted or wanted in SHARED.get(shown, ()) or shown == SHARED.get(wanted, ("",))[0]


def require_same_currency(trained: str | None, other: str | None, whose: str = "to evaluate on") -> None:
    """Raise DataError if two sets of prices are in different currencies; None is compatible with all.

    Args:
        trained: the currency of the training prices.
        other: the currency of the other prices.
        whose: a description of the other prices, for the message.
    """
    if trained and other and not (may_mean(other, trained) or may_mean(trained, other)):
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


def measure_of(facts: Mapping[str, Any]) -> str | None:
    """Return the currency and the unit of a model's prices, from `run.json`, for labels; None if both are unknown.

    Example:
        >>> measure_of({"currency": "EUR", "price_unit": "m2"}), measure_of({"currency": "EUR"})
        ('EUR per m2', 'EUR')
    """
    named = [facts.get("currency"), facts.get("price_unit") and f"per {facts['price_unit']}"]
    return " ".join(filter(None, named)) or None


def decimals_of(name: str) -> int:
    """Return the number of decimals of a currency from ISO 4217; 2 for an unknown one."""
    from babel.numbers import get_currency_precision

    return int(get_currency_precision(SHARED.get(name, (name,))[0]))
