"""Counts of the rows that a prediction has priced, for `drift`: kept beside its windows until it is complete."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

import numpy as np

from pricekit.errors import ConfigError, DataError, PricekitError
from pricekit.monitoring.counts.count import Priced, count, see
from pricekit.monitoring.counts.priced import (
    WAIT_SECONDS,
    PricedRows,
    add_when_free,
    check_priced_file,
    read_priced_rows,
    sketch_id,
)
from pricekit.monitoring.domain import Domain
from pricekit.monitoring.rows import ComparedRows
from pricekit.monitoring.sketch import Sketch
from pricekit.preprocess import Inputs, Preprocessor
from pricekit.storage import Address, Location, location_of
from pricekit.support.files import describe_failure, temporary_path, write_text
from pricekit.support.locks import existing
from pricekit.table import Table

MOST_OF_WINDOW = 1024
"""Of more rows of a window, so many that are drawn by chance are counted; each takes as long as a price."""


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
    rows = ComparedRows(table.take(chosen), len(table), _missing(sketch.others, table))
    priced = Priced(inputs.features[chosen], inputs.tokens.take(chosen).ids, prices[chosen])
    seen = see(sketch, Domain(sketch.vector, sketch.rows), rows, preprocessor.features.names, priced)
    counts = count(sketch, seen, preprocessor, rng.random(len(chosen)) < 0.5)
    return PricedRows(sketch=sketch_id(sketch), rows=len(table), counts=counts)


def _missing(others: list[str], table: Table) -> tuple[str, ...]:
    return tuple(name for name in others if name not in table.frame)


def watch_file(given: object) -> Path:
    """Return the local file of a sketch that a user gave; raises ConfigError for an address."""
    found = location_of(given, "watch")
    if isinstance(found, Address):
        raise ConfigError(
            f"the sketch {found} is at an address; expected a local file, which predictions extend",
            parameters=("watch",),
        )
    return found


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
        self._found: PricedRows | None = None

    def resume(self, folder: Path, windows: int) -> bool:
        """Continue with the counts of so many windows; False if the folder lacks them."""
        try:
            self._found = read_priced_rows(_kept(folder, windows))
            self._found.require(self._sketch)
        except DataError:
            self._found = None
        return self._found is not None

    def add(self, counts: PricedRows, folder: Path, windows: int) -> None:
        """Add the counts of a window, and keep the sum in a folder: the counts of so many windows."""
        self._found = counts if self._found is None else self._found.plus(counts, self._sketch)
        write_text(_kept(folder, windows), self._found.to_text())
        _kept(folder, windows - 2).unlink(missing_ok=True)

    def finish(self, prediction: str) -> None:
        """Add all counts to the file once the prices are complete, unless it has those of this prediction already.

        Args:
            prediction: its name, as of `PredictionCheckpoint`.

        Raises:
            DataError: the file cannot be read or written, or other processes add to it for 30 seconds.
        """
        if self._found is None:
            return
        added = self._found.model_copy(update={"predictions": [prediction]})
        try:
            add_when_free(self._file, added, self._sketch, time.monotonic() + WAIT_SECONDS)
        except (PricekitError, OSError) as error:
            raise self._not_added(error) from error
        self._found = None

    def _not_added(self, error: PricekitError | OSError) -> DataError:
        reason = describe_failure(error) if isinstance(error, OSError) else str(error)
        stream = isinstance(self._out, Address) and self._out.is_stream
        where = "written to standard output" if stream else f"in {self._out}"
        advice = "" if stream else ". Then resume the prediction, which adds them"
        return DataError(
            f"all prices are complete, {where}, but their rows were not added to the sketch {self._file}: "
            f"{reason}{advice}",
            parameters=() if stream else ("resume",),
        )


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
