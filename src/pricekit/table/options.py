"""How a file is read: what the user says of it; what is not said is found in the file."""

from __future__ import annotations

from dataclasses import dataclass

from pricekit.errors import DataError
from pricekit.table.prices.currency import is_known

_NAMED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read. What is left out is found in the file itself.

    Attributes:
        encoding: of CSV, TSV, text and JSON lines; a byte order mark outranks it.
        delimiter: between the fields of a delimited file: one character, or comma, semicolon, tab or pipe.
        names: of the columns of a delimited file that has no header.
        decimal: the decimal mark of prices, "." or ",".
        currency: the one that prices are in, a code or a sign; rows in another are set aside.

    Raises:
        DataError: a delimiter, decimal mark or list of names that cannot be.
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
            raise DataError(f"{self.decimal!r} is no decimal mark. Give --decimal . or --decimal ,")
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise DataError(
                f"--columns names {twice[0]!r} more than once. Each column needs a name of its own."
            )
        if self.currency is not None and not self.currency.strip():
            raise DataError("--currency is empty. Give a code such as EUR, or a sign such as €.")
        if self.currency is not None and not is_known(self.currency):
            raise DataError(
                f"--currency {self.currency!r} is none that is known. Give a code such as EUR, or a sign such as €."
            )


DEFAULT_READ_OPTIONS = ReadOptions()
"""Find everything in the file itself."""


def _delimiter(given: str) -> str:
    found = _NAMED.get(given.lower(), given)
    if len(found) != 1 or found in '"\r\n\0' or found.isalnum():
        raise DataError(
            f"{given!r} cannot stand between fields. Give --delimiter one character such as ',' or ';', or one of "
            "comma, semicolon, tab, pipe."
        )
    return found
