"""Odd workbooks are read right, or are one error. `workbooks/make.py` wrote those in the folder, with LibreOffice."""

import io
import struct
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.errors import ConfigError, DataError
from pricekit.table import (
    Columns,
    ReadOptions,
    check_columns,
    guess_columns,
    iter_files,
    read_table,
    workbook,
)
from pricekit.table.row_info import with_row_info
from pricekit.table.source import DEFAULT_READ_OPTIONS, is_large, open_table
from pricekit.table.usable import read_usable

FOLDER = Path(__file__).parent / "workbooks"
KINDS = ["xlsx", "xls", "ods"]
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SMALL = [["title", "price"], ["Tea", 3.5], ["Ink", 4.0]]


def read(path, text=None, price=None, **options):
    """Return a table, and the sentences about it."""
    notices = []
    columns = None if text is None else Columns(text, price, None)
    table = read_table(path, columns, read_options=ReadOptions(**options), notices=notices.append)
    return table, notices


def rows(table):
    return [[*table.frame], *table.frame.astype(object).where(table.frame.notna(), None).to_numpy().tolist()]


def letters(number):
    return chr(65 + number)


def package(path, kind, parts):
    """Write the zip archive of a workbook of one sheet; `kind` is xml or bin."""
    content = (
        "application/vnd.ms-excel.%s"
        if kind == "bin"
        else "application/vnd.openxmlformats-officedocument.%s+xml"
    )
    names = (
        ("sheet.binary.macroEnabled.main", "worksheet")
        if kind == "bin"
        else ("spreadsheetml.sheet.main", "spreadsheetml.worksheet")
    )
    overrides = "".join(
        f'<Override PartName="/xl/{part}.{kind}" ContentType="{content % name}"/>'
        for part, name in zip(("workbook", "worksheets/sheet1"), names, strict=True)
    )
    relation = '<Relationships xmlns="{}/relationships"><Relationship Id="rId1" Type="{}/{}" Target="{}"/>'
    relation += "</Relationships>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
            f'"application/vnd.openxmlformats-package.relationships+xml"/>{overrides}</Types>',
        )
        archive.writestr(
            "_rels/.rels", relation.format(PACKAGE, OFFICE, "officeDocument", f"xl/workbook.{kind}")
        )
        archive.writestr(
            f"xl/_rels/workbook.{kind}.rels",
            relation.format(PACKAGE, OFFICE, "worksheet", f"worksheets/sheet1.{kind}"),
        )
        for name, part in parts.items():
            with archive.open(f"xl/{name}.{kind}", "w", force_zip64=True) as file:
                for block in [part] if isinstance(part, bytes) else part:
                    file.write(block)
    return path


def xlsx(path, sheet, after=b""):
    """Write an .xlsx workbook as a small program would: `sheet` is its data in XML, as bytes or as an iterator."""
    sheets = '<sheets><sheet name="A" sheetId="1" r:id="rId1"/></sheets>'
    book = f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">{sheets}</workbook>'
    begin = f'<worksheet xmlns="{MAIN}"><sheetData>'.encode()

    def blocks():
        yield begin
        yield from [sheet] if isinstance(sheet, bytes) else sheet
        yield b"</sheetData>" + after + b"</worksheet>"

    return package(path, "xml", {"workbook": book.encode(), "worksheets/sheet1": blocks()})


def xml(rows, first=1):
    """Return rows as XML; a cell that begins with <f> or <v> is its own XML."""
    lines = []
    for number, row in enumerate(rows, start=first):
        cells = []
        for column, cell in enumerate(row):
            place = f'r="{letters(column)}{number}"'
            if isinstance(cell, str) and cell.startswith(("<f>", "<v>")):
                cells.append(f"<c {place}>{cell}</c>")
            elif isinstance(cell, str):
                cells.append(
                    f'<c {place} t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
                )
            else:
                cells.append(f"<c {place}><v>{cell!r}</v></c>")
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    return "".join(lines).encode()


