"""Counts of rows that a model has priced: the file that `predict` and `serve` extend, and `drift` reads."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from pricekit.errors import DataError, first_invalid_field
from pricekit.monitoring.counts.model import Counts, Strict
from pricekit.monitoring.sketch import Sketch
from pricekit.support.files import describe_failure, write_text
from pricekit.support.locks import owned

KIND: Literal["pricekit priced rows"] = "pricekit priced rows"
MOST_BYTES = 64 << 20
MOST_PREDICTIONS = 100
"""Predictions that a file remembers, so that one that is resumed adds its rows once."""

WAIT_SECONDS = 30.0
"""How long the last rows wait for another process that adds to the same file, which takes milliseconds."""
_PAUSE_SECONDS = 0.2

_START = f'{{"kind":"{KIND}"'.encode()

_Prediction = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class BusyError(DataError):
    """Another process adds to the file."""


class PricedRows(Strict):
    """Counts of rows that a model has priced.

    Attributes:
        kind: what the file is.
        version: of its format.
        sketch: the SHA-256 of the sketch of the training table in whose bins they are counted.
        rows: the number of rows that were priced; of many rows, some that are drawn by chance are counted.
        counts: of these.
        predictions: the last ones whose rows were added, by the name in their checkpoint; servers add none.
    """

    kind: Literal["pricekit priced rows"] = KIND
    version: Literal[1] = 1
    sketch: str = Field(pattern="[0-9a-f]{64}")
    rows: int = Field(ge=0, le=1 << 53)
    counts: Counts
    predictions: list[_Prediction] = Field(default_factory=list, max_length=MOST_PREDICTIONS)

    def plus(self, other: PricedRows, sketch: Sketch) -> PricedRows:
        """Return the counts of both; raises DataError if they do not belong to this sketch."""
        self.require(sketch)
        return PricedRows(
            sketch=self.sketch,
            rows=self.rows + other.rows,
            counts=self.counts.plus(other.counts, sketch),
            predictions=[*self.predictions, *other.predictions][-MOST_PREDICTIONS:],
        )

    def require(self, sketch: Sketch) -> None:
        """Raise DataError unless the rows were counted in the bins of this sketch."""
        if self.sketch != sketch_id(sketch):
            raise DataError(
                "the sketch of priced rows belongs to another model; compare it with the model that priced them, and "
                "give each model a sketch of its own",
                parameters=("model",),
            )
        if not self.counts.fits(sketch):
            raise DataError("the sketch of priced rows is damaged: its bins are not those of the model")

    def to_text(self) -> str:
        """Return the content of the file."""
        return self.model_dump_json() + "\n"


def sketch_id(sketch: Sketch) -> str:
    """Return the SHA-256 of a sketch."""
    return hashlib.sha256(sketch.model_dump_json(exclude_defaults=True).encode()).hexdigest()


def is_priced_rows(path: Path) -> bool:
    """Return whether a file begins like one of `PricedRows`; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(len(_START)) == _START
    except OSError:
        return False


def read_priced_rows(path: Path) -> PricedRows:
    """Read a file of priced rows; raises DataError if it is none, or damaged."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise DataError(f"{path} is no sketch of priced rows: it has more than {MOST_BYTES >> 20} MB")
        return PricedRows.model_validate_json(content)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {describe_failure(error)}") from None
    except (ValidationError, ValueError) as error:
        raise DataError(
            f"{path} is no sketch of priced rows, or it is damaged{first_invalid_field(error)}; choose another file"
        ) from None


def check_priced_file(path: Path, sketch: Sketch) -> None:
    """Raise DataError if a file exists and rows that are counted in the bins of this sketch cannot be added to it."""
    if path.exists() or path.is_symlink():
        read_priced_rows(path).require(sketch)


def add_when_free(path: Path, added: PricedRows, sketch: Sketch, until: float) -> None:
    """Add rows to a file as `add_to_file` does, but wait while another process adds to it.

    Args:
        path: of the file.
        added: the rows.
        sketch: of the training table.
        until: the time, as of `time.monotonic`, after which a BusyError is raised.
    """
    while True:
        try:
            return add_to_file(path, added, sketch)
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)


def add_to_file(path: Path, added: PricedRows, sketch: Sketch) -> None:
    """Add rows to a file, which is created if it does not exist; one process at a time does so.

    The rows of a prediction that the file remembers are not added again.

    Raises:
        BusyError: another process adds to it.
        DataError: the file contains something else, or rows of another model, or cannot be written.
    """
    with owned(path, "sketch", _busy):
        found = added
        if path.exists():
            before = read_priced_rows(path)
            before.require(sketch)
            if not set(added.predictions).isdisjoint(before.predictions):
                return
            found = before.plus(added, sketch)
        try:
            write_text(path, found.to_text())
        except OSError as error:
            raise DataError(f"{path} cannot be written: {describe_failure(error)}") from None


def _busy(message: str, **facts: Any) -> BusyError:
    return BusyError(message, **{**facts, "parameters": ("watch",)})
