"""Engine `openvino`."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from pricekit.plugin import (
    GRAPH_INPUTS,
    Batch,
    BundleError,
    Engine,
    Graph,
    PluginError,
    PriceBatch,
    usable_cpus,
)

HALF_MULTIPLE = 16
"""In bfloat16, lengths are rounded up to multiples of this: 127 tokens take 1.4 times as long as 128."""


class OpenVino(Engine):
    """OpenVINO on all CPUs that this process may use, one batch at a time.

    A transformer with float16 weights is computed in bfloat16 if the CPU supports it in hardware. Any other graph is
    computed in float32, which must be requested on such CPUs: it is as fast there, and otherwise prices of `bag` were
    off by up to 7%.

    There are no `streams`: called from several threads, OpenVINO's Python binding hung, and may have crashed a process.
    """

    length_multiple = 1

    def load(self, graph: Graph) -> PriceBatch:
        """Compile the graph for any shape; raise PluginError or BundleError if that fails."""
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
            if _is_half_transformer(model):
                self.length_multiple = HALF_MULTIPLE
            else:
                settings["INFERENCE_PRECISION_HINT"] = "f32"
            request = core.compile_model(model, "CPU", settings).create_infer_request()
        except Exception as error:
            raise BundleError(f"the graph cannot be loaded by OpenVINO: {error}; export it again") from error
        found = {i.any_name for i in model.inputs}, [o.any_name for o in model.outputs]
        if found[0] != set(GRAPH_INPUTS) or "price" not in found[1]:
            raise BundleError(
                f"the graph has inputs and outputs {found}, expected {GRAPH_INPUTS} and price; export it again"
            )

        def run(batch: Batch) -> np.ndarray:
            return np.array(request.infer(dict(batch))["price"])

        return run


def _is_half_transformer(model: Any) -> bool:
    """Report whether a graph has attention, and weights of float16: it was exported for speed, not for precision."""
    nodes = model.get_ops()
    constants = (node for node in nodes if node.get_type_name() == "Constant")
    half = any(node.get_output_element_type(0).get_type_name() == "f16" for node in constants)
    return half and any(node.get_type_name() == "Softmax" for node in nodes)


@cache
def _core() -> Any:
    """Return OpenVINO's core, which is shared by the process and never released.

    Its CPU device installs an alternate signal stack in the thread that compiles first, and unmaps it in the thread
    that releases the core. After that, the next signal (such as Ctrl-C) killed the first thread.
    """
    return _without_telemetry().Core()


def _without_telemetry() -> Any:
    """Import OpenVINO without its telemetry package, which would report each import to a server."""
    loaded = "openvino_telemetry" in sys.modules  # imported by other code: leave it
    if not loaded:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    try:
        import openvino
    finally:
        if not loaded:
            del sys.modules["openvino_telemetry"]
    return openvino
