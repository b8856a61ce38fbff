"""Workbooks of Excel and LibreOffice: .xlsx, .xlsm, .xlsb, .xls and .ods, read with python-calamine.

A workbook is opened in a sandbox, because the sizes that its zip archive states may be false, and it states more: a
sheet of one cell may call itself 17 billion cells large. There the cells of one sheet become columns: numbers, dates,
or text. calamine gives the values that formulas had when the workbook was saved; cells with errors are empty. Numbers
of a column whose formats show several currencies have these behind them, so that they are not compared.
"""

from __future__ import annotations

import datetime
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import ConfigError, DataError
from pricekit.io import sandbox
from pricekit.io.cpus import available_memory
from pricekit.io.sandbox import in_sandbox
from pricekit.table.cell_formats import mixed_currencies
from pricekit.table.columns import text_array
from pricekit.table.table import column_name
from pricekit.wording import did_you_mean, listed, shorten

SECONDS = 55
"""Time to read a workbook."""
MEMORY = 3 << 28
"""Bytes of memory to read a workbook, libraries included."""
MAX_BYTES = 1 << 27
"""Bytes that the columns of a sheet may have."""

_MAGIC = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x09\x08")
"""How workbooks begin: zip archives, compound files, and .xls files before 1995."""
_SAMPLE_ROWS = 200
_HEADER_ROWS = 50
_ROWS = 1 << 14
_SHOWN, _MOST_SHEETS = 10, 1000

_NO_VALUE = re.compile(rb"</f>\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>")
"""A formula in .xlsx whose value was never computed."""
_SHEETS = r"xl/worksheets/[^/]+\.xml"
_SPANS = re.compile(rb'number-(?:rows|columns)-spanned="(?:[2-9]|[1-9][0-9])')
"""Merged cells in .ods."""
_BLOCK = 1 << 20
_YEARS = range(1900, 2101)
_MOST_WHOLE = 2**53
"""Whole numbers beyond it are not exact."""


_Range = tuple[tuple[int, int], tuple[int, int]]
"""The first and the last row and column of merged cells."""


@dataclass(frozen=True)
class Sheet:
    """The table in a sheet.

    Attributes:
        columns: its columns, numbered "0", "1" etc.: int64, double, date32, timestamp or text.
        header: the cells above them.
        notes: sentences about the sheet, each the end of one that begins with the name of the file.
    """

    columns: pa.Table
    header: list[str]
    notes: list[str]


def read_workbook(path: Path, sheet: str | None, names: Sequence[str] = ()) -> Sheet:
    """Read the first sheet with a table, or the named one, in a sandbox.

    Args:
        path: the file.
        sheet: the name of a sheet.
        names: the names of the columns of a table without a header.

    Raises:
        ConfigError: python-calamine is not installed.
        DataError: it is no workbook, damaged, protected by a password or too large, or has no such sheet or no table.
    """
    if find_spec("python_calamine") is None:
        raise ConfigError(
            "workbooks need the package python-calamine, which is not installed: pip install 'pricekit[excel]'"
        )
    with open(path, "rb") as file:
        if not file.read(8).startswith(_MAGIC):
            raise DataError(
                f"{path} is no workbook, although its suffix says so. Open it in a program for spreadsheets, and save "
                "it as .xlsx or .csv.",
                parameters=("table",),
            )
    outcome = in_sandbox(
        "pricekit.table.workbook:load_library",
        "pricekit.table.workbook:sheet_of",
        [str(path.absolute()), json.dumps(sheet), json.dumps(list(names)), str(MAX_BYTES)],
        seconds=SECONDS,
        memory=int(min(MEMORY, available_memory())),
    )
    if not outcome.failure and not outcome.content:
        sheets = outcome.facts["sheets"]
        raise DataError(
            f"{path} has no sheet {sheet!r}. Its sheets are: {_listed(sheets)}.{did_you_mean(str(sheet), sheets)}",
            parameters=("sheet",),
            candidates=sheets,
        )
    if not outcome.failure:
        columns = pa.ipc.open_stream(outcome.content).read_all()
        return Sheet(columns, outcome.facts["header"], outcome.facts["notes"])
    problem = f"{path}: {outcome.message}"
    if outcome.failure in (sandbox.MEMORY, sandbox.TIME):
        problem = (
            f"{path} was opened in a sandbox, and cannot be read: {outcome.message}. Save its table as CSV"
        )
    elif outcome.failure == sandbox.UNEXPECTED:
        reason = outcome.message.partition(": ")[2].rstrip(".")
        problem = f"{path} cannot be read as a workbook: {reason}. It may be incomplete or damaged"
    raise DataError(f"{problem.rstrip('.')}.", parameters=("table",))


