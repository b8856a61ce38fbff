"""The text of a price in one writing: ASCII digits, single spaces, marks and signs where most people put them."""

from __future__ import annotations

import re
import unicodedata

from pricekit.table.prices.currency import without_signs

# Groups of three parted by a space or an apostrophe, or any digits, commas and points.
NUMBER = re.compile(
    r"\d{1,3}(?:([ '])\d{3})(?:\1\d{3})*(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*|(?<![\w/])[.,]\d+", re.ASCII
)
WORD = re.compile(r"[^\W\d_]+")

_SIGN_AS_MARK = re.compile(r"(?<![\d.,'€£$])(\d{1,3}(?:[., ']\d{3})+|\d+)([€£$])(\d\d)(?!\d|[.,]\d|\s?[€£$])")
_SPACES = re.compile(r"(?<=\d)[^\S\n]{2}(?=\d{3}(?!\d))")
_SPACED_MARK = re.compile(r"(?<=\d)\s(?=[.,]\d)")
_APOSTROPHE_AS_MARK = re.compile(r"(?<=\d)'(?=\d\d(?!\d))")
_RAISED = re.compile("(?<=[0-9])[⁰¹²³⁴⁵⁶⁷⁸⁹]{2}")
_UNRAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_SPACED_SIGN = re.compile(r"\s*(\d{1,3}(?:[ .,']?\d{3})*) ?€ ?(\d\d)\s*")
_COLON_AS_MARK = re.compile(r"(?<=\d):(?=\d\d\s?(?:kr|SEK))", re.IGNORECASE)
_SMALL_UNIT = re.compile(
    r"(?<=\d)\s?(zł|руб|р|грн|лв|€|\$|£|TL)\.?\s?(\d\d)\s?(?:gr|коп|ст|cents?|ct|p|kr)\b"
    r"|(?<=\d)(元)(\d)角"
)


def plain_of(text: str) -> str:
    """Return a text with digits of any script, spaces of any width and marks of any kind as ASCII has them."""
    return text if text.isascii() else text.translate(_PLAIN)


def in_one_writing(plain: str) -> str:
    """Return a plain text with what belongs to one number set together, and small units as decimals.

    1  299, 22 ,91, 22'91, 268⁹⁹, 35 € 99, 35€99, 12:50 kr, 12 zł 50 gr.
    """
    plain = _joined(plain)
    if spaced := _SPACED_SIGN.fullmatch(plain):
        plain = f"{spaced[1]}€{spaced[2]}"
    plain = _SIGN_AS_MARK.sub(r"\1.\3 \2" if "," in plain else r"\1,\3 \2", plain)
    return _SMALL_UNIT.sub(r",\2\4 \1\3", _COLON_AS_MARK.sub(",", plain))


def is_named(text: str) -> bool:
    """Say whether words stand before the first number, which may be one of a name then: Size 38  120 €."""
    number = NUMBER.search(text)
    return number is not None and bool(WORD.search(without_signs(text[: number.start()])))


def _joined(text: str) -> str:
    text = _APOSTROPHE_AS_MARK.sub(",", text)
    if not is_named(text):
        text = _SPACED_MARK.sub("", _SPACES.sub(" ", text))
    return text if text.isascii() else _RAISED.sub(lambda cents: "," + cents[0].translate(_UNRAISED), text)


class _Plain(dict[int, str]):
    """Digits of any script to ASCII, spaces of any width to one, and the like; filled as characters come."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        digit = unicodedata.decimal(character, None)
        if digit is not None:
            plain = str(digit)
        elif character.isspace():
            plain = " "
        else:
            plain = "" if unicodedata.category(character) == "Cf" else character
        self[code] = plain
        return plain


_PLAIN = _Plain({ord(odd): "'" for odd in "’‘`´ʼ′٬"})
_PLAIN |= {ord(odd): "-" for odd in "−–—‐‑‒－"} | {ord(odd): "." for odd in "．·٫"}
_PLAIN |= {ord("，"): ",", ord("、"): ",", ord("،"): ",", ord("％"): "%", ord("（"): "(", ord("）"): ")"}
