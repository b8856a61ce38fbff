"""Random tables: delimited text, JSON lines, Parquet and frames, from a grammar and a small corpus, then damaged."""

from __future__ import annotations

import csv
import io
import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CORPUS = [
    json.loads(line)
    for line in Path(__file__).with_name("corpus").joinpath("tables.jsonl").read_text("utf-8").splitlines()
]
WORDS = [
    "tea",
    "coffee",
    "green",
    "50",
    "g",
    "1.5",
    "l",
    "pack",
    "of",
    "12",
    "organic",
    "brand",
    "jam",
    "größe",
    "茶",
    "чай",
    "😀",
]
ODD = [
    "",
    " ",
    "\x00",
    "\x1a",
    '"',
    '""',
    "'",
    ",",
    ";",
    "\t",
    "|",
    "\n",
    "\r",
    "\r\n",
    "\u2028",
    "\x85",
    "\x1c",
    "\ufeff",
    "�",
    "\u202e",
    "½",
    "NaN",
    "inf",
    "-inf",
    "1e999",
    "1e-999",
    "-0",
    "0x10",
    "1_000",
    "9" * 400,
    "9" * 5000,
    "1,234.56",
    "1.234,56",
    "$5",
    "5 €",
    "1'299.-",
    "null",
    "None",
    "[]",
    "{}",
    "=1+1",
    "a" * 60000,
    "\x1b[31m",
    "&#8377; 9",
    "&#99999999999;",
    "&#xD800;",
    "١٢٣",
    "1²",
    "1⁄2",
    "㍉ 5",
    "1万2800円",
    "5-10",
    "2 for $5",
    "5 crore",
]
BYTES = [
    b"\x00",
    b'"',
    b"\n",
    b"\r",
    b",",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x00END\x00",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"{",
    b"[" * 3000,
    b"sep=;\n",
    b"\xf0\x9f",
    b"\x80" * 40,
    b"1e999",
]
ENCODINGS = ["utf-8"] * 8 + [
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "latin-1",
    "cp1252",
    "cp1251",
    "shift_jis",
    "gb18030",
    "koi8-r",
]
ZONES = ("UTC", "Europe/Berlin", "+01:00", "Nowhere/Zone", "+99:99")


def cell(r: random.Random) -> str:
    """Return a text, now and then an odd one."""
    chance = r.random()
    if chance < 0.2:
        return r.choice(ODD)
    if chance < 0.3:
        codes = (
            r.choice([r.randrange(128), r.randrange(0x3000), r.randrange(0xE000, 0x10FFFF)]) for _ in range(9)
        )
        return "".join(map(chr, codes))
    return " ".join(r.choices(WORDS, k=r.randrange(1, 8)))


def price(r: random.Random) -> str:
    """Return a price as people write it, now and then an odd text."""
    chance, value = r.random(), r.uniform(0.1, 2000)
    if chance < 0.15:
        return cell(r)
    return r.choice([f"{value:.2f}", f"{value:,.2f}", f"€{value:.2f}", f"{value:.2f}".replace(".", ",")])


def header(r: random.Random) -> list[str]:
    """Return column names, mostly usual ones."""
    if r.random() < 0.7:
        wide = [f"c{number}" for number in range(r.choice([300, 10_001]))] * (r.random() < 0.003)
        return ["sample_id", "catalog_content", "price"] + [cell(r)[:40]] * (r.random() < 0.3) + wide
    names = [
        "price",
        "title",
        "sample_id",
        "id",
        "name",
        "row",
        "reason",
        "",
        "price (2)",
        "a\nb",
        cell(r)[:40],
    ]
    return r.choices(names, k=r.randrange(7))


def mutate(r: random.Random, content: bytes) -> bytes:
    """Return content with some bytes changed, inserted, removed, repeated or zeroed."""
    data = bytearray(content)
    for _ in range(r.choice([1, 1, 2, 5, 30])):
        start, kind = r.randrange(len(data) + 1), r.randrange(6)
        end = min(len(data), start + r.choice([1, 8, 200]))
        if kind == 0 and data:
            data[start - 1] ^= 1 << r.randrange(8)
        elif kind == 1:
            data[start:start] = r.choice(BYTES)
        elif kind == 2:
            del data[start:end]
        elif kind == 3:
            del data[start:]
        elif kind == 4:
            data[start:start] = data[r.randrange(len(data) + 1) :][: r.choice([1, 20, 300])]
        else:
            data[start:end] = bytes(end - start)
    return bytes(data)


def delimited(r: random.Random, suffix: str) -> bytes:
    """Return a CSV, TSV or TXT file."""
    names, stream = header(r), io.StringIO(newline="")
    mark = "\t" if suffix == "tsv" else r.choice(",;|\t")
    quoting = r.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(
        stream, delimiter=mark, quoting=quoting, lineterminator=r.choice(["\n", "\r\n", "\r"])
    )
    writer.writerow(names)
    for number in range(r.choice([0, 1, 2, 10, 40])):
        row = [price(r) if name == "price" else str(number) if "id" in name else cell(r) for name in names]
        writer.writerow(row[: len(row) - (r.random() < 0.03)] + [""] * (r.random() < 0.03))
    return stream.getvalue().encode(r.choice(ENCODINGS), "replace")


def json_lines(r: random.Random) -> bytes:
    """Return a file of JSON lines."""
    names, lines = header(r), []
    for _ in range(r.choice([0, 1, 2, 10, 40])):
        row = {name: _value(r) if r.random() < 0.3 else price(r) for name in names if r.random() < 0.95}
        lines.append(json.dumps(row, ensure_ascii=r.random() < 0.5))
    if lines and r.random() < 0.2:
        lines.append(
            r.choice(["[" * 100_000, '{"a":' * 3000 + "1" + "}" * 3000, '{"price": ' + "9" * 5000 + "}"])
        )
    return "\n".join(lines).encode(r.choice(ENCODINGS), "replace")


def _value(r: random.Random, depth: int = 0) -> Any:
    nested: list[Any] = []
    if depth < 3:
        nested = [[_value(r, depth + 1)], {cell(r)[:20]: _value(r, depth + 1)}]
    return r.choice(
        [cell(r), 10**30, -5, 2**64, float("nan"), float("inf"), 1e308, True, None, r.uniform(0, 9), *nested]
    )


def arrow_table(r: random.Random) -> pa.Table:
    """Return an Arrow table with columns of any type."""
    rows, names = r.choice([0, 1, 2, 5, 20]), header(r)
    columns = [_typical(r, name, rows) if r.random() < 0.6 else _column(r, rows) for name in names]
    return pa.Table.from_arrays(columns, names=names)


def _typical(r: random.Random, name: str, rows: int) -> pa.Array:
    return pa.array([price(r) if name == "price" else cell(r) for _ in range(rows)], pa.string())


def _column(r: random.Random, rows: int) -> pa.Array:
    far, unit = 2**62, r.choice(["s", "ms", "us", "ns"])
    times = pa.timestamp(unit, r.choice([None, *ZONES]))
    kinds: list[tuple[pa.DataType, Any]] = [
        *((kind, lambda: cell(r)) for kind in (pa.large_string(), pa.string_view(), pa.json_())),
        *(
            (kind, lambda: r.randbytes(4))
            for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4))
        ),
        (pa.int64(), lambda: r.randrange(-(2**63), 2**63)),
        (pa.uint64(), lambda: r.randrange(2**64)),
        (pa.float64(), lambda: r.choice([1.5, float("nan"), float("inf"), -1.0, 0.0, 1e308])),
        (pa.float16(), lambda: r.uniform(0, 99)),
        (pa.decimal128(38, 2), lambda: Decimal(r.randrange(10**9)) / 100),
        (pa.decimal256(76, 5), lambda: Decimal(r.randrange(10**18))),
        *((kind, lambda: r.randrange(-far, far)) for kind in (times, times, times, pa.duration(unit))),
        (pa.date32(), lambda: r.randrange(-(2**31), 2**31)),
        (pa.time32("s"), lambda: r.randrange(86_400)),
        (pa.bool_(), lambda: r.random() < 0.5),
        (pa.list_(pa.string()), lambda: [cell(r)]),
        (pa.list_(times), lambda: [r.randrange(-far, far)]),
        (pa.struct([("a", pa.string()), ("b", times)]), lambda: {"a": cell(r), "b": r.randrange(9)}),
        (pa.map_(pa.string(), pa.string()), lambda: [("k", cell(r)), ("k", "x")]),
        (pa.month_day_nano_interval(), lambda: (1, 2, 3)),
        (pa.null(), lambda: None),
        (pa.timestamp("us", "UTC"), lambda: datetime(r.randrange(1, 9999), 1, 1, tzinfo=UTC)),
    ]
    kind, make = r.choice(kinds)
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    found = pa.array([None if r.random() < 0.15 else make() for _ in range(rows)], storage)
    if storage is not kind:
        return pa.ExtensionArray.from_storage(kind, found)
    encodable = pa.types.is_string(kind) or pa.types.is_timestamp(kind) or pa.types.is_binary(kind)
    return found.dictionary_encode() if encodable and r.random() < 0.3 else found


def parquet(r: random.Random) -> bytes:
    """Return a Parquet file; pa.ArrowException if Parquet cannot hold the table."""
    stream = io.BytesIO()
    pq.write_table(
        arrow_table(r),
        stream,
        compression=r.choice(["snappy", "gzip", "zstd", "none", "brotli", "lz4"]),
        use_dictionary=r.random() < 0.5,
        row_group_size=r.choice([1, 3, 1000]),
        data_page_version=r.choice(["1.0", "2.0"]),
        store_schema=r.random() < 0.7,
    )
    return stream.getvalue()


def from_corpus(r: random.Random) -> tuple[str, bytes]:
    """Return the suffix and the content of an entry of the corpus."""
    entry = r.choice(CORPUS)
    return entry["suffix"], entry["text"].encode(r.choice(["utf-8", "utf-8", "utf-16", "cp1252"]), "replace")
