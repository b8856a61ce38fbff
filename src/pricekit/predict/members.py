"""The models of a predictor, and the reader that opens those of a bundle."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pandas as pd

from pricekit.core.contracts import Graph
from pricekit.features.preprocess import Inputs, Preprocessor, columns_read, load_preprocessor
from pricekit.io.storage import cache_folder, location_of
from pricekit.predict.bundle import Bundle, fetch_model, open_bundle
from pricekit.predict.embedding import Embedding
from pricekit.predict.engines import open_engine
from pricekit.predict.keys import Trust
from pricekit.predict.loaded_engine import LoadedEngine
from pricekit.table import Columns, Table, TableSource, check_labelled, is_frame, read_frame, table_of_texts
from pricekit.table.decisions import cells_of
from pricekit.table.source import ArrowStream

Rows: TypeAlias = "Table | pd.DataFrame | ArrowStream | pd.Series | np.ndarray | Sequence[str]"
"""A table or frame with the columns of a model, or texts."""


def table_of(rows: Rows, columns: Columns) -> Table:
    """Return rows in memory as a table with the columns of a model, but without prices."""
    if isinstance(rows, Table):
        return rows
    columns = replace(columns, price=None)
    if is_frame(rows):
        return read_frame(cast(TableSource, rows), columns)
    name = columns.text[0]
    table = table_of_texts(cast(Sequence[str], rows), name)
    if len(columns.text) > 1:
        written = table.frame[name].tolist()
        check_labelled(written, columns)
        return read_frame(pd.DataFrame(cells_of(written, columns.text)), columns)
    form = None if columns.formats is None else columns.formats.columns.get(name)
    return read_frame(table.frame, columns) if form and form.kind == "number" else table


@dataclass(frozen=True)
class Member:
    """One trained model.

    Attributes:
        preprocessor: turns a table into model inputs.
        engine: turns inputs into prices.
        weight: of its log price; the weights of all members sum to 1.
        embedding: its vectors; None if it reads no text, or if it was exported without them.
    """

    preprocessor: Preprocessor
    engine: LoadedEngine
    weight: float = 1.0
    embedding: Embedding | None = None

    def __repr__(self) -> str:
        """Return one line: the tokenizer alone has thousands of characters."""
        return f"Member(engine='{self.engine.name}', weight={self.weight:g})"

    def prices(self, inputs: Inputs) -> np.ndarray:
        """Return the prices of all rows, float32 (N,); rows with equal inputs are priced once."""
        first, kind = inputs.distinct()
        return cast(np.ndarray, self.engine.price(inputs, first)[first][kind])


def weighted_mean(prices: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Return the weighted geometric mean of several prices of each row, float32 (N,); the weights sum to 1."""
    if len(prices) == 1:
        return prices[0]
    logs = [weight * np.log(price.astype(np.float64)) for price, weight in zip(prices, weights, strict=True)]
    return cast(np.ndarray, np.exp(np.sum(logs, axis=0)).astype(np.float32))


@dataclass(frozen=True, repr=False)
class BundleReader:
    """A bundle that was read and checked, before an engine is opened.

    Attributes:
        bundle: its files.
        preprocessors: one for each member.
    """

    bundle: Bundle
    preprocessors: tuple[Preprocessor, ...]

    @classmethod
    def of(cls, bundle: Bundle) -> BundleReader:
        """Return the reader of a bundle in memory; raises BundleError, PluginError."""
        return cls(bundle, tuple(load_preprocessor(files, bundle.path) for files, _ in bundle.members()))

    def __repr__(self) -> str:
        """Return one line: the files have megabytes."""
        return f"BundleReader({str(self.bundle.path)!r}, members={len(self.preprocessors)})"

    @property
    def columns(self) -> Columns:
        """The columns that the model reads, with those that only features read."""
        return columns_read(self.preprocessors)

    def prepare(self, rows: Rows) -> list[Inputs]:
        """Return the inputs of the graph of each member, without opening an engine.

        Args:
            rows: as of `Predictor.predict`.

        Returns:
            For each member, the tokens and the features of the N rows, without padding; `Inputs.batch` pads.

        Raises:
            DataError: a column is missing, or a text has no line of the expected form.

        Example:
            >>> import numpy as np, pricekit as pk
            >>> report = pk.train(pk.make_catalog(200), epochs=1, features="fast15").export("bundle")
            >>> inputs = pk.bundles.read("bundle").prepare(["Item Name: Green Tea, 20 Count", "Item Name: Tea"])[0]
            >>> batch = inputs.batch(np.arange(2), multiple_of=32)
            >>> batch["input_ids"].shape, batch["attention_mask"].dtype.name, batch["features"].shape
            ((2, 32), 'int64', (2, 15))
        """
        table = table_of(rows, self.columns)
        return [preprocessor(table) for preprocessor in self.preprocessors]

    def open_members(self, engine: str) -> tuple[Member, ...]:
        """Open each member in an engine; of members with similar graphs, only the first one is measured.

        Raises:
            BundleError: a graph cannot be loaded.
            PluginError: the engine is unknown or cannot be loaded.
        """
        graphs: list[Graph] = []
        members: list[Member] = []
        widths = self.bundle.embedding_widths()
        parts = zip(self.preprocessors, self.bundle.members(), widths, strict=True)
        for preprocessor, (files, weight), width in parts:
            cache = cache_folder() / "bundles" / self.bundle.digest
            if members:
                cache /= str(len(members))
            features, precision = len(preprocessor.features.names), self.bundle.manifest["precision"]
            graph = Graph(files["model.onnx"], preprocessor.max_length, features, cache, precision)
            similar = (
                m.engine.name for m, other in zip(members, graphs, strict=True) if _similar(graph, other)
            )
            vocabulary = preprocessor.tokenizer.get_vocab_size()
            opened = open_engine(engine, graph, vocabulary, next(similar, None))
            graphs.append(graph)
            embedding = Embedding.of_graph(graph.model, width) if width else None
            members.append(Member(preprocessor, opened, weight, embedding))
        return tuple(members)


MIN_SIZE_RATIO = 0.9
"""Two graphs are similar if the smaller one has more than this share of the larger one's bytes."""


def _similar(one: Graph, other: Graph) -> bool:
    """Return whether two members' graphs have the same architecture, like those of a cross-validation's folds."""
    sizes = len(one.model), len(other.model)
    same = (one.max_length, one.features) == (other.max_length, other.features)
    return same and min(sizes) > MIN_SIZE_RATIO * max(sizes)


def read_bundle(path: str | os.PathLike[str], trust: Trust | None = None) -> BundleReader:
    """Read a local or remote bundle and check it, without opening an engine.

    Args:
        path: the folder of the bundle, or its address such as "s3://bucket/bundle".
        trust: the keys one of which must have signed it; None: no signature is needed.

    Raises:
        BundleError: the bundle is damaged, or no trusted key has signed it.
        PluginError: a feature plugin is missing.
    """
    location = location_of(path, "path")
    folder = location if isinstance(location, Path) else fetch_model(location, trust)
    return BundleReader.of(open_bundle(folder, trust))