def load_library() -> None:
    """Load calamine before the limits begin; called in the sandbox."""
    import python_calamine  # noqa: F401


def sheet_of(path: str, sheet: str, names: str, most: str) -> tuple[dict[str, Any], bytes]:
    """Read a sheet; called in the sandbox, with arguments in JSON.

    Returns header and notes, and an Arrow stream; or only the names of the sheets, if there is none of this name.
    """
    import python_calamine as calamine

    wanted, named = json.loads(sheet), json.loads(names)
    try:
        workbook = _opened(path)
    except calamine.PasswordError:
        raise DataError("it is protected by a password. Save it without one") from None
    if wanted is not None and wanted not in workbook.sheet_names:
        return {"sheets": workbook.sheet_names[:_MOST_SHEETS]}, b""
    title, block = _chosen(path, workbook, wanted, named)
    columns = block.columns()
    visible = _visible(workbook)
    notes = []
    if wanted is None and len(visible) > 1:
        notes.append(
            f"the sheet {shorten(title)!r} is read, the first one with a table of {len(visible)} sheets. Set sheet to "
            "choose another."
        )
    if any(column.null_count == len(column) for column in columns.columns) and _has(path, _SHEETS, _NO_VALUE):
        notes.append(
            "formulas have no values, because the program that wrote them did not compute them; their cells are "
            "empty. Open it in Excel or LibreOffice, and save it."
        )
    if columns.nbytes > int(most):
        raise DataError(f"its sheet {shorten(title)!r} has more than {int(most) >> 20} MB; save it as CSV")
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, columns.schema) as stream:
        stream.write_table(columns)
    return {"header": block.header, "notes": notes}, sink.getvalue()


def _opened(path: str) -> Any:
    """Open a workbook by its suffix, or by its content if the suffix is that of another kind."""
    import python_calamine as calamine

    try:
        return calamine.load_workbook(path)
    except calamine.PasswordError:
        raise
    except calamine.CalamineError:
        with suppress(calamine.CalamineError):
            return calamine.load_workbook(io.BytesIO(Path(path).read_bytes()))
        raise


def _visible(workbook: Any) -> list[str]:
    """Return the names of the sheets that a user sees; a workbook may also have sheets of charts and macros."""
    return [
        one.name
        for one in workbook.sheets_metadata
        if str(one.visible).endswith(".Visible") and str(one.typ).endswith(".WorkSheet")
    ]


def _listed(names: Sequence[str]) -> str:
    return listed([repr(shorten(name)) for name in names], _SHOWN)


def _chosen(path: str, workbook: Any, wanted: str | None, names: Sequence[str]) -> tuple[str, _Block]:
    """Return the name and the table of the sheet to read."""
    if wanted is not None:
        if (block := _block(path, workbook.get_sheet_by_name(wanted), names)) is None:
            raise DataError(f"its sheet {shorten(wanted)!r} has no table: a header and at least one row")
        return wanted, block
    narrow = ""
    for name in _visible(workbook):
        block = _block(path, workbook.get_sheet_by_name(name), names)
        if block is not None and block.width > 1:
            return name, block
        narrow = narrow or (name if block is not None else "")
    if narrow:
        block = _block(path, workbook.get_sheet_by_name(narrow), names)
        assert block is not None
        return narrow, block
    raise DataError(
        f"it has no table: a header and at least one row. Its sheets are: {_listed(workbook.sheet_names)}"
    )


@dataclass
class _Block:
    """The table in a sheet: its header, and its rows, which can be read once."""

    header: list[str]
    rows: Iterator[list[Any]]
    width: int

    def columns(self) -> pa.Table:
        """Return the columns that have a name or a cell, and keep their names as the header."""
        columns = [_Column() for _ in self.header]
        while rows := list(islice(self.rows, _ROWS)):
            for cells, column in zip(zip(*rows, strict=True), columns, strict=True):
                column.add(cells)
        kept = [n for n, column in enumerate(columns) if self.header[n].strip() or not column.is_empty]
        self.header = [self.header[n] for n in kept]
        return pa.table({str(n): columns[kept[n]].array() for n in range(len(kept))})


