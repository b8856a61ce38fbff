"""Records of finished files. A record is written after its file, so a file with a record is complete."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pricekit.errors import DataError
from pricekit.storage import Location, exists, read_text, size_of, write_text


class Record(BaseModel):
    """What is remembered of a file of prices.

    Attributes:
        table: what changes when the input file is replaced (`storage.fingerprint`).
        model: the digest of the model.
        request: everything else on which the prices depend: columns, ways of reading, interval, version.
        rows: the number of rows.
        bytes: the size of the file of prices.
    """

    model_config = ConfigDict(extra="ignore")

    table: list[Any]
    model: str
    request: dict[str, Any]
    rows: int
    bytes: int

    def covers(self, table: list[Any], model: str, request: dict[str, Any], target: Location) -> bool:
        """Return whether the file of prices is there, and pricing the table again would give the same."""
        same = (self.table, self.model, self.request) == (table, model, request)
        return same and exists(target) and size_of(target) == self.bytes


def read_record(file: Location) -> Record | None:
    """Return a record; None if it is missing or damaged, so that its file is priced again."""
    try:
        return Record.model_validate_json(read_text(file)) if exists(file) else None
    except (DataError, OSError, ValueError, ValidationError):
        return None


def write_record(file: Location, record: Record) -> None:
    """Write a record, atomically."""
    write_text(file, json.dumps(record.model_dump(), ensure_ascii=False, indent=1) + "\n")