def xlsb(path, rows):
    """Write an .xlsb workbook (MS-XLSB 2.1.7): records of a type, a size and their content."""

    def record(kind, content=b""):
        head = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
        return head + bytes([len(content)]) + content

    def text(value):
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    def cell(column, value):
        place = struct.pack("<II", column, 0)
        if isinstance(value, bool):
            return record(4, place + bytes([value]))
        if isinstance(value, str):
            return record(6, place + text(value))
        return record(5, place + struct.pack("<d", value))

    sheet = [
        record(129),
        record(148, struct.pack("<IIII", 0, len(rows) - 1, 0, len(rows[0]) - 1)),
        record(145),
    ]
    for number, row in enumerate(rows):
        sheet.append(record(0, struct.pack("<IIHBBBI", number, 0, 300, 0, 0, 0, 0)))
        sheet += [cell(column, value) for column, value in enumerate(row)]
    sheet += [record(146), record(130)]
    bundle = struct.pack("<II", 0, 1) + text("rId1") + text("A")
    book = record(131) + record(143) + record(156, bundle) + record(144) + record(132)
    return package(path, "bin", {"workbook": book, "worksheets/sheet1": b"".join(sheet)})


@pytest.mark.parametrize("kind", KINDS)
def test_formulas_dates_and_titles(kind, tmp_path):
    """Two rows of titles, merged cells, a header of two lines, dates, values of formulas, a blank row."""
    table, notices = read(FOLDER / f"prices.{kind}", ("Article", "Year", "Since", "No."), "Gross (EUR)")
    (tmp_path / "same.csv").write_text(
        "Article,Year,Net,Gross (EUR),Since,No.\n"
        "Green tea 50 g,2015,2.5,2.975,2024-03-01,1001\n"
        "Ink\u00a0pen,2016,8,9.52,2023-12-31,1002\n"
        "Coffee mill,2017,49.9,59.38,2020-02-29,1003\n"
        "Chair oak,,0.3,0.3,2024-03-01,1004\n"
        "Lamp,2019,20,23.8,,1005\n",
        "utf-8",
    )
    same, _ = read(tmp_path / "same.csv", ("Article", "Year", "Since", "No."), "Gross (EUR)")
    assert table.text.tolist() == same.text.tolist()
    assert table.price.tolist() == same.price.tolist() == [2.975, 9.52, 59.38, 0.3, 23.8]
    assert not notices
    assert [*table.frame] == [*same.frame]
    dated = with_row_info(table.take([0, 1, 2]), time="Since").time
    assert dated.argsort().tolist() == [2, 1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_truth_and_mixed_columns(kind):
    table, _ = read(FOLDER / f"odd.{kind}", ("name", "in stock"), "price")
    assert rows(table) == [
        ["name", "in stock", "share", "price", "ratio", "when", "code"],
        ["tea", "TRUE", 0.19, "3.1250", None, pd.Timestamp("2024-03-01 14:30"), "007"],
        ["ink", "FALSE", 0.5, "4.5", None, pd.Timestamp("2024-03-02"), "8"],
        ["pen", "TRUE", 1.0, "on request", 0.25, pd.Timestamp("2024-03-01"), "x-9"],
        ["mill", "", 2e-05, "1234567", 1e21, None, "1000000000000000"],
    ]
    assert table.price.tolist()[:2] == [3.125, 4.5]  # not 3125
    assert table.price[3] == 1234567


@pytest.mark.parametrize("kind", KINDS)
def test_merged_cells(kind):
    """Tall cells count for each of their rows; groups of columns are part of their names."""
    table, _ = read(FOLDER / f"merged.{kind}", ("Category", "Item"), "Price")
    assert rows(table) == [
        ["Category", "Item", "2024 Q1", "2024 Q2", "Price"],
        ["Tea", "green", 1, 2, 3.5],
        ["Tea", "black", 3, 4, 3.75],
        ["Tea", "white", 5, 6, 4],
        ["Ink", "blue", 7, 8, 9.5],
        ["Ink", "red", 9, 10, 9.25],
        ["Sold as a set: pen and ink", "", 11, 12, 15],
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_sheet_with_a_table_or_the_chosen_one(kind, raises):
    path = FOLDER / f"sheets.{kind}"
    table, notices = read(path, "title", "price")
    assert rows(table) == [["title", "price"], ["Tea", 3.5]]
    assert notices == [
        f"{path}: the sheet 'New prices' is read, the first one with a table of 4 sheets. Set sheet to choose another."
    ]
    for sheet in ("More", "Hidden old"):
        table, notices = read(path, "title", "price", sheet=sheet)
        assert rows(table) == SMALL
        assert not notices
    with raises(DataError, "sheet", suggestion=None):
        read(path, "title", sheet="Mor")
    with raises(DataError, "table"):
        read(path, "title", sheet="Empty")


def test_a_table_that_begins_anywhere_with_a_column_without_a_name():
    table, _ = read(FOLDER / "offset.ods", "title", "price")
    assert rows(table) == [
        ["title", "column 2", "price"],
        ["Tea", "green", 3],
        ["Ink", "blue", 4],
        ["Pen", "", 5],
    ]


def test_a_sheet_of_notes_lacks_the_columns(raises):
    with raises(DataError, "text", column="title"):
        read(FOLDER / "notes.xlsx", "title", "price")


def test_binary_workbooks(tmp_path):
    path = xlsb(tmp_path / "x.xlsb", [["title", "new", "price"], ["Tea", True, 3.5], ["Ink", False, 2015.0]])
    table, _ = read(path, ("title", "price"), "price")
    assert rows(table) == [["title", "new", "price"], ["Tea", "TRUE", 3.5], ["Ink", "FALSE", 2015]]
    assert table.text.tolist() == ["title: Tea\nprice: 3.5", "title: Ink\nprice: 2015"]


def test_formulas_without_values_are_reported(tmp_path):
    lines = [["title", "price"], ["Tea", "<f>1+1</f><v></v>"], ["Ink", "<f>1+2</f><v/>"]]
    table, notices = read(xlsx(tmp_path / "x.xlsx", xml(lines)), "title")
    assert len(table) == 2
    assert "formulas have no values" in " ".join(notices)
    lines[2][1] = "<f>1+2</f><v>3</v>"
    assert not read(xlsx(tmp_path / "x.xlsx", xml(lines)), "title")[1]


def test_a_table_without_a_header(tmp_path):
    path = xlsx(tmp_path / "x.xlsx", xml([["Prices of 2024"], *SMALL[1:]]))
    table, _ = read(path, "name", "eur", names=("name", "eur"))
    assert rows(table) == [["name", "eur"], *SMALL[1:]]
    table, _ = read(xlsx(tmp_path / "y.xlsx", xml(SMALL)), "title", "price", names=("title", "price"))
    assert rows(table) == SMALL


def test_an_index_without_a_name_and_repeated_names(tmp_path):
    lines = [["", "title", "price", "price"], [0, "Tea", 3.5, 4], [1, "Ink", 4.25, 5], [2, "Pen", 1.5, 2]]
    table, notices = read(xlsx(tmp_path / "x.xlsx", xml(lines)), "title", "price")
    assert [*table.frame] == ["column 1", "title", "price", "price (2)"]
    assert table.price.tolist() == [3.5, 4.25, 1.5]
    assert "several columns have the same name" in notices[0]


def test_a_workbook_is_a_table_like_others(tmp_path, memory, monkeypatch):
    path = xlsx(tmp_path / "x.xlsx", xml([*SMALL, *([["Pen", 1.5]] * 998)]))
    columns = Columns("title", "price", None)
    check_columns(path, columns)
    memory.pipe("/b/x.xlsx", path.read_bytes())
    assert read_table("memory://b/x.xlsx", columns).price.sum() == 3.5 + 4 + 998 * 1.5
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert len(read_table("-.xlsx", columns)) == 1000
    tables = list(iter_files([path, path], columns, rows=400))
    assert [len(table) for table in tables] == [400, 400, 200] * 2
    assert tables[-1].position == 2 * path.stat().st_size
    assert guess_columns(path).columns.price == "price"
    opened = open_table(path, DEFAULT_READ_OPTIONS, print)
    assert not is_large(opened)
    monkeypatch.setattr("pricekit.table.source.LARGE_BYTES", 1000)
    assert is_large(opened)


def test_prices_of_a_workbook(pricekit, bundle, catalog, tmp_path):
    """The command line reads the chosen sheet as it reads the same CSV."""
    frame = pd.read_csv(catalog, dtype=str).head(20)
    path = xlsx(tmp_path / "new.xlsx", xml([[*frame], *frame.to_numpy().tolist()]))
    assert pricekit("predict", bundle, path, "--sheet", "A", "--out", tmp_path / "a.csv.gz")[0] == 0
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert pricekit("predict", bundle, tmp_path / "new.csv", "--out", tmp_path / "b.csv")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "a.csv.gz"), pd.read_csv(tmp_path / "b.csv"))


