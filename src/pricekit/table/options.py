"""Options for reading a table; what is not set is detected."""

from __future__ import annotations

from dataclasses import dataclass

from pricekit.errors import DataError
from pricekit.table.prices.currency import is_known

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read. Options that are not set are detected.

    Attributes:
        encoding: of CSV, TSV, TXT and JSON lines; a byte order mark takes precedence.
        delimiter: of a delimited file: one character, or comma, semicolon, tab, pipe or space.
        names: the column names of a delimited file without a header.
        decimal: the decimal mark of prices, "." or ",".
        currency: the currency of the prices, as a code or a sign; rows in another one are set aside.

    Raises:
        DataError: an invalid delimiter, decimal mark or currency, or a name that occurs twice.

    Example:
        >>> ReadOptions(delimiter="semicolon", decimal=",", currency="EUR").delimiter
        ';'
    """

    encoding: str | None = None
    delimiter: str | None = None
    names: tuple[str, ...] = ()
    decimal: str | None = None
    currency: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _delimiter(self.delimiter))
        if self.decimal not in (None, ".", ","):
            raise DataError(
                f"invalid decimal mark {self.decimal!r}: '.' or ',' is expected.",
                parameters=("decimal",),
                candidates=[".", ","],
            )
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise DataError(
                f"the column name {twice[0]!r} is given more than once. Each column needs its own name.",
                parameters=("columns",),
                duplicates=twice,
            )
        if self.currency is not None and not (self.currency.strip() and is_known(self.currency)):
            raise DataError(
                f"unknown currency {self.currency!r}. Give a code such as EUR, or a sign such as €.",
                parameters=("currency",),
                currency=self.currency,
            )


DEFAULT_READ_OPTIONS = ReadOptions()
"""Detect everything."""


def _delimiter(given: str) -> str:
    found = _DELIMITERS.get(given.lower(), given)
    if len(found) != 1 or found in '"\r\n\0' or found.isalnum():
        raise DataError(
            f"invalid delimiter {given!r}. Give one character such as ',' or ';', or comma, semicolon, tab, pipe "
            "or space.",
            parameters=("delimiter",),
            candidates=[name for name in _DELIMITERS if name.isalpha()],
        )
    return found
