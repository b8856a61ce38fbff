"""Text for messages: counts, durations, shortened texts, the nearest of several names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
"""As of RFC 3986, with at least two letters: one letter is a drive of Windows."""


def scheme_of(text: str) -> str:
    """Return the scheme of an address, in lower case; "" for a local path.

    Example:
        >>> scheme_of("s3://bucket/new.csv"), scheme_of("data/new.csv")
        ('s3', '')
    """
    match = _SCHEME.match(text)
    return "" if match is None else match[1].lower()


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: 1 row, 2 rows, 1,000 rows."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """Return a time in two units at most: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 and whole < 600 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else "")


def milliseconds(seconds: float) -> str:
    """Return a short time, such as 0.31 ms or 12 ms."""
    return f"{1000 * seconds:.2f} ms" if seconds < 0.01 else f"{1000 * seconds:,.0f} ms"


def is_number(text: str) -> bool:
    """Return whether a text is a number, such as -1,234.5 or 12%."""
    return re.fullmatch(r"[+-]?[\d,]*\.?\d+(e[+-]?\d+)?%?", text) is not None


def shorten(text: str, width: int = 40) -> str:
    """Return a text of at most `width` characters, on one line; a cut text ends in an ellipsis.

    Of a text of any length, only the beginning is read.
    """
    beginning = text[: 20 * width]
    line = " ".join(beginning.split())
    return line if len(line) <= width and len(beginning) == len(text) else line[: width - 1] + "…"


def listed(names: Sequence[str], most: int = 20, separator: str = ", ") -> str:
    """Return the first `most` names, separated by commas, and the number of the others.

    Example:
        >>> listed(["title", "brand"]), listed(["title", "brand", "size"], most=1)
        ('title, brand', 'title and 2 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def printable(text: str) -> str:
    """Return a text with its control characters escaped, except for tabs and ends of lines.

    Texts of tables and of strangers' bundles may hold sequences that move the cursor or change a terminal's settings,
    and marks that reverse the direction of writing.

    Example:
        >>> printable("tea\x1b[2J")
        'tea\\x1b[2J'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable_json(text: str) -> str:
    """Return JSON with the same characters escaped as JSON escapes them."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_LONGEST_NAME = 200
"""Characters; nobody mistypes a longer name, and the time of the search grows with the product of the lengths."""


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the most similar of `names`, ignoring case; None if none is close, or if the name is too long."""
    if len(name) > _LONGEST_NAME:
        return None
    folded = {candidate.casefold(): candidate for candidate in names if len(candidate) <= _LONGEST_NAME}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest of `names`, "" if none is close."""
    close = nearest(name, names)
    return "" if close is None else f" Did you mean '{shorten(close)}'?"
