"""A table file that was looked at: its format, its encoding, its layout, and its rows as raw chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pricekit.table.formats.delimited import Layout, first_row, read_delimited
from pricekit.table.formats.dialect import delimiter_of
from pricekit.table.formats.encoding import Charset, charset_of, check_readable
from pricekit.table.formats.jsonlines import read_json_lines
from pricekit.table.formats.parquet import read_parquet
from pricekit.table.model import Notices, RawChunk, ReadWarnings, format_of
from pricekit.table.options import ReadOptions

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

    def chunks(self, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
        """Yield the rows, at most `rows` at a time; what is repaired is counted in `tally`."""
        if self.layout is not None:
            return read_delimited(self.path, self.layout, rows, read_warnings)
        if self.charset is not None:
            return read_json_lines(self.path, rows, self.charset, read_warnings)
        return read_parquet(self.path, rows, read_warnings)


def open_file(path: Path, read_options: ReadOptions, notices: Notices) -> OpenedFile:
    """Find out how a file is read; what was found and is not what its suffix says is told.

    Raises:
        DataError: the file is missing, of an unknown format, or no text where its suffix says so.
    """
    check_readable(path)
    kind = format_of(path)
    if kind == "parquet":
        return OpenedFile(path, kind)
    charset = charset_of(path, read_options.encoding, notices)
    if kind == "jsonl":
        return OpenedFile(path, kind, charset)
    delimiter = read_options.delimiter or delimiter_of(path, charset, _EXPECTED[kind], notices)
    return OpenedFile(path, kind, charset, Layout(charset, delimiter, read_options.names))
