"""The trained model as an engine: called for a run as ONNX Runtime is called for a bundle."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pricekit.core.contracts import Batch, Engine
from pricekit.predict import predict_inputs
from pricekit.preprocess import Inputs
from pricekit.training.model import PriceModel


def torch_engine(model: PriceModel) -> Engine:
    """Return an engine that runs the model with dropout off."""
    model.eval()

    def run(batch: Batch) -> np.ndarray:
        with torch.inference_mode():
            return np.asarray(model(**to_tensors(batch)).numpy())

    return run


def predict(model: PriceModel, inputs: Inputs, batch_size: int) -> np.ndarray:
    """Return the model's prices of all rows, float32 (N,)."""
    prices = np.empty(len(inputs), np.float32)
    for rows, found in predict_inputs(torch_engine(model), inputs, batch_size):
        prices[rows] = found
    return prices


def to_tensors(batch: Batch) -> dict[str, Tensor]:
    """Return a batch's arrays as tensors that share their memory."""
    return {name: torch.from_numpy(array) for name, array in batch.items()}
