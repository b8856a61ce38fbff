"""Engine `openvino`."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Graph, PriceBatch
from pricekit.engines.ort import INPUTS, usable_cpus
from pricekit.errors import BundleError, PluginError


class OpenVino:
    """The CPUs that this process may use; bfloat16 where they multiply it in hardware."""

    length_multiple = 1

    @property
    def streams(self) -> int:
        """One for each CPU: a batch that several share is slower than a batch for each."""
        return usable_cpus()

    def load(self, graph: Graph) -> PriceBatch:
        """Compile the graph for any shape; raises PluginError, BundleError."""
        try:
            import openvino
        except Exception as error:  # an ImportError, or the loader's
            raise PluginError(
                f"the engine openvino cannot load OpenVINO ({error}): pip install openvino"
            ) from error
        core = openvino.Core()
        try:
            model = core.read_model(graph.model)
            settings = {"NUM_STREAMS": self.streams, "INFERENCE_NUM_THREADS": self.streams}
            compiled = core.compile_model(model, "CPU", settings)
        except Exception as error:
            raise BundleError(f"the graph cannot be loaded by OpenVINO: {error}; export it again") from error
        found = {i.any_name for i in model.inputs}, [o.any_name for o in model.outputs]
        if found != (set(INPUTS), ["price"]):
            raise BundleError(
                f"the graph has inputs and outputs {found}, expected {INPUTS} and price; export it again"
            )

        requests: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self.streams):
            requests.put(compiled.create_infer_request())

        def run(batch: Batch) -> np.ndarray:
            request = requests.get()
            try:
                return np.array(request.infer(dict(batch), share_inputs=True)["price"])
            finally:
                requests.put(request)

        # OpenVINO's binding to Python prepares itself at the first call, and hangs where that is two calls at once.
        run(_smallest(graph))
        return run


def _smallest(graph: Graph) -> Batch:
    ones = np.ones((1, 1), np.int64)
    return {"input_ids": ones, "attention_mask": ones, "features": np.zeros((1, graph.features), np.float32)}
