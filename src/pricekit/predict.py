"""The predictor: preprocessor and engine, over a table in memory or streamed from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from pricekit.bundle import open_bundle
from pricekit.core.contracts import Graph, PriceBatch
from pricekit.engines.choose import AUTO, open_engine
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
    price_batch: PriceBatch
    length_multiple: int = 1
    engine: str = "torch"

    @classmethod
    def load(cls, path: str | Path, engine: str = AUTO) -> Predictor:
        """Open a bundle in the engine of that name; raises BundleError, PluginError."""
        bundle = open_bundle(Path(path))
        preprocessor = load_preprocessor(bundle.files, bundle.path)
        cache = user_cache_path("pricekit") / "bundles" / bundle.digest
        columns = len(preprocessor.features.names)
        graph = Graph(bundle.files["model.onnx"], preprocessor.max_length, columns, cache)
        opened = open_engine(engine, graph, preprocessor.tokenizer.get_vocab_size())
        return cls(preprocessor, opened.price_batch, opened.length_multiple, opened.name)

    def predict(self, rows: Table | Sequence[str]) -> np.ndarray:
        """Return one price a row, float32 (N,), in the order given.

        Args:
            rows: a table, or texts as the model was trained on.
        """
        table = rows if isinstance(rows, Table) else table_of_texts(rows, self.preprocessor.columns.text[0])
        prices = np.empty(len(table), np.float32)
        if len(table):
            inputs = self.preprocessor(table)
            for batch, found in predict_inputs(
                self.price_batch, inputs, length_multiple=self.length_multiple
            ):
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
    price_batch: PriceBatch,
    inputs: Inputs,
    batch_size: int = BATCH_SIZE,
    share: tuple[int, int] = (0, 1),
    length_multiple: int = 1,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (row numbers, prices) of batches of alike length until all rows are priced.

    With a share of (i, n) only every n-th batch from the i-th on is.
    """
    batches = batches_by_length(inputs.tokens.lengths, np.arange(len(inputs)), batch_size)
    for rows in islice(batches, share[0], None, share[1]):
        yield rows, price_batch(inputs.batch(rows, length_multiple))
