"""Small tables that unpack to, or ask for, far more memory or time than they should: `check` and `predict` say so.

Commands run as processes of their own, whose memory is measured together with that of their children.

    python -m tests.faults.table_bombs    # prints memory and time of each
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather, orc

from tests.faults.campaign import Case

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle"
MEMORY = 1_000_000_000
"""Bytes, of the command and its children."""
LONGEST = 60
"""Seconds, of an idle machine; CPU seconds on a busy one."""
SECONDS = 400
MB = 1 << 20

HEAD = b"sample_id,catalog_content,price\n"
ROW = b"1,green tea,2.50\n"
OBJECT = b'{"catalog_content": "green tea", "price": 2.5}\n'


def trial(case: Case) -> str:
    """Write one bomb, and give it to `check` or to `predict`."""
    name = list(BOMBS)[case.number % len(BOMBS)]
    command = ("check", "predict")[case.number // len(BOMBS) % 2]
    suffix, make = BOMBS[name]
    path = case.folder / f"bomb{suffix}"
    make(path)
    words = (
        ["check", path]
        if command == "check"
        else ["predict", GOLDEN, path, "--out", case.folder / "prices.csv"]
    )
    code, output, memory, seconds = measure([str(word) for word in words], case.folder)
    what = f"{command} of {name}: {memory / 1e6:,.0f} MB, {seconds:.1f} CPU s, exit code {code}\n{output[-2000:]}"
    assert memory < MEMORY, what
    assert seconds < LONGEST, what
    assert code in (0, 1, 3, 5), what
    assert "Traceback" not in output, what
    assert "unexpected error" not in output, what
    sentences = [line for line in output.splitlines() if line.startswith("pricekit: ")]
    assert (code in (0, 5)) or len(sentences) == 1, what
    if case.shared == case.folder:  # of `main`
        shown = f"{path.stat().st_size / 1000:,.0f} | {memory / 1e6:,.0f} | {seconds:.1f} | {code}"
        print(f"| {name} | {command} | {shown} |", flush=True)
    return "used" if code in (0, 5) else "refused"


def main() -> None:
    """Print a line for each bomb and command: kB of the file, MB of memory, CPU seconds and exit code."""
    for number in range(TRIALS):
        with tempfile.TemporaryDirectory() as folder:
            trial(Case(number, random.Random(number), Path(folder), Path(folder)))


def measure(words: list[str], folder: Path) -> tuple[int, str, int, float]:
    """Return exit code and output of a command, and its largest memory and its CPU seconds, children included."""
    with open(folder / "output", "wb") as output:
        command = subprocess.Popen(
            [sys.executable, "-m", "pricekit", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "200"},
        )
    most, began = 0, time.monotonic()
    while True:
        ended, status, usage = os.wait4(command.pid, os.WNOHANG)
        if ended:
            break
        most = max(most, sum(map(_resident, _with_children(command.pid))), _highest(command.pid))
        if most > 1.2 * MEMORY or time.monotonic() - began > 5 * LONGEST:
            os.killpg(command.pid, signal.SIGKILL)
        time.sleep(0.01)
    command.returncode = os.waitstatus_to_exitcode(status)
    text = (folder / "output").read_text("utf-8", "replace")
    return command.returncode, text, most, usage.ru_utime + usage.ru_stime


def _with_children(process: int) -> list[int]:
    found = [process]
    try:
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += _with_children(int(child))
    except OSError:  # it has ended
        pass
    return found


def _highest(process: int) -> int:
    """Return the most memory that a process has had since it began; that of `wait4` counts this one before it."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0


def _sparse(head: bytes, size: int = 1 << 30) -> Callable[[Path], None]:
    """Return what writes a text that ends with so many NULs, which take no disk."""

    def make(path: Path) -> None:
        path.write_bytes(head)
        os.truncate(path, len(head) + size)

    return make


