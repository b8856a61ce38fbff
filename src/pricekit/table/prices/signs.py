"""Currency signs and codes: ISO 4217 codes and CLDR signs from Babel, and signs as people write them."""

from __future__ import annotations

import re
from functools import cache

_LOCALES = "en en_US vi pl ru cs ja tr uk hu bg id ms th fa ar he kk ka hy az bn km lo mn is sq mk sr ro da"

_WRITTEN = {
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
    "GBP": "£ pound pounds ₤",
    "CNY": "CN¥ RMB 元 圆 块 人民币",
    "JPY": "¥ 円 yen",
    "KRW": "₩ 원 won",
    "VND": "đ Đ VNĐ vnđ đồng",
    "RUB": "RUR ₽ руб Руб РУБ рублей рубля рубль р Р",
    "INR": "Rs RS rs Re ₨ रु रू rupees र",
    "CHF": "Fr SFr sFr fr",
    "CZK": "Kč Kc",
    "PLN": "zl złotych",
    "HUF": "Ft",
    "RON": "lei leu Lei LEI",
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
    "BDT": "Tk ৳ টকা",
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
    "NPR": "NPRs नेरू",
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
    "AMD": "դր",
    "XOF": "CFA",
    "XPF": "CFP",
    "BOB": "Bs",
    "VEF": "Bs.F",
    "YER": "YR",
    "SYP": "SY£",
    "LYD": "LD",
    "SOS": "Ssh",
    "AFN": "Af",
    "ZMW": "ZK",
    "MWK": "MK",
    "MZN": "MTn",
    "BIF": "FBu",
    "GNF": "FG",
    "KMF": "CF",
    "CDF": "FC FrCD",
    "DJF": "Fdj",
    "ERN": "Nfk",
    "STN": "Db",
    "CVE": "CV$",
    "BTN": "Nu",
    "MVR": "Rf MRf",
    "AZN": "man ман",
    "BBD": "Bds$",
    "CUC": "CUC$",
    "CLF": "UF",
    "PAB": "B/",
    "AWG": "ƒ Afl",
    "MOP": "MOP$",
    "WST": "WS$",
    "VUV": "VT",
    # replaced by the euro or another currency
    "DEM": "DM D-Mark",
    "ATS": "öS",
    "ESP": "Pta Pts Ptas ₧",
    "FRF": "₣",
    "GRD": "₯ Δρχ Δρ",
    "IEP": "IR£",
    "SKK": "Sk",
    "SIT": "tolarjev",
    "EEK": "kroon",
    "LVL": "Ls",
    "LTL": "Lt litų",
    "MTL": "Lm",
    "ECS": "Sucre",
}
"""Signs that Babel lacks or spells otherwise, by ISO code."""

_LOWER_CASE = (
    "usd eur gbp inr chf cad aud jpy cny rub pln czk sek nok dkk vnd brl uah kzt huf idr myr sgd hkd krw thb php aed "
    "sar nzd mxn"
)
"""Codes that are read in lower case, too: those that are not words."""

_AMBIGUOUS = "- XXX ¤ T D G K L F P Q Le T$ Z$ J$ FR Pt mk UM"
"""Signs in Babel that far more often stand for something else."""

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
            known.setdefault(_bare(sign), code)
    known |= {sign: code for code, signs in _WRITTEN.items() for sign in signs.split()}
    return {sign: code for sign, code in known.items() if sign not in ("", *_AMBIGUOUS.split())}


@cache
def sign_pattern() -> re.Pattern[str]:
    """Return a pattern of all signs, the longest first; a sign of letters matches only as a word of its own."""
    signs = sorted(currency_signs(), key=len, reverse=True)
    letters = r"[^\W\d_]"
    each = (
        (rf"(?<!{letters})" if sign[0].isalpha() and sign[0].isascii() else "")
        + re.escape(sign)
        + (rf"(?!{letters})" if sign[-1].isalpha() else "")
        for sign in signs
    )
    return re.compile("|".join(each))


def _bare(sign: str) -> str:
    return re.sub("[\u200e\u200f]", "", sign).replace("\u202f", " ").strip(" .")
