"""The predictor: preprocessor and engine, over a table in memory or streamed from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from pricekit.bundle import open_bundle
from pricekit.core.contracts import Engine
from pricekit.engines.ort import load_cpu
from pricekit.errors import DataError
from pricekit.preprocess import Inputs, Preprocessor, load_preprocessor
from pricekit.screen import notice, progress
from pricekit.table import Columns, PredictionWriter, Table, iter_table, progress_size, table_of_texts
from pricekit.tokens import batches_by_length

WINDOW = 8192
"""Rows held in memory at once, sorted by length inside."""

BATCH_SIZE = 128
"""Rows of one call of the engine."""


@dataclass(frozen=True)
class Predictor:
    """Prices from a trained model."""

    preprocessor: Preprocessor
    engine: Engine

    @classmethod
    def load(cls, path: str | Path) -> Predictor:
        """Open a bundle; raises BundleError, PluginError."""
        bundle = open_bundle(Path(path))
        return cls(load_preprocessor(bundle.files, bundle.path), load_cpu(bundle.files["model.onnx"]))

    def predict(self, rows: Table | Sequence[str]) -> np.ndarray:
        """Return one price a row, float32 (N,), in the order given.

        Args:
            rows: a table, or texts as the model was trained on.
        """
        table = rows if isinstance(rows, Table) else table_of_texts(rows, self.preprocessor.columns.text[0])
        prices = np.empty(len(table), np.float32)
        if len(table):
            for batch, found in predict_inputs(self.engine, self.preprocessor(table)):
                prices[batch] = found
        return prices

    def predict_file(
        self,
        source: Path,
        out: Path,
        *,
        columns: Columns | None = None,
        encoding: str = "utf-8",
        limit: int | None = None,
        notices: Callable[[str], None] = notice,
    ) -> int:
        """Price a table file window by window in bounded memory; returns the number of rows.

        Every input row gets exactly one output row, in the table's order. The output appears whole
        or not at all.

        Raises:
            DataError: the table cannot be read, or the output cannot be written.
        """
        if out.exists() and source.exists() and out.samefile(source):
            raise DataError(f"{out} is the table itself; name another file with --out")
        columns = replace(columns or self.preprocessor.columns, price=None)
        rows = empty = position = 0
        tables = iter_table(source, columns, rows=WINDOW, limit=limit, encoding=encoding, notices=notices)
        with (
            PredictionWriter(out) as writer,
            progress("pricing", progress_size(source)) as advance,
        ):
            for table in tables:
                writer.write(table.ids, self.predict(table))
                rows += len(table)
                empty += int((table.text.str.strip() == "").sum())
                advance(table.position - position, f"{rows:,} rows")
                position = table.position
        if empty:
            notices(f"{empty:,} of {rows:,} rows have no text; they were priced all the same.")
        return rows


def predict_inputs(
    engine: Engine, inputs: Inputs, batch_size: int = BATCH_SIZE, share: tuple[int, int] = (0, 1)
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (row numbers, prices) of batches of alike length until all rows are priced.

    With a share of (i, n) only every n-th batch from the i-th on is.
    """
    batches = batches_by_length(inputs.tokens.lengths, np.arange(len(inputs)), batch_size)
    for rows in islice(batches, share[0], None, share[1]):
        yield rows, engine(inputs.batch(rows))
