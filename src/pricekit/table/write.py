"""Predictions and other frames out, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pricekit.errors import DataError
from pricekit.files import LONGEST_NAME, behind_link, write_atomically
from pricekit.table.columns import as_frame, as_text, flat
from pricekit.table.model import format_of
from pricekit.table.sinks import open_sink

_NO_IDS = pd.Series([], dtype="str", name="id")


def check_output(path: Path, read: Sequence[Path] = ()) -> None:
    """Say before the work what `write_frame` and `PredictionWriter` would only find after it.

    Args:
        path: the file to write.
        read: the tables that it is computed from.

    Raises:
        DataError: no file, an unknown suffix, a path in a folder that is not there, too long a name, or one of
            the tables.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in str(path)):  # bytes that are not UTF-8
        raise DataError(f"{os.fsencode(path)!r} is no name in UTF-8. Name another file to write.")
    with _explained(path):
        is_file = path.is_file() or not path.exists()
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        whole = behind_link(path)
        there = whole.parent.is_dir()
    if not is_file:
        raise DataError(f"{path} is {kind}. Give the path of the file to write.")
    try:
        format_of(path)
    except DataError:
        raise DataError(
            f"{path}: the format of the output is told from its suffix, and {path.suffix or 'none'!r} cannot be "
            "written. Name it .csv, .tsv, .parquet or .jsonl."
        ) from None
    if not there:
        raise DataError(f"{path} cannot be written: there is no folder {whole.parent}. Create it.")
    if len(os.fsencode(whole.name)) > LONGEST_NAME:
        raise DataError(
            f"{path} cannot be written: its name is too long. At most {LONGEST_NAME} bytes are expected."
        )
    if path.exists() and any(table.exists() and path.samefile(table) for table in read):
        raise DataError(f"{path} is the table itself; name another file with --out")


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame without its index; suffix, formats and errors as of `PredictionWriter`.

    Raises:
        DataError: what `check_output` raises, a column name twice, or the system refuses to write.
    """
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: two columns would be called {twice[0]!r}. Rename one of them.")
    with _FrameWriter(path) as writer:
        writer.write(frame)


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """`write_atomically`, with a DataError that says which file could not be written."""
    with _explained(path), write_atomically(path) as temporary:
        yield temporary


class PredictionWriter:
    """Writes a column of ids and the float column `price`, a chunk at a time, in the order given.

    Used as a context manager. The suffix decides the format: .csv, .tsv, .parquet, .pq, .jsonl or
    .ndjson. The file appears under its name when the block ends well, and not at all otherwise.
    The id column is called as the first ids written are, "id" where they have no name.

    Args:
        path: the file to write; an existing one is replaced at the end.

    Raises:
        DataError: what `check_output` raises, ids called "price", or the system refuses to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._frames = _FrameWriter(self._path)
        self._id_name = ""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._frames)
            stack.push(self._without_rows)
            self._stack = stack.pop_all()
        return self

    def write(self, ids: pd.Series, price: np.ndarray, more: Mapping[str, np.ndarray] | None = None) -> None:
        """Append rows: ids (N,), prices and more prices by column, float (N,), in the table's currency."""
        if len(ids) != len(price):
            raise ValueError(f"{len(ids)} ids and {len(price)} prices; one price for each id is expected")
        self._id_name = self._id_name or str(ids.name or "id")
        prices = {"price": price, **(more or {})}
        if self._id_name in prices:
            raise DataError(
                f"{self._path}: the id column cannot be called '{self._id_name}', the name of what is predicted. "
                "Name another column with --id."
            )
        if format_of(self._path) == "parquet":
            prices = {name: values.astype(np.float64) for name, values in prices.items()}
        self._frames.write(pd.DataFrame({self._id_name: ids.array, **prices}))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _without_rows(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._id_name:
            self.write(_NO_IDS, np.empty(0))


def read_predictions(path: Path, *, text_ids: bool = False) -> tuple[pd.Series, np.ndarray]:
    """Return the ids and the prices, float32 (N,), of a Parquet file that a `PredictionWriter` has written.

    Args:
        path: the file.
        text_ids: make the ids text, whatever they are.
    """
    table = pq.read_table(path)
    name, ids = table.column_names[0], flat(table.column(0))
    frame = as_frame({name: as_text(ids) if text_ids else ids})
    return frame[name], table.column("price").to_numpy().astype(np.float32)


class _FrameWriter:
    """Writes frames of the same columns below each other; of the kind of context manager described above."""

    def __init__(self, path: Path) -> None:
        check_output(path)
        self._path = path

    def __enter__(self) -> Self:
        with _explained(self._path), ExitStack() as stack:
            temporary = stack.enter_context(write_atomically(self._path))
            temporary.touch()  # what cannot be written is said now, not after an hour of predicting
            self._sink = open_sink(temporary, format_of(self._path))
            stack.callback(self._sink.close)
            self._stack = stack.pop_all()
        return self

    def write(self, frame: pd.DataFrame) -> None:
        with _explained(self._path):
            self._sink.write(frame)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The sink is closed first; a failure there, too, reaches write_atomically, which removes the file.
        # What failed inside the block is not raised here but goes on from there, unexplained.
        with _explained(self._path):
            self._stack.__exit__(kind, error, trace)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say which file could not be written, where the system only says why."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from None
