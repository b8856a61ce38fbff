"""The formats of tables, which the suffixes of files name."""

from __future__ import annotations

from pathlib import Path, PurePath

from pricekit.errors import DataError
from pricekit.io.compression import NAMES, PACKED, Named, member_of, suffixes_of
from pricekit.io.storage import Location

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".orc": "orc",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
    ".xlsx": "workbook",
    ".xlsm": "workbook",
    ".xlsb": "workbook",
    ".xls": "workbook",
    ".ods": "workbook",
}
WRITTEN = ("csv", "tsv", "txt", "jsonl", "parquet")
"""The formats of outputs."""

_ADVICE = dict.fromkeys((".7z", ".tar", ".tgz", ".rar"), "Unpack it first.")
_ADVICE[".json"] = "Write it as JSON lines, one object per line, with the suffix .jsonl."


def named_format(path: Named) -> str | None:
    """Return the format that a path's suffix names: such as csv, parquet or workbook; None for others.

    It is "zip" for an archive whose table names the format.

    Example:
        >>> named_format(Path("new.tsv.gz")), named_format(Path("new.zip")), named_format(Path("new.parquet.gz"))
        ('tsv', 'zip', None)
    """
    suffix, compression = suffixes_of(path)
    if compression and suffix not in PACKED:
        return "zip" if compression == ".zip" else None
    return FORMATS.get(suffix)


def format_of(path: Location) -> str:
    """Return what `named_format` does; raises DataError instead of returning None."""
    if kind := named_format(path):
        return kind
    suffix, compression = suffixes_of(path)
    advice = _ADVICE.get(suffix, "Rename the file to the suffix of its format.")
    if compression and suffix in FORMATS:
        advice = f"Only {', '.join(PACKED)} are read so; the others are compressed inside. Unpack it first."
    elif compression and not suffix:
        advice = f"Name its format, too, such as .csv{compression}."
    raise DataError(
        f"{path}: the suffix {suffix + compression or '(none)'!r} names no supported format: {', '.join(FORMATS)}, or "
        f"a text with {', '.join(NAMES)}. {advice}",
        parameters=("table",),
        suffix=path.suffix,
        candidates=list(FORMATS),
    )


def format_inside(path: Path) -> str:
    """Return the format of an existing file, of an archive that of its table; raises DataError, OSError."""
    return format_of(Path(member_of(path)) if suffixes_of(path)[1] == ".zip" else path)


def output_name(name: str) -> str:
    """Return the name of an output for an input: the same, or with ".csv" after a format that is not written.

    Example:
        >>> output_name("day=1/new.parquet"), output_name("new.orc")
        ('day=1/new.parquet', 'new.orc.csv')
    """
    return name if named_format(PurePath(name)) in WRITTEN else f"{name}.csv"
