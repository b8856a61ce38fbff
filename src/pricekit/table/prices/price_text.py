"""Normalise the text of a price: ASCII digits, single spaces, decimal marks and signs in their usual places."""

from __future__ import annotations

import math
import re
import unicodedata

from pricekit.table.prices.currency import without_signs

PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""A pattern for Arrow: a cell that contains only a number as programs write it."""

# Groups of three digits with a space or an apostrophe between them, or any digits, commas and points.
NUMBER = re.compile(
    r"\d{1,3}(?:([ '])\d{3})(?:\1\d{3})*(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*|(?<![\w/])[.,]\d+", re.ASCII
)
"""A number anywhere in a price; group 1 is the space or apostrophe between its groups."""

WORD = re.compile(r"[^\W\d_]+")

_SIGN_AS_MARK = re.compile(r"(?<![\d.,'€£$])(\d{1,3}(?:[., ']\d{3})+|\d+)([€£$])(\d\d)(?!\d|[.,]\d|\s?[€£$])")
_SPACES = re.compile(r"(?<=\d)[^\S\n]{2}(?=\d{3}(?!\d))")
_SPACED_MARK = re.compile(r"(?<=\d)\s(?=[.,]\d)")
_APOSTROPHE_AS_MARK = re.compile(r"(?<=\d)'(?=\d\d(?!\d))")
_SUPERSCRIPT = re.compile("(?<=[0-9])[⁰¹²³⁴⁵⁶⁷⁸⁹]{2}")
_FROM_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_SPACED_SIGN = re.compile(r"\s*(\d{1,3}(?:[ .,']?\d{3})*) ?€ ?(\d\d)\s*")
_COLON_AS_MARK = re.compile(r"(?<=\d):(?=\d\d\s?(?:kr|SEK))", re.IGNORECASE)
_SMALL_UNIT = re.compile(
    r"(?<=\d)\s?(zł|руб|р|грн|лв|€|\$|£|TL)\.?\s?(\d\d)\s?(?:gr|коп|ст|cents?|ct|p|kr)\b"
    r"|(?<=\d)(元)(\d)角"
)


def to_ascii(text: str) -> str:
    """Return a text with the digits of all scripts, all spaces and all punctuation of numbers in ASCII."""
    return text if text.isascii() else text.translate(_ASCII)


def normalize(text: str) -> str:
    """Return an ASCII text with each price as one number, its cents as decimals.

    Example:
        >>> [normalize(text) for text in ("1  299 €", "22 ,91", "22'91", "268⁹⁹ €", "35€99", "12:50 kr", "12 zł 50 gr")]
        ['1 299 €', '22,91', '22,91', '268,99 €', '35,99 €', '12,50 kr', '12,50 zł']
    """
    text = _join_number(text)
    if spaced := _SPACED_SIGN.fullmatch(text):
        text = f"{spaced[1]}€{spaced[2]}"
    text = _SIGN_AS_MARK.sub(r"\1.\3 \2" if "," in text else r"\1,\3 \2", text)
    return _SMALL_UNIT.sub(r",\2\4 \1\3", _COLON_AS_MARK.sub(",", text))


def has_words_before(text: str) -> bool:
    """Return whether words precede the first number, which may then belong to a name: Size 38  120 €."""
    number = NUMBER.search(text)
    return number is not None and bool(WORD.search(without_signs(text[: number.start()])))


def _join_number(text: str) -> str:
    """Join the parts of numbers that spaces, apostrophes or raised digits separate."""
    text = _APOSTROPHE_AS_MARK.sub(",", text)
    if not has_words_before(text):
        text = _SPACED_MARK.sub("", _SPACES.sub(" ", text))
    return (
        text
        if text.isascii()
        else _SUPERSCRIPT.sub(lambda cents: "," + cents[0].translate(_FROM_SUPERSCRIPT), text)
    )


class _ToAscii(dict[int, str]):
    """A table for `str.translate`: digits of all scripts and all spaces to ASCII; filled as characters come."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        digit = unicodedata.decimal(character, None)
        if digit is not None:
            replacement = str(digit)
        elif character.isspace():
            replacement = " "
        else:
            replacement = "" if unicodedata.category(character) == "Cf" else character
        self[code] = replacement
        return replacement


_ASCII = _ToAscii({ord(odd): "'" for odd in "’‘`´ʼ′٬"})
_ASCII |= {ord(odd): "-" for odd in "−–—‐‑‒－"} | {ord(odd): "." for odd in "．·٫"}
_ASCII |= {ord("，"): ",", ord("、"): ",", ord("،"): ",", ord("％"): "%", ord("（"): "(", ord("）"): ")"}


