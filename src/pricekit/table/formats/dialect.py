"""How a delimited file is laid out, where nobody says it: its delimiter, and whether it has a header."""

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
_ALIKE = 0.9
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}

_EXCEL = re.compile(r"sep=([^\w\r\n\"])\r?\n", re.IGNORECASE)
ANNOUNCED = ["sep=", ""]
"""The first row of a file that tells Excel its delimiter; it is no header."""

TITLE_HINT = " If the first line is a title above the header, delete it."

_AROUND_COMMA = re.compile(r"(?<=(.)),(?=(.))")
_VALUE = re.compile(
    r"https?://.*|[^\w\s]*\s*\d[\d.,\s']*\s*[^\w\s]*|\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b.*", re.DOTALL
)


def delimiter_of(path: Path, charset: Charset, expected: str | None, notices: Notices) -> str:
    """Return what stands between the fields, by the first rows; said where it is not `expected`, the suffix's."""
    found = guess_delimiter(_head(path, charset), expected or ",")
    if found != expected:
        notices(
            f"{path}: the fields are parted by {NAMES.get(found, repr(found))}. If that is wrong, give --delimiter."
        )
    return found


def guess_delimiter(text: str, default: str) -> str:
    """Return the delimiter that gives the first rows one width, quotes honoured; `default` where none does."""
    if announced := _EXCEL.match(text):
        return announced[1]
    fits: dict[str, tuple[bool, bool, bool, int]] = {}
    for mark in NAMES:
        width, alike = _width(text, mark)
        if width > 1 and alike >= 0.5:
            # A comma stands inside of numbers and sentences as well, so it has to make its case.
            fits[mark] = alike >= _ALIKE, mark != "," or not _in_numbers(text), mark == default, width
    return max(fits, key=lambda mark: fits[mark]) if fits else default


def looks_like_data(header: Sequence[str]) -> str | None:
    """Return the first name of a header that rather is a value: a number, a price or an address."""
    return next((name for name in header if _VALUE.fullmatch(name)), None)


def _head(path: Path, charset: Charset) -> str:
    """The first rows, without the last one where it may be cut off."""
    with open_text(path, charset, newline="") as stream:
        text = stream.read(_SAMPLE_CHARS)
    if len(text) < _SAMPLE_CHARS:
        return text
    return text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text


def _width(text: str, mark: str) -> tuple[int, float]:
    """How many fields the first row has, and the share of rows with as many."""
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
    """Whether most commas stand between digits, as decimal marks do."""
    around: list[bool] = [
        before.isdigit() and after.isdigit() for before, after in _AROUND_COMMA.findall(text)
    ]
    return sum(around) * 2 > len(around)
