"""The finished windows of a prediction, stored next to its output until the output is complete."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pricekit.errors import DataError
from pricekit.support.digests import tells_damage
from pricekit.support.files import behind_link, write_text
from pricekit.support.log import logger
from pricekit.table import PredictionWriter, read_predictions

_WINDOWS = "part-" + 6 * "[0-9]" + "*.parquet"
_NAME = re.compile(r"part-(?P<number>\d{6})-(?P<digest>[0-9a-f]{16})\.parquet")
"""The name of a finished window ends with the beginning of its SHA-256."""
_PREDICTION = "prediction"
"""What key.json calls the name of the prediction."""


class PredictionCheckpoint:
    """Windows of ids and prices, one Parquet file each, in a hidden folder next to the output.

    As a context manager, it deletes the folder at the end unless it contains windows. Whoever uses it owns the output
    (`pricekit.support.locks`).

    Args:
        out: the output file.
        key: everything that the windows depend on, such as model, table and columns, as JSON values by name. Windows
            with a different key are not used.

    Attributes:
        prediction: a name for this prediction, which those that continue it have, too: 32 hexadecimal digits.

    Raises:
        DataError: the folder cannot be written.
    """

    def __init__(self, out: Path, key: dict[str, object]) -> None:
        self.out = out
        target = behind_link(out)
        self.folder = target.with_name(f".{target.name}.parts")
        self.key: dict[str, object] = json.loads(json.dumps(key))
        self.windows: list[Path] = []
        self._found: list[Path] = []
        self.prediction, self._before = secrets.token_hex(16), ""

    @property
    def count(self) -> int:
        """The number of finished windows."""
        return len(self.windows)

    def __enter__(self) -> Self:
        if self.folder.is_symlink():
            raise DataError(
                f"{self.folder}, the folder of unfinished predictions, is a link; delete the link."
            )
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.out} cannot be written: {error.strerror or error}.") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.folder.is_dir() and not any(self.folder.glob(_WINDOWS)):
            self.clear()
            with suppress(OSError):
                self.folder.rmdir()

    def found(self) -> tuple[int, list[str]]:
        """Return the number of windows of an earlier prediction, and the names of the key's values that differ."""
        self._found = self._intact_windows()
        file = self.folder / "key.json"
        try:
            saved = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror or error}.") from None
        except ValueError:
            saved = {}
        known = saved if isinstance(saved, dict) else {}
        self._before = str(known.get(_PREDICTION, ""))
        return len(self._found), [name for name, value in self.key.items() if known.get(name, ...) != value]

    def keep_name(self) -> None:
        """Continue the prediction that was found, if it has a name, so that its rows are added to a sketch once."""
        if re.fullmatch("[0-9a-f]{32}", self._before):
            self.prediction = self._before

    def resume(self, windows: int) -> None:
        """Continue after the first `windows` windows of `found`."""
        self.windows = self._found[:windows]

    def start(self) -> None:
        """Delete the windows of an earlier prediction, and write the key."""
        self.clear()
        try:
            write_text(self.folder / "key.json", json.dumps(self.key | {_PREDICTION: self.prediction}))
        except OSError as error:
            raise DataError(f"{self.out} cannot be written: {error.strerror or error}.") from None

    def add(self, ids: pd.Series, price: np.ndarray) -> None:
        """Store a window: ids (N,) and prices, float (N,)."""
        written = self.folder / f"part-{self.count:06d}.parquet"
        with PredictionWriter(written) as writer:
            writer.write(ids, price)
        self.windows.append(written.replace(written.with_stem(f"{written.stem}-{_digest(written)}")))

    def __iter__(self) -> Iterator[tuple[pd.Series, np.ndarray]]:
        """Yield ids and prices, float32, of all windows in order; ids of several types become text."""
        types = {pq.read_schema(window).field(0).type for window in self.windows}
        for window in self.windows:
            yield read_predictions(window, text_ids=len(types) > 1)

    def clear(self) -> None:
        """Delete all windows, their counts and the key."""
        names = (_WINDOWS, "counts-*.json", ".*.tmp", "key.json")
        for path in [path for name in names for path in self.folder.glob(name)]:
            path.unlink(missing_ok=True)
        self.windows = []

    def _intact_windows(self) -> list[Path]:
        """Return the windows before the first one that is missing or damaged; that and later ones are priced again."""
        names = sorted(self.folder.glob(_WINDOWS))
        named = [(path, found) for path in names if (found := _NAME.fullmatch(path.name))]
        intact: list[Path] = []
        for path, found in named:
            if _digest(path) != found["digest"]:
                logger.warning(f"{path} was altered or damaged; it and later windows are priced again")
            elif int(found["number"]) == len(intact):
                intact.append(path)
        return intact


def _digest(window: Path) -> str:
    """Return the beginning of the SHA-256 of a file; "" if it cannot be read because of damage."""
    try:
        with window.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        if not tells_damage(error):
            raise
        return ""