@pytest.mark.parametrize("content", ["text", "cut", "zeros", "empty", "zip", "page"])
def test_a_damaged_workbook_is_one_error(tmp_path, content, raises):
    path = tmp_path / "x.xlsx"
    whole = (FOLDER / "prices.xlsx").read_bytes()
    path.write_bytes(
        {
            "text": b"title,price\n",
            "cut": whole[:3000],
            "zeros": whole[:1000] + bytes(2000) + whole[3000:],
            "empty": b"",
            "zip": b"",
            "page": b"<html><table><tr><td>",
        }[content]
    )
    if content == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.csv", "title,price\n")
    with raises(DataError, "table"):
        read(path, "title")


@pytest.mark.parametrize(
    ("kind", "suffix"), [("xls", "xlsx"), ("xlsx", "xls"), ("ods", "xlsx"), ("xlsx", "ods")]
)
def test_the_suffix_of_another_kind_of_workbook(tmp_path, kind, suffix):
    path = tmp_path / f"x.{suffix}"
    path.write_bytes((FOLDER / f"prices.{kind}").read_bytes())
    assert len(read(path, "Article")[0]) == 5


def test_a_password_is_named(tmp_path, raises):
    content = (FOLDER / "prices.xls").read_bytes()
    begin = content.index(b"\x09\x08\x10\x00") + 20  # the record after the first
    path = tmp_path / "x.xls"
    path.write_bytes(content[:begin] + b"\x2f\x00" + content[begin + 2 :])
    with raises(DataError, "table"):
        read(path, "title")


