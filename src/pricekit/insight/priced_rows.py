"""Counts of rows that a model has priced: the file that `predict` and `serve` extend, and `drift` reads."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from pricekit.errors import ConfigError, DataError, PricekitError, first_invalid_field
from pricekit.features.preprocess import Inputs, Preprocessor
from pricekit.insight.counts import ComparedRows, Counts, Priced, count, see
from pricekit.insight.domain import Domain
from pricekit.insight.sketch import Sketch
from pricekit.io.files import describe_failure, temporary_path, write_text
from pricekit.io.locks import existing, owned
from pricekit.io.packing import Strict
from pricekit.io.storage import Address, Location, location_of
from pricekit.table import Table

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
        rows: the number of rows that were priced; of many rows, a random sample is counted.
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
    except ValueError as error:
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

    def busy(message: str, *, path: str, **_: object) -> BusyError:
        return BusyError(message, parameters=("watch",), path=path)

    with owned(path, "sketch", busy):
        total = added
        if path.exists():
            before = read_priced_rows(path)
            before.require(sketch)
            if not set(added.predictions).isdisjoint(before.predictions):
                return
            total = before.plus(added, sketch)
        try:
            write_text(path, total.to_text())
        except OSError as error:
            raise DataError(f"{path} cannot be written: {describe_failure(error)}") from None


MOST_OF_WINDOW = 1024
"""Larger windows are sampled to this number of rows, because counting a row takes as long as a price."""


def count_priced(
    sketch: Sketch, preprocessor: Preprocessor, table: Table, inputs: Inputs, prices: np.ndarray
) -> PricedRows:
    """Return the counts of rows, or of some of many.

    Args:
        sketch: of the training table.
        preprocessor: of the model's first member.
        table: N rows, at least one.
        inputs: what the preprocessor has made of them.
        prices: float32 (N,).
    """
    rng = np.random.default_rng(zlib.crc32(table.text.iloc[0].encode()))
    chosen = np.arange(len(table))
    if len(table) > MOST_OF_WINDOW:
        chosen = np.sort(rng.choice(len(table), MOST_OF_WINDOW, replace=False))
    missing = tuple(name for name in sketch.others if name not in table.frame)
    rows = ComparedRows(table.take(chosen), len(table), missing)
    priced = Priced(inputs.features[chosen], inputs.tokens.take(chosen).ids, prices[chosen])
    seen = see(sketch, Domain(sketch.vector, sketch.rows), rows, preprocessor.features.names, priced)
    counts = count(sketch, seen, preprocessor, rng.random(len(chosen)) < 0.5)
    return PricedRows(sketch=sketch_id(sketch), rows=len(table), counts=counts)


def watch_file(file: object) -> Path:
    """Return the local file of a sketch that a user gave; raises ConfigError for an address."""
    location = location_of(file, "watch")
    if isinstance(location, Address):
        raise ConfigError(
            f"the sketch {location} is at an address; expected a local file, which predictions extend",
            parameters=("watch",),
        )
    return location


class Watch:
    """The counts of a prediction: with each finished window, and in the file at the end.

    A prediction that is interrupted has added nothing to the file, and one that is resumed adds each row once.

    Args:
        file: to which the rows are added.
        sketch: of the training table.
        out: where the prices go.

    Raises:
        ConfigError: the file is the output.
        DataError: the file contains something else, or rows of another model, or cannot be written.
    """

    def __init__(self, file: Path, sketch: Sketch, out: Location) -> None:
        self._file, self._sketch, self._out = file, sketch, out
        if isinstance(out, Path) and out.absolute() == file.absolute():
            raise ConfigError(
                f"{file} would have both the prices and the sketch; choose another file",
                parameters=("watch", "out"),
            )
        check_priced_file(file, sketch)
        _check_place(file)
        self._priced: PricedRows | None = None

    def resume(self, folder: Path, windows: int) -> bool:
        """Continue with the counts of a number of windows; False if the folder lacks them."""
        try:
            self._priced = read_priced_rows(_kept(folder, windows))
            self._priced.require(self._sketch)
        except DataError:
            self._priced = None
        return self._priced is not None

    def add(self, counts: PricedRows, folder: Path, windows: int) -> None:
        """Add the counts of a window, and keep the sum of the windows so far in a folder."""
        self._priced = counts if self._priced is None else self._priced.plus(counts, self._sketch)
        write_text(_kept(folder, windows), self._priced.to_text())
        _kept(folder, windows - 2).unlink(missing_ok=True)

    def finish(self, prediction: str) -> None:
        """Add all counts to the file once the prices are complete, unless it has those of this prediction already.

        Args:
            prediction: its name, as of `PredictionCheckpoint`.

        Raises:
            DataError: the file cannot be read or written, or other processes add to it for 30 seconds.
        """
        if self._priced is None:
            return
        added = self._priced.model_copy(update={"predictions": [prediction]})
        try:
            add_when_free(self._file, added, self._sketch, time.monotonic() + WAIT_SECONDS)
        except (PricekitError, OSError) as error:
            reason = describe_failure(error) if isinstance(error, OSError) else str(error)
            stream = isinstance(self._out, Address) and self._out.is_stream
            where = "written to standard output" if stream else f"in {self._out}"
            advice = "" if stream else ". Then resume the prediction, which adds them"
            raise DataError(
                f"all prices are complete, {where}, but their rows were not added to the sketch {self._file}: "
                f"{reason}{advice}",
                parameters=() if stream else ("resume",),
            ) from error
        self._priced = None


def _check_place(file: Path) -> None:
    """Raise DataError if a file cannot be written; its folder is created for a moment if it is missing."""
    place = Path(os.path.realpath(file))
    try:
        with existing(place.parent):
            place.parent.mkdir(parents=True, exist_ok=True)
            attempt = temporary_path(place)
            attempt.touch()
            attempt.unlink()
    except OSError as error:
        no_folder = isinstance(error, FileExistsError | NotADirectoryError)
        reason = f"{place.parent} is no folder" if no_folder else error.strerror
        raise DataError(
            f"the sketch {file} cannot be written: {reason}; choose a file in a folder that can be written",
            parameters=("watch",),
        ) from error


def _kept(folder: Path, windows: int) -> Path:
    return folder / f"counts-{windows:06d}.json"
