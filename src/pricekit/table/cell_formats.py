"""The currencies that the formats of cells show in an .xlsx workbook, which calamine does not tell.

Excel shows 12.5 in the format `[$€-407] #,##0.00` as € 12.50 (ECMA-376, part 1, section 18.8.30). Only a column of
several currencies needs it: its numbers may not be compared. Other workbooks are not read again.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from xml.parsers import expat

from pricekit.table.currency import currency_in

_SIGN = re.compile(r"\[\$([^\]-]*)[^\]]*\]")
"""A currency, and a language for it: [$€-407]."""
_NO_WORDS = re.compile(r'\[[^\]]*\]|[_*].|[\\"#0?]')
"""Colours and conditions, blanks as wide as a character, signs that are repeated, digits, and quotes."""
_PLACE = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})")
_LONGEST, _MOST_STYLES, _MOST_CURRENCIES, _MOST_ROWS = 255, 1 << 16, 255, 1 << 20


@dataclass(frozen=True)
class Currencies:
    """The currencies of the numbers in the columns of a sheet that have several.

    Attributes:
        names: of the currencies, at most 255.
        codes: for each of these columns, numbered from 0, the currency of each of its rows, from 1, 0 for none.
    """

    names: Sequence[str] = ()
    codes: Mapping[int, bytes] = field(default_factory=dict)

    def of(self, row: int, column: int) -> str:
        """Return the currency of a cell, "" for none."""
        codes = self.codes.get(column, b"")
        return self.names[codes[row] - 1] if row < len(codes) and codes[row] else ""


def currency_of_format(code: str) -> str | None:
    """Return the currency that a number format shows, None without one.

    Example:
        >>> [currency_of_format(code) for code in ('[$€-407] #,##0.00', '#,##0 "zł"', "yyyy-mm-dd", '0.0" kg"')]
        ['EUR', 'PLN', None, None]
    """
    return currency_in(_NO_WORDS.sub("", _SIGN.sub(r" \1 ", code.partition(";")[0])))


def mixed_currencies(path: str, sheet: str) -> Currencies:
    """Return the currencies of the numbers in the columns of a sheet that have several; none for other files.

    Args:
        path: of a workbook.
        sheet: its name.
    """
    if not zipfile.is_zipfile(path):
        return Currencies()
    with zipfile.ZipFile(path) as archive, suppress(expat.ExpatError):  # a damaged part
        styles = _styles(archive)
        names = sorted({*styles} - {""})[:_MOST_CURRENCIES]
        part = _part(archive, sheet) if len(names) > 1 else ""
        if part:
            return _cells(
                archive, part, [names.index(name) + 1 if name in names else 0 for name in styles], names
            )
    return Currencies()


def _parse(archive: zipfile.ZipFile, part: str, start: Callable[[str, dict[str, str]], None]) -> None:
    """Call a function with each tag of a part, without its namespace, and the attributes, if there is such a part."""
    if part in archive.namelist():
        parser = expat.ParserCreate(namespace_separator="}")
        parser.StartElementHandler = lambda name, attributes: start(name.rpartition("}")[2], attributes)
        with archive.open(part) as file:
            parser.ParseFile(file)


def _styles(archive: zipfile.ZipFile) -> list[str]:
    """Return the currency of each style of cells, "" for none."""
    currencies: dict[str, str] = {}
    styles: list[str] = []
    inside = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal inside
        if tag == "numFmt":
            currency = currency_of_format(attributes.get("formatCode", "")[:_LONGEST])
            currencies[attributes.get("numFmtId", "")] = currency or ""
        elif tag in ("cellXfs", "cellStyleXfs", "cellStyles", "dxfs"):
            inside = tag == "cellXfs"
        elif tag == "xf" and inside and len(styles) < _MOST_STYLES:
            styles.append(currencies.get(attributes.get("numFmtId", ""), ""))

    _parse(archive, "xl/styles.xml", start)
    return styles


def _part(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the name of the part that holds a sheet, "" if it is not there."""
    ids: dict[str, str] = {}
    targets: dict[str, str] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "sheet":
            ids[attributes.get("name", "")] = next(
                (attributes[key] for key in attributes if key.endswith("}id")), ""
            )
        elif tag == "Relationship":
            targets[attributes.get("Id", "")] = attributes.get("Target", "")

    for part in ("xl/workbook.xml", "xl/_rels/workbook.xml.rels"):
        _parse(archive, part, start)
    target = targets.get(ids.get(sheet, ""), "")
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _cells(archive: zipfile.ZipFile, part: str, styles: list[int], names: list[str]) -> Currencies:
    """Return the currencies of the numbers in the columns that have several.

    Args:
        archive: the workbook.
        part: with the sheet.
        styles: the number of the currency of each style, from 1, 0 for none.
        names: of the currencies.
    """
    columns: dict[str, bytearray] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag != "c" or attributes.get("t", "n") != "n":
            return
        style, place = attributes.get("s", ""), _PLACE.fullmatch(attributes.get("r", ""))
        if place is None or not style.isdecimal() or int(style) >= len(styles) or not styles[int(style)]:
            return
        column, row = columns.setdefault(place[1], bytearray()), int(place[2]) - 1
        if row < _MOST_ROWS:
            column.extend(bytes(max(0, row + 1 - len(column))))
            column[row] = styles[int(style)]

    _parse(archive, part, start)
    mixed = {name: column for name, column in columns.items() if len({*column} - {0}) > 1}
    return Currencies(names, {_number(letters): bytes(column) for letters, column in mixed.items()})


def _number(letters: str) -> int:
    """Return the number of a column, from 0: 26 for AA."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1