def _block(path: str, sheet: Any, names: Sequence[str]) -> _Block | None:
    """Return the table of a sheet, None if it has none.

    The header is the first row that fills every column that most rows below it fill, with texts or years. Titles fill
    fewer columns.
    """
    if sheet.start is None:
        return None
    merges = _merges(path, sheet)
    rows = _with_currencies(path, sheet, _filled(sheet.iter_rows(), merges, sheet.start[1]))
    sample = list(islice(rows, _SAMPLE_ROWS))
    place, width = _header_place(sample, bool(names))
    if place is None:
        return None
    number, cells = sample[place]
    header = [_written(cell) for cell in cells]
    left = sheet.start[1]
    for (top, first), (_, last) in merges:  # the names of groups of columns
        if top == number - 1 and 0 < last - first < len(header) - 1:
            above = dict(sample[:place]).get(top, ())
            for column in range(first - left, min(last - left + 1, len(header))):
                if (group := _written(above[first - left]) if above else "") and header[column]:
                    header[column] = f"{group} {header[column]}"
    is_header = not names or [column_name(cell) for cell in header] == list(names)
    data: Iterable[tuple[int, list[Any]]] = chain(sample[place + is_header :], rows)
    return _Block(header, (row for _, row in data), width)


def _header_place(sample: Sequence[tuple[int, list[Any]]], headless: bool) -> tuple[int | None, int]:
    """Return which row is the header, or the first row of a table without one, and how many columns its table fills.

    The header fills all columns that most rows below it fill, or at least half of them: a column may have no name.
    """
    complete, named = [], []
    filled = [frozenset(n for n, cell in enumerate(row) if cell != "") for _, row in sample]
    counts = Counter(chain.from_iterable(filled))
    for place in range(min(len(sample) - (not headless), _HEADER_ROWS)):
        if not headless:
            counts.subtract(filled[place])
        rows = len(sample) - place - (not headless)
        usual = {column for column, count in counts.items() if count * 2 > rows}
        if not usual:
            continue
        is_complete = usual <= filled[place]
        if is_complete:
            complete.append((place, len(usual)))
        if len(usual & filled[place]) * 2 >= len(usual) and (headless or _are_names(sample[place][1])):
            if is_complete:
                return place, len(usual)
            named.append((place, len(usual)))
        if headless:
            counts.subtract(filled[place])
    return next(iter((*named, *complete)), (None, 0))


def _are_names(row: Sequence[Any]) -> bool:
    """Return whether cells look like a header: texts and years; "Printed:" is the name of the cell beside it."""
    cells = [cell for cell in row if cell != ""]
    texts = [cell for cell in cells if isinstance(cell, str)]
    years = sum(isinstance(cell, float | int) and cell in _YEARS for cell in cells)
    return bool(texts) and len(texts) + years == len(cells) and not texts[0].rstrip().endswith(":")


