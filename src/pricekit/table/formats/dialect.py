"""Detect the delimiter of a file, and whether its first line is a header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from pricekit.table.formats.encoding import Charset, open_text
from pricekit.table.model import Notices

_SAMPLE_CHARS = 1 << 18
_SAMPLE_ROWS = 200
_MIN_SHARE = 0.9  # of rows with equally many fields
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}

_EXCEL = re.compile(r"sep=([^\w\r\n\"])\r?\n", re.IGNORECASE)
EXCEL_HINT = ["sep=", ""]
"""The first row of a file that tells Excel its delimiter, once it is split; it is not the header."""

TITLE_HINT = " If the first line is a title above the header, delete it."

_AROUND_COMMA = re.compile(r"(?<=(.)),(?=(.))")
_LIKE_A_VALUE = re.compile(
    r"https?://.*|[^\w\s]*\s*\d[\d.,\s']*\s*[^\w\s]*|\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b.*", re.DOTALL
)


def detect_delimiter(path: Path, charset: Charset, expected: str | None, notices: Notices) -> str:
    """Return the delimiter that the first rows show, and report it unless it is `expected` for the suffix."""
    found = guess_delimiter(_head(path, charset), expected or ",")
    if found != expected:
        notices(
            f"{path}: the detected delimiter is {NAMES.get(found, repr(found))}. Set delimiter if that is wrong."
        )
    return found


def guess_delimiter(text: str, default: str) -> str:
    """Return the delimiter that splits the first rows into equally many fields, else `default`; respects quotes."""
    if hint := _EXCEL.match(text):
        return hint[1]
    fits: dict[str, tuple[bool, bool, bool, int]] = {}
    for mark in NAMES:
        width, alike = _width(text, mark)
        if width > 1 and alike >= 0.5:
            # Commas also occur inside numbers and sentences, so they need more evidence.
            fits[mark] = alike >= _MIN_SHARE, mark != "," or not _in_numbers(text), mark == default, width
    return max(fits, key=lambda mark: fits[mark]) if fits else default


def looks_like_data(header: Sequence[str]) -> str | None:
    """Return the first name of a header that looks like a value: a number, a price, a date or a web address."""
    return next((name for name in header if _LIKE_A_VALUE.fullmatch(name)), None)


def _head(path: Path, charset: Charset) -> str:
    """Return the first rows, without a last one that may be incomplete."""
    with open_text(path, charset, newline="") as stream:
        text = stream.read(_SAMPLE_CHARS)
    if len(text) < _SAMPLE_CHARS:
        return text
    return text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text


def _width(text: str, mark: str) -> tuple[int, float]:
    """Return the number of fields of the first row, and the share of rows with as many."""
    widths: list[int] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark):
            if row:
                widths.append(len(row))
            if len(widths) >= _SAMPLE_ROWS:
                break
    except csv.Error:
        return 0, 0.0
    return (widths[0], widths.count(widths[0]) / len(widths)) if widths else (0, 0.0)


def _in_numbers(text: str) -> bool:
    """Whether most commas are between digits, as decimal marks are."""
    around: list[bool] = [
        before.isdigit() and after.isdigit() for before, after in _AROUND_COMMA.findall(text)
    ]
    return sum(around) * 2 > len(around)