def _far_cell():
    yield xml(SMALL) + b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'


def _long_text():
    yield b'<row r="1"><c r="A1" t="inlineStr"><is><t>'
    for _ in range(600):
        yield b"x" * (1 << 20)
    yield b"</t></is></c></row>"


def _many_rows():
    yield xml(SMALL)
    for _ in range(40):
        yield b'<row><c><v>1</v></c><c t="inlineStr"><is><t>x</t></is></c></row>' * 100_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory")
@pytest.mark.parametrize("sheet", [_far_cell, _long_text, _many_rows])
def test_what_fills_the_memory_is_refused(tmp_path, sheet, monkeypatch, raises):
    monkeypatch.setattr(workbook, "MEMORY", 400 << 20)
    path = xlsx(tmp_path / "x.xlsx", sheet())
    assert path.stat().st_size < 10 << 20
    with pytest.raises(DataError, match=r"was opened in a sandbox, and cannot be read: .* 400 MiB") as error:
        read(path, "title")
    assert "\n" not in str(error.value)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the time")
def test_what_takes_too_long_is_refused(tmp_path, monkeypatch, raises):
    monkeypatch.setattr(workbook, "SECONDS", 1)
    with raises(DataError, "table"):
        read(xlsx(tmp_path / "x.xlsx", _many_rows()), "title")


def test_a_table_that_is_too_large_is_refused(tmp_path, monkeypatch, raises):
    monkeypatch.setattr(workbook, "MAX_BYTES", 1 << 20)
    path = xlsx(tmp_path / "x.xlsx", xml([["a", "b"], *([["x" * 30_000, "y" * 30_000]] * 30)]))
    with raises(DataError, "table"):
        read(path, "a")


def test_a_missing_package_is_named(monkeypatch, raises):
    monkeypatch.setattr(workbook, "find_spec", lambda _: None)
    with raises(ConfigError):
        read(FOLDER / "prices.xlsx", "title")


NAMES = st.lists(
    st.sampled_from(["title", "price", "size", "2019", "Größe", "a b"]), min_size=2, max_size=5, unique=True
)
TITLES = st.lists(
    st.sampled_from([["Prices of spring"], ["Printed:", "1 May"], ["Shop:", "Main Street 5"], []]), max_size=2
)