def _filled(rows: Iterable[list[Any]], merges: Sequence[Any], left: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows that are not blank, and their numbers; each part of cells merged downwards has their value."""
    waiting = iter([(top, first - left, last) for (top, first), (last, _) in merges if last > top])
    following = next(waiting, None)
    open_: dict[int, tuple[int, Any]] = {}
    for number, row in enumerate(rows):
        blank = all(cell == "" or (isinstance(cell, str) and not cell.strip()) for cell in row)
        open_ = {column: merge for column, merge in open_.items() if merge[0] >= number}
        for column, (_, value) in open_.items():
            row[column] = value
        while following is not None and following[0] <= number:
            if following[0] == number and 0 <= following[1] < len(row):
                open_[following[1]] = following[2], row[following[1]]
            following = next(waiting, None)
        if not blank:
            yield number, row


def _with_currencies(
    path: str, sheet: Any, rows: Iterable[tuple[int, list[Any]]]
) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows, with the numbers as text and their currency in columns whose formats show several."""
    currencies, left = mixed_currencies(path, sheet.name), sheet.start[1]
    for number, row in rows:
        for column in currencies.codes:
            place, currency = column - left, currencies.of(number, column)
            if currency and 0 <= place < len(row) and type(row[place]) in (int, float):
                row[place] = f"{_written(row[place])} {currency}"
        yield number, row


@dataclass
class _Column:
    """Cells of a column, as arrays of doubles, timestamps or texts, each of many rows."""

    parts: list[pa.Array] = field(default_factory=list)

    def add(self, cells: Sequence[Any]) -> None:
        kinds = {type(cell) for cell in cells if cell != ""}
        values = [None if cell == "" else cell for cell in cells]
        if not kinds:
            self.parts.append(pa.nulls(len(values)))
        elif kinds <= {int, float}:
            self.parts.append(
                pa.array([None if one is None else _rounded(one) for one in values], pa.float64())
            )
        elif kinds <= {datetime.date, datetime.datetime}:
            self.parts.append(pa.array([_seconds(one) for one in values], pa.timestamp("s")))
        else:
            self.parts.append(text_array([_written(cell) for cell in cells]))

    @property
    def is_empty(self) -> bool:
        return all(part.null_count == len(part) for part in self.parts)

    def array(self) -> pa.ChunkedArray:
        """Return the column: whole numbers, numbers, dates, times, or, if it has others, text."""
        kinds = {part.type for part in self.parts} - {pa.null()}
        if len(kinds) > 1 or pa.large_string() in kinds:
            return pa.chunked_array(map(_as_text, self.parts), pa.large_string())
        kind = kinds.pop() if kinds else pa.large_string()
        column = pa.chunked_array([part.cast(kind) for part in self.parts], kind)
        if kind == pa.float64() and not pc.any(pc.greater(pc.abs(column), _MOST_WHOLE)).as_py():
            return _if_equal(column, pa.int64())
        return _if_equal(column, pa.date32()) if kind == pa.timestamp("s") else column


def _if_equal(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column in another type if this changes no value."""
    other = column.cast(kind, safe=False)
    return other if pc.all(pc.equal(other.cast(column.type), column)).as_py() else column


def _as_text(part: pa.Array) -> pa.Array:
    return (
        part
        if pa.types.is_large_string(part.type)
        else text_array([_written(one) for one in part.to_pylist()])
    )


def _rounded(number: float) -> float:
    """Return a number with the 15 digits that Excel and LibreOffice show: a formula's 2.9749999999999996 is 2.975."""
    return float(f"{number:.15g}")


def _seconds(moment: datetime.date | None) -> datetime.datetime | None:
    """Return a date or a time without fractions of a second, which are errors of rounding."""
    if moment is None or not isinstance(moment, datetime.datetime):
        return None if moment is None else datetime.datetime.combine(moment, datetime.time())
    return (moment + datetime.timedelta(microseconds=500_000)).replace(microsecond=0)


def _written(cell: Any) -> str:
    """Return a cell as text.

    A number with three decimals gets a fourth, because 1.525 in a column of texts may also be read as thousands.
    """
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, int | float):
        number = _rounded(cell)
        written = str(int(number)) if number.is_integer() and abs(number) <= _MOST_WHOLE else repr(number)
        return f"{written}0" if re.fullmatch(r"-?\d+\.\d{3}", written) else written
    if isinstance(cell, datetime.datetime):
        moment = _seconds(cell)
        assert moment is not None
        return moment.isoformat(" ").removesuffix(" 00:00:00")
    return cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else str(cell)


def _has(path: str, members: str, pattern: re.Pattern[bytes]) -> bool:
    """Return whether some files of a zip archive, by a regular expression, contain a pattern."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(members, name):
                with archive.open(name) as file:
                    before = b""
                    while block := file.read(_BLOCK):
                        if pattern.search(before + block):
                            return True
                        before = block[-100:]
    return False


def _merges(path: str, sheet: Any) -> list[_Range]:
    """Return the merged cells of a sheet, from the top; calamine does not tell those of .ods."""
    merges = sheet.merged_cell_ranges
    if merges is None and _has(path, r"content\.xml", _SPANS):
        with zipfile.ZipFile(path) as archive, archive.open("content.xml") as file:
            merges = _spans(file, sheet.name)
    return sorted(merges or ())


def _spans(file: Any, sheet: str) -> list[_Range]:
    """Return the merged cells of a sheet in the XML of an .ods file (OpenDocument 1.3, part 3, section 9)."""
    merges: list[_Range] = []
    reading, row, column = False, 0, 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal reading, row, column
        space, _, tag = name.rpartition("}")

        def number(what: str) -> int:
            return int(attributes.get(f"{space}}}number-{what}", 1))

        if tag == "table":
            reading, row = attributes.get(f"{space}}}name") == sheet, 0
        elif tag == "table-row":
            repeated.append(number("rows-repeated"))
            column = 0
        elif tag in ("table-cell", "covered-table-cell") and reading:
            rows, columns = number("rows-spanned"), number("columns-spanned")
            if rows > 1 or columns > 1:
                merges.append(((row, column), (row + rows - 1, column + columns - 1)))
            column += number("columns-repeated")

    def end(name: str) -> None:
        nonlocal row
        if name.endswith("}table-row"):
            row += repeated.pop()

    repeated: list[int] = []
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.ParseFile(file)
    return merges
