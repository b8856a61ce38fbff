"""The model as one float32 ONNX graph, with attention in fewer operations than torch's own exporter uses."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnxscript import ir
from onnxscript import opset20 as op

from pricekit.core.contracts import Batch
from pricekit.errors import ExportError
from pricekit.io.causes import raise_outside_cause
from pricekit.nets.inference import to_tensors
from pricekit.nets.lstm import one_direction
from pricekit.nets.network import PriceAndEmbedding, PriceModel
from pricekit.predict.ort import EMBEDDING, GRAPH_INPUTS, PRICE
from pricekit.wording import shorten

MASKED = float(np.finfo(np.float32).min)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return softmax(query · keyᵀ · scale + mask) · value; Vaswani et al. 2017, arXiv:1706.03762, equation 1.

    Torch's exporter scales query and key separately, and after the softmax searches for rows without an attended key.
    That costs two passes over (B, heads, L, L). Such rows do not occur: every text has at least one attended token.

    Args:
        query: float (B, heads, L, D).
        key: float (B, heads, L, D).
        value: float (B, heads, L, D).
        attn_mask: bool, true for attended keys, or float, added to the scores; broadcast to (B, heads, L, L).
        dropout_p: as in torch; 0 in evaluation.
        is_causal: as in torch; not supported.
        scale: of the scores; None is 1 / sqrt(D).
        enable_gqa: as in torch; not supported.

    Raises:
        NotImplementedError: dropout, causal attention or grouped queries.
    """
    if dropout_p or is_causal or enable_gqa:
        raise NotImplementedError("attention with dropout, causal, or of grouped queries")
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = op.MatMul(op.Mul(query, op.Constant(value_float=factor)), op.Transpose(key, perm=[0, 1, 3, 2]))
    if attn_mask is not None:
        if attn_mask.dtype.name == "BOOL":
            attended: Any = op.Constant(value_float=0.0)
            attn_mask = op.Where(attn_mask, attended, op.Constant(value_float=MASKED))
        scores = op.Add(scores, attn_mask)
    return op.MatMul(op.Softmax(scores, axis=-1), value)


def lstm(states: Any, weight: Any, state_weight: Any, bias: Any, state_bias: Any) -> Any:
    """Return the states of one layer in one direction: (B, L, W) -> (B, L, H), as `lstm.one_direction`.

    Torch orders the gates input, forget, cell, output, and ONNX input, output, forget, cell.
    """
    size = state_weight.shape[1]
    order: Any = op.Constant(value_ints=[gate * size + row for gate in (0, 3, 1, 2) for row in range(size)])
    first: Any = op.Constant(value_ints=[0])
    second: Any = op.Constant(value_ints=[1])
    biases = op.Concat(op.Gather(bias, order), op.Gather(state_bias, order), axis=0)
    outputs, _, _ = op.LSTM(
        op.Transpose(states, perm=[1, 0, 2]),
        op.Unsqueeze(op.Gather(weight, order), first),
        op.Unsqueeze(op.Gather(state_weight, order), first),
        op.Unsqueeze(biases, first),
        hidden_size=size,
    )
    return op.Transpose(op.Squeeze(outputs, second), perm=[1, 0, 2])


TRANSLATIONS: Mapping[Any, Any] = {
    torch.ops.aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
    one_direction._opoverload: lstm,
}
"""Operations of torch with their replacements in the exporter."""


OPSET = 20
"""The first opset with Gelu as one operation; ONNX Runtime 1.17 and later read it."""


def export_graph(
    model: PriceModel,
    example: Batch,
    path: Path,
    translations: Mapping[Any, Any] = TRANSLATIONS,
    *,
    separate_weights: bool = False,
    embedding: bool = False,
) -> None:
    """Write the graph: `input_ids`, `attention_mask`, `features` -> `price`, any batch and length.

    Args:
        model: the model; its link and normalisation become part of the graph.
        example: a batch to trace with, at least two rows and two tokens.
        path: the file to write; it contains all weights.
        translations: operations of torch with replacements for the exporter.
        separate_weights: large weights are in a second file beside it, so that no copy of them is in memory;
            `tensors.read_graph` puts them into one.
        embedding: the graph has the second output `embedding`.

    Raises:
        ExportError: torch cannot export the model.
        OSError: the file cannot be written.
    """
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    tensors = to_tensors(example)
    outputs = [PRICE, EMBEDDING] if embedding else [PRICE]
    shapes: dict[str, Any] = {
        "input_ids": {0: batch, 1: length},
        "attention_mask": {0: batch, 1: length},
        "features": {0: batch},
    }
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter's own deprecations; verification checks the result
            merged = model.eval().merged()
            program = torch.onnx.export(
                PriceAndEmbedding(merged).eval() if embedding else merged,
                tuple(tensors[name] for name in GRAPH_INPUTS),
                input_names=list(GRAPH_INPUTS),
                output_names=outputs,
                dynamic_shapes=shapes,
                opset_version=OPSET,
                dynamo=True,
                optimize=False,
                verbose=False,
                custom_translation_table=dict(translations),
            )
            assert program is not None
            weights = list(program.model.graph.initializers.values())
            program.optimize()
            # Forget the lines of Python code behind each node, with the paths of their files.
            for node in ir.traversal.RecursiveGraphIterator(program.model.graph):
                node.metadata_props.clear()
                for value in node.outputs:
                    value.metadata_props.clear()
            program.save(path, external_data=separate_weights)
            for weight in (*weights, *program.model.graph.initializers.values()):
                weight.const_value = None  # onnxscript keeps the graph
    except Exception as error:
        raise_outside_cause(error)
        cause = error.__cause__ or error
        reason = shorten(f"{type(cause).__name__}: {cause}", 300)
        raise ExportError(
            f"torch cannot export the encoder {type(model.encoder).__name__} with the loss {type(model.loss).__name__} "
            f"to ONNX: {reason}. Nothing was published; both must consist of operations that torch.onnx.export "
            f"supports, and newer versions than torch {torch.__version__} may support more"
        ) from error