@settings(max_examples=60)
@given(NAMES, TITLES, st.integers(0, 2), st.data())
def test_a_table_anywhere_in_a_sheet(tmp_path_factory, names, titles, left, data):
    """Titles above a table and empty columns beside it change nothing, and blank rows inside it are no rows."""
    number = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6).map(lambda value: round(value, 2)))
    kinds = [st.sampled_from(["Tea", "Ink & pen", "x 2"]), *[number] * (len(names) - 1)]
    body = data.draw(st.lists(st.tuples(*kinds).map(list), min_size=2, max_size=6))
    blank = data.draw(st.integers(0, len(body)))
    sheet = [*titles, names, *body[:blank], [], *body[blank:]]
    path = xlsx(tmp_path_factory.mktemp("book") / "x.xlsx", xml([[""] * left + row for row in sheet]))
    facts, content = workbook.sheet_of(str(path), "null", "[]", str(1 << 20))
    assert facts["header"] == names
    columns = pa.ipc.open_stream(content).read_all()
    assert [list(row.values()) for row in columns.to_pylist()] == body


def in_currencies(path, formats, cells, name="A"):
    """Write a workbook whose prices have a style each; formats are those of the styles from 1."""
    numbers = "".join(
        f'<numFmt numFmtId="{164 + n}" formatCode="{escape(f, QUOTES)}"/>' for n, f in enumerate(formats)
    )
    used = "".join(f'<xf numFmtId="{164 + n}"/>' for n in range(len(formats)))
    styles = (
        f'<styleSheet xmlns="{MAIN}"><numFmts>{numbers}</numFmts><cellXfs><xf/>{used}</cellXfs></styleSheet>'
    )
    lines = [
        f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>jug {row}</t></is></c>'
        f'<c r="B{row}" s="{style}"><v>{price}</v></c><c r="C{row}" s="1"><v>{row}</v></c></row>'
        for row, (price, style) in enumerate(cells, start=2)
    ]
    sheet = xml([["title", "price", "post"]]) + "".join(lines).encode()
    xlsx(path, sheet)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("xl/styles.xml", styles)
    return path


QUOTES = {'"': "&quot;"}


def test_the_currencies_of_formats_in_one_column_are_not_mixed(tmp_path, raises):
    formats = ["[$€-407] #,##0.00", '#,##0.00 "zł"', "0.00"]
    cells = [(n + 0.525, 1 + n % 2) for n in range(20)] + [(5, 3)]
    path = in_currencies(tmp_path / "mixed.xlsx", formats, cells)
    with raises(DataError, "currency", currencies={"EUR": 10, "PLN": 10}):
        read_usable(path, Columns(("title",), "price", None), notices=lambda _: None)
    table, _ = read(path, "title", "price", currency="PLN")
    assert table.frame["price"][:2].tolist() == ["0.5250 EUR", "1.5250 PLN"]
    assert table.frame["post"].tolist() == list(range(2, 23))
    assert table.price[1::2].tolist() == [n + 0.525 for n in range(1, 20, 2)]
    assert pd.isna(table.price[0])


@pytest.mark.parametrize("formats", [["[$€-407] #,##0.00"] * 2, ["0.00", "yyyy-mm-dd"], ["[$€-407] 0", "0%"]])
def test_numbers_of_one_currency_stay_numbers(formats, tmp_path):
    path = in_currencies(
        tmp_path / "one.xlsx", formats, [(45000 + n, 1 + n % 2 * ("-" not in formats[1])) for n in range(20)]
    )
    table, _ = read(path, "title", "price")
    assert table.frame["price"].dtype == "int64"


@pytest.mark.parametrize("odd", ['<x y="&nope;"/></styleSheet>', "</styleSheet><<<", "{}</styleSheet>"])
def test_damaged_styles_do_not_matter(odd, tmp_path):
    """The last ones have an entity that would be a gigabyte."""
    names = "abcdefghij"
    bomb = "".join(f'<!ENTITY {n} "{f"&{m};" * 10}">' for m, n in pairwise(names))
    head = f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{bomb}]>' if "{}" in odd else ""
    path = xlsx(tmp_path / "odd.xlsx", xml([["title", "price"], ["Tea", 3.5], ["Ink", 4.5]]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("xl/styles.xml", f'{head}<styleSheet xmlns="{MAIN}">{odd.format("<x>&j;</x>")}')
    assert read(path, "title", "price")[0].price.tolist() == [3.5, 4.5]