def _text(*parts: tuple[bytes, int]) -> Callable[[Path], None]:
    """Return what writes a text of repeated parts, packed as its suffix says: streams of about a megabyte."""

    def make(path: Path) -> None:
        pack = _PACK.get(path.suffix, bytes)
        with open(path, "wb") as file:
            for part, count in parts:
                at_once = max(1, min(count, MB // len(part)))
                block = pack(part * at_once)
                for _ in range(count // at_once):
                    file.write(block)
                if count % at_once:
                    file.write(pack(part * (count % at_once)))

    return make


def _zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


_PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": _zstd}


def _zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("t.csv", "w") as file:
        file.write(HEAD)
        for _ in range(500):
            file.write(b"1,a,2\n" * (MB // 6))


def _named(path: Path) -> None:
    content = gzip.compress(HEAD + ROW * 20)
    with open(path, "wb") as file:
        file.write(content[:3] + b"\x08" + content[4:10])
        for _ in range(100):
            file.write(b"x" * MB)
        file.write(b"\0" + content[10:])


def _xz_dictionary(path: Path) -> None:
    path.write_bytes(lzma.compress(HEAD + ROW, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]))


def _parquet(columns: Callable[[], dict[str, Any]], **settings: Any) -> Callable[[Path], None]:
    return lambda path: pq.write_table(_priced(columns()), path, compression="zstd", **settings)


def _priced(columns: dict[str, Any]) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({"price": np.full(rows, 2.5), **columns})


def _shared(rows: int, size: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * size]))


def _feather(compression: str, columns: Callable[[], dict[str, Any]]) -> Callable[[Path], None]:
    return lambda path: feather.write_feather(_priced(columns()), path, compression=compression)


def _orc(columns: Callable[[], dict[str, Any]]) -> Callable[[Path], None]:
    return lambda path: orc.write_table(_priced(columns()), path, compression="zstd")


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_TITLES = '<row><c t="inlineStr"><is><t>catalog_content</t></is></c><c t="inlineStr"><is><t>price</t></is></c></row>'


def _workbook(
    rows: list[tuple[str, int]], texts: list[tuple[str, int]] = (), sheets: int = 1, before: str = ""
) -> Callable[[Path], None]:
    """Return what writes an .xlsx file whose rows and shared texts are repeated pieces of XML."""
    relations = "".join(
        f'<Relationship Id="r{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
        for n in range(sheets)
    )
    named = "".join(f'<sheet name="s{n}" sheetId="{n + 1}" r:id="r{n}"/>' for n in range(sheets))
    files: dict[str, list[tuple[str, int]]] = {
        "[Content_Types].xml": [
            ('<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>', 1)
        ],
        "_rels/.rels": [
            (
                f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="a" Type="{_OFFICE}/officeDocument" '
                'Target="xl/workbook.xml"/></Relationships>',
                1,
            )
        ],
        "xl/workbook.xml": [
            (f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{named}</sheets></workbook>', 1)
        ],
        "xl/_rels/workbook.xml.rels": [
            (
                f'<Relationships xmlns="{_PACKAGE}">{relations}<Relationship Id="t" Type="{_OFFICE}/sharedStrings" '
                'Target="sharedStrings.xml"/></Relationships>',
                1,
            )
        ],
        "xl/worksheets/sheet1.xml": [
            (f'{before}<worksheet xmlns="{_MAIN}"><sheetData>', 1),
            *rows,
            ("</sheetData></worksheet>", 1),
        ],
        "xl/sharedStrings.xml": [(f'<sst xmlns="{_MAIN}">', 1), *texts, ("</sst>", 1)],
    }

    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, parts in files.items():
                with archive.open(name, "w", force_zip64=True) as file:
                    for part, count in parts:
                        at_once = max(1, min(count, MB // len(part)))
                        for _ in range(count // at_once):
                            file.write(part.encode() * at_once)

    return make


_CELLS = '<row><c t="inlineStr"><is><t>green tea</t></is></c><c><v>2.5</v></c></row>'
_TEXT_CELL = '<row><c t="s"><v>0</v></c><c><v>2.5</v></c></row>'


def _ods(path: Path) -> None:
    space = "urn:oasis:names:tc:opendocument:xmlns"
    row = (
        '<t:table-row t:number-rows-repeated="1000000000"><t:table-cell t:number-columns-repeated="1000000" '
        'o:value-type="string"><x:p>a</x:p></t:table-cell></t:table-row>'
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml",
            f'<o:document-content xmlns:o="{space}:office:1.0" xmlns:t="{space}:table:1.0" xmlns:x="{space}:text:1.0">'
            f'<o:body><o:spreadsheet><t:table t:name="s">{row}</t:table></o:spreadsheet></o:body></o:document-content>',
        )


_ROWS = _text((HEAD, 1), (b"1,a,2\n", 100 * MB))
_LONG_TEXT = _text((OBJECT + b'{"catalog_content": "', 1), (b"x", 800 * MB), (b'"}\n', 1))
Make = Callable[[Path], None]
BOMBS: dict[str, tuple[str, Make]] = {
    "one line, gz": (".csv.gz", _text((HEAD, 1), (b"x", 100 * MB))),
    "one long text that 1,000 rows share, Parquet": (
        ".parquet",
        _parquet(lambda: {"catalog_content": _shared(1000, 200_000)}),
    ),
    "one line of NULs, CSV": (".csv", _sparse(HEAD)),
    "one cell, CSV": (".csv", _text((HEAD + b'1,"', 1), (b"x", 200 * MB), (b'",2\n', 1))),
    "one cell of lines, CSV": (".csv", _text((HEAD + b'1,"', 1), (b"green tea\n", 20 * MB), (b'",2\n', 1))),
    "a quote that never closes, CSV": (".csv", _text((HEAD + ROW + b'1,"', 1), (ROW, 10 * MB))),
    "one cell just below the limit, CSV": (
        ".csv",
        _text((HEAD + ROW * 20 + b"1," + "😀".encode(), 1), (b"x", 31 * MB), (b",2\n", 1)),
    ),
    "one row of fields, CSV": (".csv", _text((HEAD + ROW, 1), (b"ab,", 60 * MB // 3), (b"\n", 1))),
    "cells just below the limit, CSV": (".csv", _text((HEAD, 1), (b"1," + b"x" * (30 * MB) + b",2\n", 8))),
    "lines of quotes, CSV": (".csv", _text((HEAD, 1), (b'"', 150 * MB))),
    "one UTF-16 line, CSV": (
        ".csv",
        _text((b"\xff\xfe" + HEAD.decode().encode("utf-16-le"), 1), (b"\x0a\x0a", 90 * MB)),
    ),
    "rows, gz": (".csv.gz", _ROWS),
    "rows, zst": (".csv.zst", _ROWS),
    "rows, bz2": (".csv.bz2", _ROWS),
    "rows, xz": (".csv.xz", _ROWS),
    "rows, zip": (".zip", _zipped),
    "short rows as many as allowed, gz": (".csv.gz", _text((HEAD, 1), (b"1,a,2\n", 950_000))),
    "one line, zst": (".csv.zst", _text((HEAD, 1), (b"x", 1 << 30))),
    "empty streams, gz": (
        ".csv.gz",
        lambda path: path.write_bytes(gzip.compress(HEAD + ROW * 20) + gzip.compress(b"") * 500_000),
    ),
    "empty streams, zst": (
        ".csv.zst",
        lambda path: path.write_bytes(_zstd(HEAD + ROW * 20) + _zstd(b"") * 500_000),
    ),
    "a long name, gz": (".csv.gz", _named),
    "a large dictionary, xz": (".csv.xz", _xz_dictionary),
    "one line, JSON": (".jsonl", _sparse(b'{"catalog_content": "')),
    "one text, JSON": (".jsonl", _LONG_TEXT),
    "one list, JSON": (
        ".jsonl",
        _text((OBJECT + b'{"catalog_content": [', 1), (b"0,", 30 * MB), (b"0]}\n", 1)),
    ),
    "keys, JSON": (".jsonl", _text((OBJECT + b"{", 1), (b'"a":"b",', 7 * MB), (b'"c":0}\n', 1))),
    "depth, JSON": (".jsonl", _text((OBJECT + b'{"catalog_content": ', 1), (b"[", 60 * MB))),
    "escapes, JSON": (
        ".jsonl",
        _text((OBJECT + b'{"catalog_content": "', 1), (b"\\u0041", 10 * MB), (b'"}\n', 1)),
    ),
    "one text, JSON and zst": (".jsonl.zst", _LONG_TEXT),
    "one cell, Parquet": (
        ".parquet",
        _parquet(lambda: {"catalog_content": ["x" * (100 * MB)]}, use_dictionary=False),
    ),
    "one cell in a dictionary, Parquet": (
        ".parquet",
        _parquet(lambda: {"catalog_content": ["x" * (100 * MB)]}),
    ),
    "one cell that 1,000 rows share, Parquet": (
        ".parquet",
        _parquet(lambda: {"catalog_content": _shared(1000, 60 * MB)}),
    ),
    "cells with one beginning, Parquet": (
        ".parquet",
        _parquet(
            lambda: {"catalog_content": ["x" * MB] * 200},
            use_dictionary=False,
            column_encoding={"catalog_content": "DELTA_BYTE_ARRAY"},
        ),
    ),
    "many columns, Parquet": (
        ".parquet",
        _parquet(lambda: {"catalog_content": ["a"], **{f"c{n}": ["x" * (12 * MB)] for n in range(16)}}),
    ),
    "rows of nothing, Parquet": (".parquet", _parquet(lambda: {"catalog_content": _shared(5_000_000, 1)})),
    "one list of nothing, Parquet": (
        ".parquet",
        _parquet(
            lambda: {
                "catalog_content": ["a"],
                "l": pa.ListArray.from_arrays([0, 20 * MB], pa.nulls(20 * MB, pa.int8())),
            }
        ),
    ),
    "one cell, Feather": (".feather", _feather("zstd", lambda: {"catalog_content": ["x" * (300 * MB)]})),
    "one cell that 1,000 rows share, Feather": (
        ".feather",
        _feather("lz4", lambda: {"catalog_content": _shared(1000, 60 * MB)}),
    ),
    "rows of nothing, Feather": (
        ".feather",
        _feather("lz4", lambda: {"catalog_content": _shared(5_000_000, 1)}),
    ),
    "one cell, ORC": (".orc", _orc(lambda: {"catalog_content": ["x" * (100 * MB)]})),
    "rows, xlsx": (".xlsx", _workbook([(_TITLES, 1), (_CELLS, 3_000_000)])),
    "one cell, xlsx": (
        ".xlsx",
        _workbook(
            [(_TITLES, 1), ('<row><c t="inlineStr"><is><t>', 1), ("x", 1 << 30), ("</t></is></c></row>", 1)]
        ),
    ),
    "a shared text, xlsx": (
        ".xlsx",
        _workbook([(_TITLES, 1), (_TEXT_CELL, 1000)], [("<si><t>", 1), ("x", 32 * MB), ("</t></si>", 1)]),
    ),
    "shared texts, xlsx": (
        ".xlsx",
        _workbook([(_TITLES, 1), (_TEXT_CELL, 20)], [("<si><t>x</t></si>", 40_000_000)]),
    ),
    "a false size, xlsx": (
        ".xlsx",
        _workbook([(_TITLES, 1), (_CELLS, 5), ('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>', 1)]),
    ),
    "sheets, xlsx": (".xlsx", _workbook([(_TITLES, 1), (_CELLS, 20)], sheets=50_000)),
    "entities, xlsx": (
        ".xlsx",
        _workbook(
            [(_TITLES, 1), ('<row><c t="inlineStr"><is><t>&c9;</t></is></c><c><v>1</v></c></row>', 1)],
            before="<!DOCTYPE x [<!ENTITY c0 'lol'>"
            + "".join(f"<!ENTITY c{n} '{f'&c{n - 1};' * 10}'>" for n in range(1, 10))
            + "]>",
        ),
    ),
    "repeated cells, ods": (".ods", _ods),
}
"""By name: the suffix of the file, and what writes it. The first ones are those of the short form."""
TRIALS, SHORT = 2 * len(BOMBS), 2
REQUIREMENT = "at most 1 GB and 60 s, used or one paragraph"

if __name__ == "__main__":
    main()
