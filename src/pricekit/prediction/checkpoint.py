"""What a prediction has finished, kept beside its output until that is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from pricekit.errors import DataError
from pricekit.files import behind_link, write_text
from pricekit.table import PredictionWriter, read_predictions

_PART = "part-" + 6 * "[0-9]" + ".parquet"


class PredictionCheckpoint:
    """Windows of ids and prices, a Parquet file each, in a hidden folder beside the output.

    Used as a context manager, which keeps other predictions out of the folder by a lock in it. It is gone afterwards
    unless parts are left in it.

    Args:
        out: the output that they will become.
        made_from: what they depend on, such as model, table and columns, as JSON values by name. Parts of
            another prediction are not gone on with.

    Raises:
        DataError: the folder cannot be written, or another prediction has it.
    """

    def __init__(self, out: Path, made_from: dict[str, object]) -> None:
        self.out = out
        whole = behind_link(out)
        self.folder = whole.with_name(f".{whole.name}.parts")
        self.made_from: dict[str, object] = json.loads(json.dumps(made_from))
        self.count = 0
        self._lock = FileLock(self.folder / "lock", timeout=0, fallback_to_soft=False)

    def __enter__(self) -> Self:
        if self.folder.is_symlink():
            raise DataError(f"{self.folder} is a link, where unfinished predictions are kept; delete it.")
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.out} cannot be written: {error.strerror or error}.") from None
        try:
            self._lock.acquire()
        except Timeout:
            raise DataError(
                f"another prediction is writing {self.out} now; wait for it, or name another file with --out."
            ) from None
        except (OSError, NotImplementedError):
            pass  # a disk without locks: then nobody can tell
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.folder.is_dir() and not any(self.folder.glob(_PART)):
                self._clear()
                with suppress(OSError):  # while it is held: whoever waits for this file sees that it is gone
                    Path(self._lock.lock_file).unlink(missing_ok=True)
                    self.folder.rmdir()
        finally:
            self._lock.release()

    def kept(self) -> tuple[int, list[str]]:
        """Return how many windows an earlier prediction left, and by what it was another one than this."""
        whole = 0
        while _is_whole(self._part(whole)):
            whole += 1
        key = self.folder / "key.json"
        try:
            found = json.loads(key.read_text("utf-8")) if key.is_file() else {}
        except OSError as error:
            raise DataError(f"{key} cannot be read: {error.strerror or error}.") from None
        except ValueError:
            found = {}
        known = found if isinstance(found, dict) else {}
        return whole, [
            name for name, value in self.made_from.items() if name not in known or known[name] != value
        ]

    def resume(self, windows: int) -> None:
        """Go on after so many windows of those that are there."""
        self.count = windows

    def start(self) -> None:
        """Delete what an earlier prediction left, and begin."""
        self._clear()
        self.count = 0
        try:
            write_text(self.folder / "key.json", json.dumps(self.made_from))
        except OSError as error:
            raise DataError(f"{self.out} cannot be written: {error.strerror or error}.") from None

    def add(self, ids: pd.Series, price: np.ndarray) -> None:
        """Keep a window: ids (N,) and prices, float (N,)."""
        with PredictionWriter(self._part(self.count)) as writer:
            writer.write(ids, price)
        self.count += 1

    def __iter__(self) -> Iterator[tuple[pd.Series, np.ndarray]]:
        """Yield ids and prices, float32, of all windows in order; ids of several types are text."""
        parts = [self._part(number) for number in range(self.count)]
        types = {pq.read_schema(part).field(0).type for part in parts}
        for part in parts:
            ids, price = read_predictions(part, text_ids=len(types) > 1)
            yield ids, price

    def end(self) -> None:
        """Delete the parts, which the output holds now."""
        self._clear()
        self.count = 0

    def _clear(self) -> None:
        for path in [*self.folder.glob(_PART), *self.folder.glob(".*.tmp"), self.folder / "key.json"]:
            path.unlink(missing_ok=True)

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.parquet"


def _is_whole(part: Path) -> bool:
    """Say whether a part is there, as it was written: a damaged one and those after it are priced again."""
    try:
        return bool(pq.read_metadata(part).num_rows)
    except (OSError, pa.ArrowException):
        return False
