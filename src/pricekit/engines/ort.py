"""ONNX Runtime on the CPU."""

from __future__ import annotations

import os

import numpy as np

from pricekit.core.contracts import Batch, Engine
from pricekit.errors import BundleError, PluginError

INPUTS = ("input_ids", "attention_mask", "features")


def load_cpu(model: bytes) -> Engine:
    """Open a graph with ONNX Runtime on the CPUs that this process may use.

    It is given as bytes, so that it cannot name weights in other files.

    Raises:
        PluginError: onnxruntime is not installed.
        BundleError: the graph cannot be loaded, or its inputs and output are not pricekit's.
    """
    try:
        import onnxruntime as ort
    except ImportError:
        raise PluginError(
            "prediction from a bundle needs onnxruntime, which is not installed: pip install 'pricekit[cpu]'"
        ) from None
    options = ort.SessionOptions()
    options.intra_op_num_threads = _usable_cpus()
    options.log_severity_level = 3
    # Threads that wait in a spin take the processor from the tokenizer, which comes next.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BundleError(f"the graph cannot be loaded by ONNX Runtime: {error}; export it again") from error
    found = tuple(i.name for i in session.get_inputs()), tuple(o.name for o in session.get_outputs())
    if set(found[0]) != set(INPUTS) or found[1] != ("price",):
        raise BundleError(
            f"the graph has inputs and outputs {found}, expected {INPUTS} and price; export it again"
        )

    def run(batch: Batch) -> np.ndarray:
        return np.asarray(session.run(["price"], dict(batch))[0])

    return run


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
