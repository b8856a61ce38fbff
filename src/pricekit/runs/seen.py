"""The texts that a run and those before it were trained on.

seen.parquet has one row per different text: its hash, whether an earlier run had it, and the columns of features that
learn from prices, learned from other rows only. A later run then knows which rows are new, and need not learn these
columns for the earlier ones again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.errors import TrainingError
from pricekit.io.files import write_parquet
from pricekit.io.record import check_intact, read_intact
from pricekit.table.table import Formats, texts_in_parts

SEEN = "seen.parquet"

_TEXT, _EARLIER, _COLUMN = "text", "earlier", "column "


@dataclass(frozen=True)
class Seen:
    """S different texts.

    Attributes:
        text: their hashes, uint64 (S,), ascending.
        earlier: whether an earlier run was trained on the text, bool (S,).
        columns: out-of-fold columns of features that use the price, float32 (S,) each, by name.
    """

    text: np.ndarray
    earlier: np.ndarray
    columns: Mapping[str, np.ndarray]

    def rows_of(self, text: pd.Series) -> np.ndarray:
        """Return the place of each text among these, int64 (N,); -1 for those that were not seen."""
        if not len(self.text):
            return np.full(len(text), -1)
        hashes = hashes_of(text)
        row = np.minimum(np.searchsorted(self.text, hashes), len(self.text) - 1)
        return np.where(self.text[row] == hashes, row, -1)

    def earlier_rows(self, text: pd.Series) -> np.ndarray:
        """Return whether an earlier run was trained on each text, bool (N,)."""
        known = np.append(self.earlier, False)  # the last value is that of row -1
        return np.asarray(known[self.rows_of(text)])

    def columns_of(self, text: pd.Series) -> dict[str, np.ndarray]:
        """Return the columns of N texts that were seen, float32 (N,) each, by name."""
        row = self.rows_of(text)
        return {name: values[row] for name, values in self.columns.items()}

    def as_earlier(self) -> Seen:
        """Return these texts as those of an earlier run, for the one that continues it."""
        return replace(self, earlier=np.ones(len(self.text), bool))

    def with_rows(self, text: pd.Series, columns: Mapping[str, np.ndarray]) -> Seen:
        """Return these texts and those of more rows; a text that occurs again keeps the newest values.

        Args:
            text: of N rows.
            columns: the columns of these rows, float32 (N,) each, by name; the same names as those of earlier rows.
        """
        hashes = np.concatenate([hashes_of(text), self.text])
        distinct, first = np.unique(hashes, return_index=True)
        was = np.isin(distinct, self.text[self.earlier])
        none = np.zeros(0, np.float32)
        joined = {
            name: np.concatenate([new, self.columns.get(name, none)])[first] for name, new in columns.items()
        }
        return Seen(distinct, was, joined)


NOTHING = Seen(np.zeros(0, np.uint64), np.zeros(0, bool), {})


def hashes_of(text: pd.Series) -> np.ndarray:
    """Return a hash of each text, uint64 (N,), which is the same on every machine."""
    parts = [pd.util.hash_pandas_object(part, index=False) for part in texts_in_parts(text)]
    return np.concatenate([np.asarray(part, np.uint64) for part in parts])


def earlier_texts(init: str | None, resumed: Iterable[Path]) -> Seen | None:
    """Return the texts of the runs that a run continues; None if it continues none.

    Args:
        init: the folder of the run or the ensemble to continue from; all members were trained on the same rows.
        resumed: folders of the run itself, or of its passes or members, which record these texts once they have begun.

    Raises:
        TrainingError: as of `read_seen`.
    """
    if init is None:
        return None
    if begun := [folder for folder in resumed if (folder / SEEN).is_file()]:
        return read_seen(begun[0])
    return read_seen(_run_of(Path(init))).as_earlier()


def earlier_formats(init: str | None, resumed: Iterable[Path]) -> Formats | None:
    """Return how the table of the run to continue from writes its columns; arguments as of `earlier_texts`."""
    if init is None:
        return None
    begun = [folder for folder in resumed if (folder / SEEN).is_file()]
    folder = begun[0] if begun else _run_of(Path(init))
    return Formats.model_validate(read_intact(folder, "preprocess.json")["columns"]["formats"])


def _run_of(init: Path) -> Path:
    """Return the folder of a run, or of the first member of an ensemble: all were trained on the same rows."""
    return min((init / "members").glob("*"), default=init)


def write_seen(folder: Path, seen: Seen) -> None:
    """Write `seen.parquet`."""
    columns = {_COLUMN + name: values for name, values in seen.columns.items()}
    write_parquet(folder / SEEN, pd.DataFrame({_TEXT: seen.text, _EARLIER: seen.earlier, **columns}))


def read_seen(folder: Path) -> Seen:
    """Read `seen.parquet`.

    Raises:
        TrainingError: it is missing or damaged.
    """
    if not (folder / SEEN).is_file():
        raise TrainingError(
            f"the run {folder} has no {SEEN}, so new rows cannot be told from those that it was trained on; train once "
            "from the start",
            parameters=("init",),
            path=str(folder),
        )
    check_intact(folder, [SEEN])
    frame = pd.read_parquet(folder / SEEN)
    columns = {
        str(name).removeprefix(_COLUMN): column.to_numpy(np.float32)
        for name, column in frame.items()
        if str(name).startswith(_COLUMN)
    }
    return Seen(frame[_TEXT].to_numpy(np.uint64), frame[_EARLIER].to_numpy(bool), columns)
