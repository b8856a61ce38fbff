"""Normalise the text of a price: ASCII digits, single spaces, decimal marks and signs in their usual places."""

from __future__ import annotations

import re
import unicodedata

from pricekit.table.prices.currency import without_signs

PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""A number as programs write it, and nothing else; a pattern for Arrow."""

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
    """Whether words precede the first number, so that it may belong to a name: Size 38  120 €."""
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
