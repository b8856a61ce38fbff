"""Words, signs and letters after a number that multiply it: 5 thousand, 1.2 mln, 3万, 2 लाख, 99¢, $1.2 M."""

from __future__ import annotations

import math
import re

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
# With a currency sign: a capital by itself or a small letter next to the number; not a size (M / L) or name (M8).
_LETTER = re.compile(r"(?:\s?(mi|mn|MM|[kKMBL])|([mb]))(?![^\W_]|\s?[/-])")
_LETTERS = {"k": 1e3, "m": 1e6, "mn": 1e6, "mm": 1e6, "b": 1e9}
_INDIA = {"k": 1e3, "l": 1e5}
_LETTERS_OF = {"INR": _INDIA, "Rs": _INDIA, "IDR": _LETTERS | {"m": 1e9}, "BRL": _LETTERS | {"mi": 1e6}}


def is_han_multiplier(after: str) -> bool:
    """Whether a text starts with a Chinese, Japanese or Korean multiplier; "." is the decimal mark there."""
    return bool(_HAN_TIMES.match(after))


def multiplier(after: str) -> tuple[float, int]:
    """Return by how much the start of a text multiplies the number before it, and how many characters that takes."""
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
