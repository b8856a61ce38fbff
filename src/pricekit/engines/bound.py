"""A session of ONNX Runtime that is given each shape of batch at places of its own on the device.

What a GPU has to do for one shape can be recorded there as a CUDA graph, and replayed without asking for each
operation. That pays where operations are short, and not where the GPU is busy anyway. So each shape is priced a few
times in both ways, and then in the faster one.
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
"""Shapes that have places, at most; others are priced all the same."""

ROUNDS = 3
"""How often a shape is priced in each way, the first time untimed, before one is chosen."""

SAME = 1e-3
"""Relative difference of recorded prices from others, at most."""

GRAPH_ID = "gpu_graph_id"
NO_GRAPH = "-1"


class BoundSession:
    """Prices of batches, of a session that may record.

    Where nothing can be recorded, since the graph has operations that the GPU leaves to the CPU, or where what was
    recorded gives other prices, a session that does not record takes its place. ONNX Runtime keeps what is recorded by
    thread, so that one thread does it all.
    """

    def __init__(self, open_session: Callable[[bool], Any], device: str) -> None:
        """Open the session; raises PluginError, BundleError.

        Args:
            open_session: returns an `onnxruntime.InferenceSession` that records, or one that does not.
            device: where the places are, `cuda` or `cpu`.
        """
        self._open, self._device = open_session, device
        self._places: dict[tuple[int, ...], _Places] = {}
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
        if shape not in self._places and len(self._places) == SHAPES:
            return np.asarray(self._session.run(["price"], dict(batch), _options(NO_GRAPH))[0])
        if shape not in self._places:
            self._places[shape] = _Places(self._session, batch, self._device, str(len(self._places) + 1))
        places = self._places[shape]
        recorded = self.records and places.records
        if not recorded or places.checked:
            return places.price(batch, recorded=recorded)
        expected, right = places.check(batch)
        if not right:
            del places
            self._places.clear()
            self._session = None  # a GPU need not hold the weights twice
            self._session, self.records = self._open(False), False
        return expected


class _Places:
    """The places of one shape, and how long it took there."""

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
        self._ways = {False: _options(NO_GRAPH), True: _options(graph_id)}
        self._seconds: dict[bool, list[float]] = {False: [], True: []}

    @property
    def records(self) -> bool:
        """Whether the next batch is priced by what is recorded: first not, then so, then what was faster."""
        plain, recorded = self._seconds[False], self._seconds[True]
        if len(recorded) < ROUNDS:
            return len(plain) >= ROUNDS
        return min(recorded[1:]) < min(plain[1:])

    @property
    def checked(self) -> bool:
        """Whether what is recorded has given right prices of several batches."""
        return len(self._seconds[True]) >= ROUNDS

    def check(self, batch: Batch) -> tuple[np.ndarray, bool]:
        """Return the prices of a batch, and whether what is recorded gives them, too."""
        expected = self.price(batch, recorded=False)
        self._price.update_inplace(np.full_like(expected, np.nan))  # so that they are not read again
        try:
            return expected, np.allclose(self.price(batch, recorded=True), expected, rtol=SAME, atol=0)
        except Exception:  # ONNX Runtime's own: something in it cannot be recorded
            return expected, False

    def price(self, batch: Batch, *, recorded: bool) -> np.ndarray:
        """Return the prices of a batch of this shape."""
        started = time.perf_counter()
        for name, value in self._inputs.items():
            value.update_inplace(batch[name])
        self._session.run_with_iobinding(self._binding, self._ways[recorded])
        price = np.array(self._binding.copy_outputs_to_cpu()[0])
        if len(self._seconds[recorded]) <= ROUNDS:
            self._seconds[recorded].append(time.perf_counter() - started)
        return price


def _options(graph_id: str) -> Any:
    from onnxruntime import RunOptions

    options = RunOptions()
    options.add_run_config_entry(GRAPH_ID, graph_id)
    return options
