"""The files of a folder, and where their prices go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pricekit.errors import DataError
from pricekit.storage import Address, Location, is_folder
from pricekit.table import table_files
from pricekit.table.many_files import fixed_part, warn_of_other_formats
from pricekit.table.table import format_of

RECORDS = "_pricekit"
"""The folder of records in an output folder. Readers of tables leave out names that begin with "_"."""


@dataclass(frozen=True)
class Part:
    """One file of a folder.

    Attributes:
        source: the table.
        target: the file for its prices, which has the same name and place below its folder.
        record: the file for its record.
        name: both names, relative to the folders, such as "day=1/products.csv".
    """

    source: Location
    target: Location
    record: Location
    name: str


def parts_of(source: Location, out: Location) -> list[Part]:
    """Return the parts of a folder of Parquet files or of a pattern, sorted by name.

    Raises:
        DataError: there are no files, or the outputs would be among the inputs.
    """
    fixed = fixed_part(source)
    if _contains(fixed, out):
        raise DataError(
            f"the folder of prices, {out}, is inside of {fixed}, whose files are priced. Name another folder.",
            parameters=("out",),
            path=str(out),
        )
    files = table_files(source)
    warn_of_other_formats(source)
    return [_part(file, fixed, out) for file in files]


def is_folder_output(out: Location, source: Location) -> bool:
    """Return whether prices go to a folder: the output has no suffix of a format, and the table is several files."""
    if isinstance(out, Address) and out.is_stream:
        return False
    try:
        format_of(out)
    except DataError:
        return fixed_part(source) != source or is_folder(source)
    return is_folder(out)


def _part(file: Location, fixed: Location, out: Location) -> Part:
    name = str(file)[len(str(fixed)) :].lstrip("/\\").replace("\\", "/")
    return Part(file, out / name, out / RECORDS / f"{name}.json", name)


def _contains(folder: Location, other: Location) -> bool:
    if isinstance(folder, Path) and isinstance(other, Path):
        return other.resolve().is_relative_to(folder.resolve())
    return str(other) == str(folder) or str(other).startswith(f"{str(folder).rstrip('/')}/")
