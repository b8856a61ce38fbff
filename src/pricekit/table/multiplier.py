"""Words and signs behind a number that multiply it: 5 thousand, 1.2 mln, 3万, 2 लाख, 99¢."""

from __future__ import annotations

import math
import re

_HAN = {"十": 10, "십": 10, "百": 100, "백": 100, "千": 1e3, "천": 1e3, "万": 1e4, "萬": 1e4, "만": 1e4}
_HAN |= {"億": 1e8, "亿": 1e8, "억": 1e8}
_HAN_TIMES = re.compile(rf"\s?([{''.join(_HAN)}]+)")
_TIMES = (
    (re.compile(r"[kK](?![^\W\d_])|\s[kK](?=€|\$|£|EUR)|\s?T(?=€|EUR)"), 1e3),
    (re.compile(r"[MB](?![^\W\d_])|\s[M](?=€|\$|£|EUR)"), {"M": 1e6, "B": 1e9}),
    (
        re.compile(
            r"\s?(?:(?:тыс|тис|хил|nghìn|ngàn|rb|ribu|tys|tis|tsd|tausend|mila|mil|ezer|thousand|tusen|tusind|ألف|آلاف|هزار)\b"
            r"|bin(?=\s?(?:TL|₺|lira|TRY|$))|พัน|हज़ार|हज़ार|हजार)",
            re.IGNORECASE,
        ),
        1e3,
    ),
    (
        re.compile(
            r"\s?(?:(?:mln|mio|millions?|millionen|млн|triệu|juta|milyon|milhão|milhões|millón|millones|milione|milioni|millió"
            r"|milion|miliony|milionów|miljoner|مليون|ملايين|میلیون)\b|ล้าน)",
            re.IGNORECASE,
        ),
        1e6,
    ),
    (re.compile(r"\s?(?:tr|jt)\b"), 1e6),
    (
        re.compile(r"\s?(?:mrd|mld|bn|billion|milliarden?|miliar|tỷ|tỉ|млрд|مليار)\b", re.IGNORECASE),
        1e9,
    ),
    (re.compile(r"\s?(?:(?:lakhs?|lacs?)\b|लाख)", re.IGNORECASE), 1e5),
    (re.compile(r"\s?(?:(?:crores?|cr)\b|करोड़|करोड़)", re.IGNORECASE), 1e7),
    (re.compile(r"\s?(?:[¢￠]|(?:cents?|ct|коп|pence|paise)\b)", re.IGNORECASE), 0.01),
)


def multiplier(after: str) -> tuple[float, int]:
    """What the number before a text is multiplied by, and how many characters of the text say it."""
    if han := _HAN_TIMES.match(after):
        return math.prod(_HAN[sign] for sign in han[1]), han.end()
    for pattern, times in _TIMES:
        if word := pattern.match(after):
            return (times[word[0].strip()] if isinstance(times, dict) else times), word.end()
    return 1.0, 0
