"""What a prediction has finished, kept beside its output until that is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.files import write_text
from pricekit.table import PredictionWriter


class Parts:
    """Windows of ids and prices, a Parquet file each, in a hidden folder beside the output.

    Args:
        out: the output that they will become.
        made_from: what they depend on, such as model, table and columns, as JSON values. Parts of another
            prediction are not gone on with.
    """

    def __init__(self, out: Path, made_from: dict[str, object]) -> None:
        self.folder = out.with_name(f".{out.name}.parts")
        self.key = json.dumps(made_from, sort_keys=True)
        self.count = 0

    def resume(self) -> bool:
        """Go on with what is there, and say whether it is of this prediction; if not, nothing is done yet."""
        key = self.folder / "key.json"
        if not key.is_file() or key.read_text("utf-8") != self.key:
            return False
        while self._part(self.count).is_file():
            self.count += 1
        return True

    def start(self) -> None:
        """Delete what an earlier prediction left."""
        self.clear()
        self.count = 0

    def add(self, ids: pd.Series, price: np.ndarray) -> None:
        """Keep a window: ids (N,) and prices, float (N,)."""
        try:
            if not self.folder.is_dir():
                self.folder.mkdir()
                write_text(self.folder / "key.json", self.key)
            with PredictionWriter(self._part(self.count)) as writer:
                writer.write(ids, price)
        except OSError as error:
            raise DataError(f"{self.folder} cannot be written: {error.strerror or error}.") from None
        self.count += 1

    def __iter__(self) -> Iterator[tuple[pd.Series, np.ndarray]]:
        """Yield ids and prices, float32, of all windows in order."""
        for number in range(self.count):
            frame = pd.read_parquet(self._part(number))
            yield frame.iloc[:, 0], frame["price"].to_numpy(np.float32)

    def clear(self) -> None:
        """Delete the folder and what was written into it."""
        for path in [*self.folder.glob("part-*.parquet"), self.folder / "key.json"]:
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.parquet"
