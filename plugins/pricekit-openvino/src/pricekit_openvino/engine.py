"""Engine `openvino`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Graph, PriceBatch
from pricekit.engines.ort import INPUTS, usable_cpus
from pricekit.errors import BundleError, PluginError


class OpenVino:
    """The CPUs that this process may use, all at one batch; bfloat16 where they multiply it in hardware.

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
            settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": usable_cpus()}
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


@cache
def _core() -> Any:
    """Return OpenVINO's core, one for the process and kept to its end.

    Its CPU device gives the thread that compiles first an alternate stack for signals, and unmaps it in
    whichever thread drops the core last; after that the first thread died of its next signal, as Ctrl-C is one.
    """
    import openvino

    return openvino.Core()
