"""Exporting the model as one float32 ONNX graph."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pricekit.core.contracts import Batch
from pricekit.engines.ort import INPUTS
from pricekit.errors import ExportError
from pricekit.exporting.attention import TRANSLATIONS
from pricekit.model.inference import to_tensors
from pricekit.model.network import PriceModel
from pricekit.text import shorten

OPSET = 20
"""The first opset with Gelu as one operation; ONNX Runtime 1.17 and later read it."""


def export_graph(
    model: PriceModel, example: Batch, path: Path, translations: Mapping[Any, Any] = TRANSLATIONS
) -> None:
    """Write the graph: `input_ids`, `attention_mask`, `features` -> `price`, any batch and length.

    Args:
        model: the model; its link and normalisation become part of the graph.
        example: a batch to trace with, at least two rows and two tokens.
        path: the file to write; it contains all weights.
        translations: operations of torch with replacements for the exporter.

    Raises:
        ExportError: torch cannot export the model.
    """
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    tensors = to_tensors(example)
    shapes: dict[str, Any] = {
        "input_ids": {0: batch, 1: length},
        "attention_mask": {0: batch, 1: length},
        "features": {0: batch},
    }
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter's own deprecations; verification checks the result
            torch.onnx.export(
                model.eval(),
                tuple(tensors[name] for name in INPUTS),
                path,
                input_names=list(INPUTS),
                output_names=["price"],
                dynamic_shapes=shapes,
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
                custom_translation_table=dict(translations),
            )
    except Exception as error:
        cause = error.__cause__ or error
        reason = shorten(f"{type(cause).__name__}: {cause}", 300)
        raise ExportError(
            f"torch cannot export the encoder {type(model.encoder).__name__} with the loss {type(model.loss).__name__} "
            f"to ONNX: {reason}. Nothing was published; both must consist of operations that torch.onnx.export supports"
        ) from error
