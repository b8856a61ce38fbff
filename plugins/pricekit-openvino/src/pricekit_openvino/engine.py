"""Engine `openvino`."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Graph, PriceBatch
from pricekit.cpus import usable_cpus
from pricekit.engines.ort import INPUTS
from pricekit.errors import BundleError, PluginError

HALF_MULTIPLE = 16
"""What lengths are rounded up to in bfloat16: 127 tokens take 1.4 times as long as 128, and 115 as long."""


class OpenVino:
    """The CPUs that this process may use, all at one batch.

    A graph of float16 weights is computed in bfloat16 where the CPU multiplies that in hardware. Any other is computed
    in float32, which OpenVINO would not do there by itself: prices of `bag` were off by more than 2%.

    No `streams`: called from several threads OpenVINO's binding to Python hung, and may have crashed a process.
    """

    length_multiple = 1

    def load(self, graph: Graph) -> PriceBatch:
        """Compile the graph for any shape; raises PluginError, BundleError."""
        try:
            core = _core()
        except Exception as error:  # an ImportError, or the loader's
            raise PluginError(
                f"the engine openvino cannot load OpenVINO ({error}): pip install openvino"
            ) from error
        try:
            model = core.read_model(graph.model)
            settings: dict[str, Any] = {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": usable_cpus(),
            }
            if _has_float16(model):
                self.length_multiple = HALF_MULTIPLE
            else:
                settings["INFERENCE_PRECISION_HINT"] = "f32"
            request = core.compile_model(model, "CPU", settings).create_infer_request()
        except Exception as error:
            raise BundleError(f"the graph cannot be loaded by OpenVINO: {error}; export it again") from error
        found = {i.any_name for i in model.inputs}, [o.any_name for o in model.outputs]
        if found != (set(INPUTS), ["price"]):
            raise BundleError(
                f"the graph has inputs and outputs {found}, expected {INPUTS} and price; export it again"
            )

        def run(batch: Batch) -> np.ndarray:
            return np.array(request.infer(dict(batch))["price"])

        return run


def _has_float16(model: Any) -> bool:
    """Say whether weights are float16: then whoever exported the graph wants speed rather than the last digits."""
    constants = (node for node in model.get_ops() if node.get_type_name() == "Constant")
    return any(node.get_output_element_type(0).get_type_name() == "f16" for node in constants)


@cache
def _core() -> Any:
    """Return OpenVINO's core, one for the process and kept to its end.

    Its CPU device gives the thread that compiles first an alternate stack for signals, and unmaps it in
    whichever thread drops the core last; after that the first thread died of its next signal, as Ctrl-C is one.
    """
    return _without_telemetry().Core()


def _without_telemetry() -> Any:
    """Import OpenVINO, which would tell a server of each import; it does without the package that tells it."""
    told = "openvino_telemetry" in sys.modules  # somebody else's decision
    if not told:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        if not told:
            del sys.modules["openvino_telemetry"]
    return openvino
