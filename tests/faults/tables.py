"""Mutated and generated tables: CSV, TSV, TXT, JSON lines, Parquet and Arrow frames, read in this process."""

from __future__ import annotations

import logging
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pricekit as pk
from pricekit.errors import PricekitError
from pricekit.table import (
    Columns,
    PredictionWriter,
    ReadOptions,
    Table,
    iter_table,
    read_table,
    split_usable,
    write_rejected,
)
from tests.faults import table_sources as sources
from tests.faults.campaign import Case

TRIALS, SHORT = 20_000, 1_000
REQUIREMENT = "no foreign exception, no hang, rows in = used + set aside = out"
SECONDS = 30

ROLES = (
    None,
    Columns(),
    Columns(("catalog_content", "sample_id"), "price", "sample_id", True),
    Columns(("catalog_content",), None, None),
)


def trial(case: Case) -> str:
    """Read one table in every way."""
    logging.getLogger("pricekit").setLevel(logging.CRITICAL)
    r = case.random
    made = make(r, case.folder)
    if made is None:
        return "not a table"
    source, rows = made
    limit = r.choice([None, None, None, 1, 7])
    try:
        options = _options(r, isinstance(source, Path))
        read_options = ReadOptions(**options)
    except PricekitError:
        return "bad option"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the codecs unicode_escape and the like
        outcomes = {_read(case, source, rows, columns, limit, read_options) for columns in ROLES}
        if case.number % 10 == 0:
            outcomes.add(_checked(source, {**options, **({"limit": limit} if limit else {})}))
    return "read" if "read" in outcomes else "refused"


def make(r: random.Random, folder: Path) -> tuple[Any, int | None] | None:
    """Return a path or a frame, and the number of its rows if it is known; None if Arrow cannot make it."""
    suffix = r.choice(["csv", "csv", "tsv", "txt", "jsonl", "jsonl", "parquet", "parquet", "frame"])
    try:
        if suffix == "frame":
            frame = sources.arrow_table(r)
            return frame, len(frame)
        if r.random() < 0.1:
            suffix, content = sources.from_corpus(r)
        elif suffix == "parquet":
            content = sources.parquet(r)
        else:
            content = sources.json_lines(r) if suffix == "jsonl" else sources.delimited(r, suffix)
    except (pa.ArrowException, OverflowError, OSError):
        return None
    whole = r.random() < 0.4
    rows = (
        pq.ParquetFile(pa.BufferReader(content)).metadata.num_rows if suffix == "parquet" and whole else None
    )
    path = folder / f"table.{suffix}"
    path.write_bytes(content if whole else sources.mutate(r, content))
    return path, rows


def _options(r: random.Random, of_file: bool) -> dict[str, str]:
    choices = {"decimal": [".", ",", "x"], "currency": ["EUR", "$", "USD", "nope", "INR"]}
    if of_file:
        choices["encoding"] = [
            *sources.ENCODINGS,
            "nonsense",
            "rot13",
            "base64",
            "idna",
            "unicode_escape",
            "ascii",
            "",
        ]
        choices["delimiter"] = [",", ";", "tab", "comma", " ", "x", "é", ":", "\r", "¦", ".", "-"]
    return {name: r.choice(values) for name, values in choices.items() if r.random() < 0.15}


def _read(
    case: Case,
    source: Any,
    rows: int | None,
    columns: Columns | None,
    limit: int | None,
    read_options: ReadOptions,
) -> str:
    shared: dict[str, Any] = {"limit": limit, "read_options": read_options, "notices": lambda _: None}
    try:
        table = read_table(source, columns, **shared)
    except PricekitError:
        return "refused"
    if rows is not None:
        assert len(table) == min(rows, limit or rows), (len(table), rows, limit)
    usable, rejected = split_usable(table)
    assert len(usable) + len(rejected) == len(table) == len(table.frame) == len(table.ids)
    write_rejected(case.folder / "rejected.parquet", [rejected])
    try:
        chunks = list(iter_table(source, columns, rows=case.random.choice([1, 3, 8192]), **shared))
    except PricekitError:  # JSON lines may have other columns in later chunks; ids may have two types
        return "refused"
    assert sum(map(len, chunks)) == len(table), (list(map(len, chunks)), len(table))
    _write(case, chunks)
    return "read"


def _write(case: Case, chunks: list[Table]) -> None:
    """Write one price per row, and read them again."""
    out = case.folder / f"out.{case.random.choice(['csv', 'tsv', 'jsonl', 'parquet'])}"
    name = str(chunks[0].ids.name)
    if name == "price":
        return
    with PredictionWriter(out) as writer:
        for chunk in chunks:
            writer.write(chunk.ids, np.ones(len(chunk), np.float32))
    found = iter_table(out, Columns((name,), "price", None), notices=lambda _: None)
    assert sum(map(len, found)) == sum(map(len, chunks)), out.suffix


def _checked(source: Any, options: dict[str, Any]) -> str:
    try:
        pk.check(source, **options)
    except PricekitError:
        return "refused"
    return "read"
