"""The vectors of texts: what a network makes of a text before its features and its heads.

A bundle computes them in ONNX Runtime on the CPU, whatever engine prices its rows: an engine knows only prices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from pricekit.core.contracts import Batch
from pricekit.errors import BundleError
from pricekit.features.preprocess import Inputs
from pricekit.io.cpus import usable_cpus
from pricekit.predict.loaded_engine import BATCH_SIZE, BATCH_TOKENS
from pricekit.predict.ort import EMBEDDING, load_cpu
from pricekit.text.tokens import batches_by_length

EmbedBatch: TypeAlias = Callable[[Batch], np.ndarray]
"""A function of a batch of B rows that returns their vectors, float32 (B, H)."""


@dataclass(frozen=True)
class Embedding:
    """The vectors of a model.

    Attributes:
        width: numbers in a vector, H.
        load: returns what computes a batch; called when that is first needed.
    """

    width: int
    load: Callable[[], EmbedBatch]

    @classmethod
    def of_graph(cls, model: bytes, width: int) -> Embedding:
        """Return the vectors of a bundle's graph, which is opened when that is first needed."""
        return cls(width, cache(partial(load_cpu, model, usable_cpus(), output=EMBEDDING)))

    def vectors(self, inputs: Inputs) -> np.ndarray:
        """Return the vector of each row, float32 (N, H); rows with equal inputs are computed once.

        Raises:
            BundleError: a vector has another width or is not finite.
        """
        first, kind = inputs.distinct()
        vectors = np.empty((len(inputs), self.width), np.float32)
        embed = self.load()
        for rows in batches_by_length(inputs.tokens.lengths, first, BATCH_SIZE, BATCH_TOKENS):
            some = embed(inputs.batch(rows))
            if some.shape != (len(rows), self.width) or not np.isfinite(some).all():
                raise BundleError(
                    f"the model returns embeddings of shape {some.shape} for {len(rows)} rows, or some that are not "
                    f"finite; expected {self.width} finite numbers for each row. Export the run again, in fp32",
                    parameters=("precision",),
                    shape=some.shape,
                )
            vectors[rows] = some
        return np.asarray(vectors[first][kind])