_HAN = {"十": 10, "십": 10, "百": 100, "백": 100, "千": 1e3, "천": 1e3, "万": 1e4, "萬": 1e4, "만": 1e4}
_HAN |= {"億": 1e8, "亿": 1e8, "억": 1e8}
_HAN_TIMES = re.compile(rf"\s?([{''.join(_HAN)}]+)")
_TIMES = (
    (re.compile(r"[kK](?![^\W_])|\s?[kK](?=€|\$|£|EUR)|\s?T(?=€|EUR)"), 1e3),
    (re.compile(r"[MB](?![^\W_])|\s[M](?=€|\$|£|EUR)|\s?M(?=Ft)"), {"M": 1e6, "B": 1e9}),
    # "mil" is a million in Czech, Slovak and Romanian; a thousand in Spanish and Portuguese, without a point.
    (re.compile(r"\s?mil(?:\.|(?=\s?(?:Kč|Sk|lei)))", re.IGNORECASE), 1e6),
    (
        re.compile(
            r"\s?(?:(?:тыс|тис|хил|хиляди|nghìn|ngàn|rb|ribu|tys|tis|tsd|tausend|mila|mil|ezer|thousand|tusen|tusind|ألف"
            r"|آلاف|هزار|אלף)\b|т\.?(?=\s?р)|bin(?=\s?(?:TL|₺|lira|TRY|$))|พัน|हज़ार|हज़ार|हजार|হাজার)",
            re.IGNORECASE,
        ),
        1e3,
    ),
    (
        re.compile(
            r"\s?(?:(?:mln|mio|millions?|millionen|млн|triệu|juta|milyon|milhão|milhões|millón|millones|milione|milioni|millió"
            r"|milion|miliony|milionów|miljoner|miljoonaa|milj|mkr|مليون|ملايين|میلیون|מיליון)\b|mill(?=\.|\s?(?:kr|NOK|DKK))|ล้าน)",
            re.IGNORECASE,
        ),
        1e6,
    ),
    (re.compile(r"\s?(?:tr|jt)\b"), 1e6),
    (
        re.compile(
            r"\s?(?:mrd|mld|mlrd|bn|billion|milliarden?|miliar|milyar|miljard|miljardia|tỷ|tỉ|млрд|مليار|میلیارد|מיליארד)\b",
            re.IGNORECASE,
        ),
        1e9,
    ),
    (re.compile(r"\s?(?:(?:lakhs?|lacs?)\b|लाख|লাখ|লক্ষ)", re.IGNORECASE), 1e5),
    (re.compile(r"\s?(?:(?:crores?|cr)\b|करोड़|करोड़|কোটি)", re.IGNORECASE), 1e7),
    (re.compile(r"\s?(?:[¢￠]|(?:cents?|ct|коп|pence|paise)\b)", re.IGNORECASE), 0.01),
)
# With a currency sign: a separate capital or a small letter next to the number; not a size (M / L) or name (M8).
_LETTER = re.compile(r"(?:\s?(mi|mn|MM|[kKMBL])|([mb]))(?![^\W_]|\s?[/-])")
_LETTERS = {"k": 1e3, "m": 1e6, "mn": 1e6, "mm": 1e6, "b": 1e9}
_INDIA = {"k": 1e3, "l": 1e5}
_LETTERS_OF = {"INR": _INDIA, "Rs": _INDIA, "IDR": _LETTERS | {"m": 1e9}, "BRL": _LETTERS | {"mi": 1e6}}


def is_han_multiplier(after: str) -> bool:
    """Return whether a text starts with a Chinese, Japanese or Korean multiplier; then "." is the decimal mark."""
    return bool(_HAN_TIMES.match(after))


def multiplier(after: str) -> tuple[float, int]:
    """Return the multiplier at the start of a text, for the number before it, and its number of characters."""
    if han := _HAN_TIMES.match(after):
        return math.prod(_HAN[sign] for sign in han[1]), han.end()
    for pattern, times in _TIMES:
        if word := pattern.match(after):
            return (times[word[0].strip()] if isinstance(times, dict) else times), word.end()
    return 1.0, 0


def letter_multiplier(after: str, currency: str | None) -> tuple[float, int]:
    """Return the same for a letter, which only counts with a currency sign: $1.2 M, £1.63m, ₹22.9 L, R$ 1,2 mi."""
    found = _LETTER.match(after) if currency else None
    times = found and _LETTERS_OF.get(currency or "", _LETTERS).get((found[1] or found[2]).lower())
    return (times, found.end()) if found and times else (1.0, 0)
