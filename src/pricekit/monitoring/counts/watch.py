"""Counts of the rows that a prediction has priced, for `drift`: kept beside its windows until it is complete."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import numpy as np

from pricekit.errors import ConfigError, DataError
from pricekit.monitoring.counts.count import Priced, count, see
from pricekit.monitoring.counts.priced import (
    BusyError,
    PricedRows,
    add_to_file,
    check_priced_file,
    read_priced_rows,
    sketch_id,
)
from pricekit.monitoring.domain import Domain
from pricekit.monitoring.rows import ComparedRows
from pricekit.monitoring.sketch import Sketch
from pricekit.preprocess import Inputs, Preprocessor
from pricekit.storage import Address, Location, location_of
from pricekit.support.files import write_text
from pricekit.table import Table

MOST_OF_WINDOW = 1024
"""Of more rows of a window, so many that are drawn by chance are counted; each takes as long as a price."""

_WAIT_SECONDS = 30.0
"""How long a prediction waits for another process that adds to the same file, which takes milliseconds."""


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
        DataError: the file contains something else, or rows of another model.
    """

    def __init__(self, file: Path, sketch: Sketch, out: Location) -> None:
        self._file, self._sketch = file, sketch
        if isinstance(out, Path) and out.absolute() == file.absolute():
            raise ConfigError(
                f"{file} would have both the prices and the sketch; choose another file",
                parameters=("watch", "out"),
            )
        check_priced_file(file, sketch)
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

    def finish(self) -> None:
        """Add all counts to the file."""
        until = time.monotonic() + _WAIT_SECONDS
        while self._found is not None:
            try:
                add_to_file(self._file, self._found, self._sketch)
                self._found = None
            except BusyError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)


def _kept(folder: Path, windows: int) -> Path:
    return folder / f"counts-{windows:06d}.json"
