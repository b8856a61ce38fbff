"""Writes the workbooks in this folder with LibreOffice: `python tests/table/workbooks/make.py`.

Each is described here as sheets of rows. LibreOffice computes the formulas, and saves their values and the formats of
dates. The tests read what it saved.
"""

from __future__ import annotations

import datetime
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

FOLDER = Path(__file__).parent
KIND = "application/vnd.oasis.opendocument.spreadsheet"
HEAD = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0" office:version="1.2"><office:automatic-styles>'
    '<style:style style:name="hidden" style:family="table"><style:table-properties table:display="false"/>'
    "</style:style>"
    '<number:date-style style:name="D"><number:day/><number:text>.</number:text><number:month/><number:text>.'
    '</number:text><number:year number:style="long"/></number:date-style>'
    '<number:date-style style:name="T"><number:year/><number:text>-</number:text><number:month/><number:text>-'
    "</number:text><number:day/><number:text> </number:text><number:hours/><number:text>:</number:text>"
    "<number:minutes/></number:date-style>"
    '<number:boolean-style style:name="B"><number:boolean/></number:boolean-style>'
    '<style:style style:name="date" style:family="table-cell" style:data-style-name="D"/>'
    '<style:style style:name="time" style:family="table-cell" style:data-style-name="T"/>'
    '<style:style style:name="boolean" style:family="table-cell" style:data-style-name="B"/>'
    "</office:automatic-styles><office:body><office:spreadsheet>"
)

RECALCULATE = (
    '<oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    '<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="ODFRecalcMode" oor:op="fuse">'
    "<value>0</value></prop></item></oor:items>"
)
"""A user's profile of LibreOffice that computes all formulas when it opens a file."""
MANIFEST = (
    '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" manifest:version="1.2">'
    f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{KIND}"/>'
    '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>'
)


@dataclass(frozen=True)
class Merged:
    """A cell that spans columns or rows; the cells below a wide one are omitted, those under a tall one are None."""

    value: Any
    columns: int = 1
    rows: int = 1


def cell(value: Any) -> str:
    """Return a cell of an ODF table."""
    if isinstance(value, Merged):
        spans = f'table:number-columns-spanned="{value.columns}" table:number-rows-spanned="{value.rows}" '
        covered = "<table:covered-table-cell/>" * (value.columns - 1)
        return cell(value.value).replace("<table:table-cell ", f"<table:table-cell {spans}") + covered
    if value is None:
        return "<table:table-cell />"
    if isinstance(value, bool):
        return (
            '<table:table-cell table:style-name="boolean" office:value-type="boolean" '
            f'office:boolean-value="{str(value).lower()}"/>'
        )
    if isinstance(value, int | float):
        return f'<table:table-cell office:value-type="float" office:value="{value!r}"/>'
    if isinstance(value, datetime.date):
        style = "time" if isinstance(value, datetime.datetime) else "date"
        return (
            f'<table:table-cell table:style-name="{style}" office:value-type="date" '
            f'office:date-value="{value.isoformat()}"/>'
        )
    if value.startswith("="):
        return f"<table:table-cell table:formula={quoteattr('of:' + value)} />"
    lines = "".join(f"<text:p>{escape(line)}</text:p>" for line in value.split("\n"))
    return f'<table:table-cell office:value-type="string">{lines}</table:table-cell>'


def sheet(name: str, rows: list[list[Any]]) -> str:
    """Return a sheet of an ODF document; one whose name begins with "Hidden" is hidden."""
    hidden = ' table:style-name="hidden"' if name.startswith("Hidden") else ""
    lines = "".join(
        f"<table:table-row>{''.join(map(cell, row)) or cell(None)}</table:table-row>" for row in rows
    )
    return f"<table:table table:name={quoteattr(name)}{hidden}>{lines}</table:table>"


def save(name: str, **sheets: list[list[Any]]) -> None:
    """Save a workbook in the format of its suffix."""
    target = FOLDER / name
    body = "".join(sheet(title.replace("_", " "), rows) for title, rows in sheets.items())
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{target.stem}.ods"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("mimetype", KIND)
            archive.writestr("META-INF/manifest.xml", MANIFEST)
            archive.writestr(
                "content.xml", f"{HEAD}{body}</office:spreadsheet></office:body></office:document-content>"
            )
        kind = target.suffix[1:]
        (profile := Path(folder) / "profile" / "user").mkdir(parents=True)
        (profile / "registrymodifications.xcu").write_text(RECALCULATE, "utf-8")
        user = f"-env:UserInstallation={profile.parent.as_uri()}"
        words = ["soffice", user, "--headless", "--convert-to", kind, "--outdir", str(FOLDER), str(source)]
        subprocess.run(words, check=True)


DAY, TIME = datetime.date(2024, 3, 1), datetime.datetime(2024, 3, 1, 14, 30)
PRICES = [
    [Merged("Price list of the shop, spring 2024", columns=6)],
    ["Printed:", DAY],
    [],
    ["Article", "Year", "Net", "Gross\n(EUR)", "Since", "No."],
    ["Green tea 50 g", 2015, 2.5, "=[.C5]*1.19", DAY, 1001],
    ["Ink\u00a0pen", 2016, 8, "=[.C6]*1.19", datetime.date(2023, 12, 31), 1002],
    ["Coffee mill", 2017, 49.9, "=ROUND([.C7]*1.19;2)", datetime.date(2020, 2, 29), 1003],
    ['=CONCATENATE("Chair ";"oak")', None, 0.3, "=0.1+0.2", DAY, 1004],
    [],
    ["Lamp", 2019, 20, "=[.C10]*1.19", None, 1005],
]
ODD = [
    ["name", "in stock", "share", "price", "ratio", "when", "code"],
    ["tea", True, 0.19, 3.125, "=1/0", TIME, "007"],
    ["ink", False, 0.5, 4.5, "=NA()", datetime.datetime(2024, 3, 2), 8],
    ["pen", "=1=1", 1, "on request", "=1/4", DAY, "x-9"],
    ["mill", None, 2e-05, 1234567, 1e21, None, 1e15],
]
MERGED = [
    [Merged("Category", rows=2), Merged("Item", rows=2), Merged("2024", columns=2), Merged("Price", rows=2)],
    [None, None, "Q1", "Q2", None],
    [Merged("Tea", rows=3), "green", 1, 2, 3.5],
    [None, "black", 3, 4, 3.75],
    [None, "white", 5, 6, 4],
    [Merged("Ink", rows=2), "blue", 7, 8, 9.5],
    [None, "red", 9, 10, 9.25],
    [Merged("Sold as a set: pen and ink", columns=2), 11, 12, 15],
]
COVER = [["Price list"], [], ["Please contact us for other articles."], ["Prices include VAT."]]
SMALL = [["title", "price"], ["Tea", 3.5], ["Ink", 4]]
OFFSET = [
    *([[]] * 6),
    [None, None, "title", None, "price"],
    [None, None, "Tea", "green", 3],
    [None, None, "Ink", "blue", 4],
    [None, None, "Pen", None, 5],
]


def main() -> None:
    """Write all workbooks."""
    for kind in ("xlsx", "xls", "ods"):
        save(f"prices.{kind}", Prices=PRICES)
        save(f"odd.{kind}", Odd=ODD)
        save(f"merged.{kind}", Merged=MERGED)
        save(f"sheets.{kind}", Cover=COVER, Empty=[[]], Hidden_old=SMALL, New_prices=SMALL[:2], More=SMALL)
    save("offset.ods", Sheet1=OFFSET)
    save("notes.xlsx", Notes=COVER)


if __name__ == "__main__":
    main()
