"""A table file that was looked at: its format, its encoding, its layout, and its rows as raw chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pricekit.table.delimited import Layout, first_row, read_delimited
from pricekit.table.dialect import delimiter_of
from pricekit.table.encoding import Charset, charset_of, check_readable
from pricekit.table.jsonlines import read_json_lines
from pricekit.table.model import Notices, RawChunk, Tally, format_of
from pricekit.table.parquet import read_parquet
from pricekit.table.reading import Reading

_EXPECTED = {"csv": ",", "tsv": "\t", "txt": None}


@dataclass(frozen=True)
class OpenedFile:
    """A table file and how it is read.

    Attributes:
        path: the file.
        kind: its format, as of `format_of`.
        charset: its encoding; None of Parquet.
        layout: None but of a delimited file.
    """

    path: Path
    kind: str
    charset: Charset | None = None
    layout: Layout | None = None

    def first_row(self) -> list[str]:
        """Return the fields of the first row of a delimited file, be they a header or not; of others nothing."""
        return [] if self.layout is None else first_row(self.path, self.layout)

    def chunks(self, rows: int, tally: Tally) -> Iterator[RawChunk]:
        """Yield the rows, at most `rows` at a time; what is repaired is counted in `tally`."""
        if self.layout is not None:
            return read_delimited(self.path, self.layout, rows, tally)
        if self.charset is not None:
            return read_json_lines(self.path, rows, self.charset, tally)
        return read_parquet(self.path, rows, tally)


def open_file(path: Path, reading: Reading, notices: Notices) -> OpenedFile:
    """Find out how a file is read; what was found and is not what its suffix says is told.

    Raises:
        DataError: the file is missing, of an unknown format, or no text where its suffix says so.
    """
    check_readable(path)
    kind = format_of(path)
    if kind == "parquet":
        return OpenedFile(path, kind)
    charset = charset_of(path, reading.encoding, notices)
    if kind == "jsonl":
        return OpenedFile(path, kind, charset)
    delimiter = reading.delimiter or delimiter_of(path, charset, _EXPECTED[kind], notices)
    return OpenedFile(path, kind, charset, Layout(charset, delimiter, reading.names))
