"""Inference in torch: prices batches with the model of a run, like an engine with the graph of a bundle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.features.preprocess import Inputs
from pricekit.io.causes import lacks_memory
from pricekit.io.log import logger
from pricekit.io.mapped import WINDOW_ROWS
from pricekit.io.progress import Advance
from pricekit.nets.network import PriceModel
from pricekit.predict.embedding import EmbedBatch
from pricekit.text.tokens import batches_by_length


def torch_engine(model: nn.Module, autocast: Callable[[], Any] = nullcontext) -> PriceBatch:
    """Return a function that prices a batch: the model in evaluation mode, on the device of its weights."""
    model.eval()
    device = next(model.parameters()).device

    def run(batch: Batch) -> np.ndarray:
        with torch.inference_mode(), autocast():
            inputs = {name: tensor.to(device) for name, tensor in to_tensors(batch).items()}
            return np.asarray(model(**inputs).float().cpu().numpy())

    return run


def torch_embedding(model: PriceModel) -> EmbedBatch:
    """Return a function that embeds a batch: the encoder in evaluation mode, on the device of the model's weights."""
    model.eval()
    device = next(model.parameters()).device

    def run(batch: Batch) -> np.ndarray:
        with torch.inference_mode():
            ids, mask = (torch.from_numpy(batch[name]).to(device) for name in ("input_ids", "attention_mask"))
            return np.asarray(model.encode(ids, mask).float().cpu().numpy())

    return run


def predict(
    model: nn.Module,
    inputs: Inputs,
    batch_size: int,
    *,
    autocast: Callable[[], Any] = nullcontext,
    part: tuple[int, int] = (0, 1),
    advance: Advance | None = None,
) -> np.ndarray:
    """Return the model's price of each row, float32 (N,).

    Args:
        model: a `PriceModel`, on its device.
        inputs: N rows.
        batch_size: number of rows per forward pass.
        autocast: returns the context of a forward pass.
        part: `(k, n)`: only the k-th of each n batches; the prices of the others are 0.
        advance: moves a progress bar whose unit is a row.
    """
    prices = np.zeros(len(inputs), np.float32)
    engine = torch_engine(model, autocast)
    lengths, windows = inputs.tokens.lengths, range(0, len(inputs), WINDOW_ROWS)
    parts = (np.arange(start, min(start + WINDOW_ROWS, len(inputs))) for start in windows)
    batches = chain.from_iterable(batches_by_length(lengths, rows, batch_size) for rows in parts)
    for rows in islice(batches, part[0], None, part[1]):
        prices[rows] = _price(engine, inputs, rows)
        if advance is not None:
            advance(len(rows) * part[1])
    return prices


def _price(engine: PriceBatch, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
    """Return the prices of some rows, float32 (N,); if memory runs out, half of them after the other."""
    try:
        return engine(inputs.batch(rows))
    except (RuntimeError, MemoryError) as error:
        if len(rows) == 1 or not lacks_memory(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    logger.debug(f"out of memory with {len(rows)} rows of a batch: it is computed in halves")
    half = len(rows) // 2
    return np.concatenate([_price(engine, inputs, rows[:half]), _price(engine, inputs, rows[half:])])


def to_tensors(batch: Batch) -> dict[str, Tensor]:
    """Return the arrays of a batch as tensors that share their memory."""
    return {name: torch.from_numpy(array) for name, array in batch.items()}
