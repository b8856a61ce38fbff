"""A session of ONNX Runtime with buffers on the device for each batch shape.

The operations for one shape can be recorded as a CUDA graph and replayed without launching each of them. That saves
time if the operations are short, and none if the GPU is busy anyway. So a few batches of each shape are priced in both
modes, and all later ones in the faster mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch
from pricekit.errors import BundleError, PluginError

SHAPES = 64
"""The most shapes with buffers; batches of other shapes are priced without."""

ROUNDS = 3
"""How often a shape is priced in each mode before one is chosen; the first time is not counted."""

MAX_DIFFERENCE = 1e-3
"""The largest relative difference of a recorded graph's prices from the others."""

GRAPH_ID = "gpu_graph_id"
NO_GRAPH = "-1"


class BoundSession:
    """Prices batches with a session that may record CUDA graphs.

    If the graph cannot be recorded, because some of its operations run on the CPU, or if a recorded graph gives other
    prices, a session without recording replaces it. ONNX Runtime keeps recorded graphs per thread, so one thread
    prices all batches.
    """

    def __init__(self, open_session: Callable[[bool], Any], device: str) -> None:
        """Open the session; raises PluginError, BundleError.

        Args:
            open_session: returns an `onnxruntime.InferenceSession`, called with whether it records.
            device: of the buffers, `cuda` or `cpu`.
        """
        self._open, self._device = open_session, device
        self._buffers: dict[tuple[int, ...], _Buffers] = {}
        self._thread = ThreadPoolExecutor(1)
        try:
            self._session, self.records = open_session(True), True
        except (PluginError, BundleError):
            self._session, self.records = open_session(False), False

    def __call__(self, batch: Batch) -> np.ndarray:
        """Return the prices of a batch, float32 (B,)."""
        return self._thread.submit(self._price, batch).result()

    def _price(self, batch: Batch) -> np.ndarray:
        shape = batch["input_ids"].shape
        if shape not in self._buffers and len(self._buffers) == SHAPES:
            return np.asarray(self._session.run(["price"], dict(batch), _options(NO_GRAPH))[0])
        if shape not in self._buffers:
            self._buffers[shape] = _Buffers(self._session, batch, self._device, str(len(self._buffers) + 1))
        buffers = self._buffers[shape]
        recorded = self.records and buffers.records
        if not recorded or buffers.checked:
            return buffers.price(batch, recorded=recorded)
        expected, correct = buffers.check(batch)
        if not correct:
            del buffers
            self._buffers.clear()
            self._session = None  # frees the GPU memory before the next session loads the weights
            self._session, self.records = self._open(False), False
        return expected


class _Buffers:
    """The buffers of one shape, and the seconds of its batches in each mode."""

    def __init__(self, session: Any, batch: Batch, device: str, graph_id: str) -> None:
        from onnxruntime import OrtValue

        self._session, self._binding = session, session.io_binding()
        self._inputs = {
            name: OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype.type, device, 0)
            for name, array in batch.items()
        }
        for name, value in self._inputs.items():
            self._binding.bind_ortvalue_input(name, value)
        self._price = OrtValue.ortvalue_from_shape_and_type((len(batch["input_ids"]),), np.float32, device, 0)
        self._binding.bind_ortvalue_output("price", self._price)
        self._modes = {False: _options(NO_GRAPH), True: _options(graph_id)}
        self._seconds: dict[bool, list[float]] = {False: [], True: []}

    @property
    def records(self) -> bool:
        """Whether the next batch uses the recorded graph: first not, then always, then if that was faster."""
        plain, recorded = self._seconds[False], self._seconds[True]
        if len(recorded) < ROUNDS:
            return len(plain) >= ROUNDS
        return min(recorded[1:]) < min(plain[1:])

    @property
    def checked(self) -> bool:
        """Whether the recorded graph has given the right prices for several batches."""
        return len(self._seconds[True]) >= ROUNDS

    def check(self, batch: Batch) -> tuple[np.ndarray, bool]:
        """Return the prices of a batch, and whether the recorded graph gives the same."""
        expected = self.price(batch, recorded=False)
        self._price.update_inplace(np.full_like(expected, np.nan))  # the recorded graph must overwrite them
        try:
            return expected, np.allclose(
                self.price(batch, recorded=True), expected, rtol=MAX_DIFFERENCE, atol=0
            )
        except Exception:  # ONNX Runtime's own: an operation cannot be recorded
            return expected, False

    def price(self, batch: Batch, *, recorded: bool) -> np.ndarray:
        """Return the prices of a batch of this shape."""
        started = time.perf_counter()
        for name, value in self._inputs.items():
            value.update_inplace(batch[name])
        self._session.run_with_iobinding(self._binding, self._modes[recorded])
        price = np.array(self._binding.copy_outputs_to_cpu()[0])
        if len(self._seconds[recorded]) <= ROUNDS:
            self._seconds[recorded].append(time.perf_counter() - started)
        return price


def _options(graph_id: str) -> Any:
    from onnxruntime import RunOptions

    options = RunOptions()
    options.add_run_config_entry(GRAPH_ID, graph_id)
    return options
