"""ONNX Runtime on CPUs, on an NVIDIA GPU, and on an NVIDIA GPU through TensorRT.

If a provider cannot be loaded, ONNX Runtime silently falls back to the CPU; here that is an error.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Engine, Graph, PriceBatch
from pricekit.errors import BundleError, PluginError
from pricekit.io.causes import raise_outside_cause
from pricekit.io.cpus import usable_cpus
from pricekit.io.log import logger, onnx_runtime
from pricekit.predict.loaded_engine import BATCH_SIZE
from pricekit.wording import shorten

SHAPES = 64
"""Maximum number of shapes with buffers. Batches of other shapes are priced without buffers."""

ROUNDS = 3
"""Number of batches of a shape that are timed in each mode before one is chosen. The first one is not timed."""

MAX_DIFFERENCE = 1e-3
"""Maximum relative difference between the prices with and without a recorded graph."""

GRAPH_ID = "gpu_graph_id"
NO_GRAPH = "-1"


class BoundSession:
    """Prices batches with a session that may record CUDA graphs.

    If the graph cannot be recorded, because some of its operations run on the CPU, or if a recorded graph returns
    different prices, a session without recording replaces it. ONNX Runtime keeps recorded graphs per thread, so a
    single thread prices all batches.
    """

    def __init__(self, open_session: Callable[[bool], Any], device: str) -> None:
        """Open the session; raises PluginError, BundleError.

        Args:
            open_session: returns an `onnxruntime.InferenceSession`; its argument is whether the session records.
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
        """Whether the recorded graph has returned the right prices for several batches."""
        return len(self._seconds[True]) >= ROUNDS

    def check(self, batch: Batch) -> tuple[np.ndarray, bool]:
        """Return the prices of a batch, and whether the recorded graph returns the same."""
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


GRAPH_INPUTS = ("input_ids", "attention_mask", "features")

_FALLBACKS = {"TensorrtExecutionProvider": ["CUDAExecutionProvider"]}
"""The providers of the operations that a provider does not support; the CPU supports all."""

_SLOW_FUSIONS = {"CPUExecutionProvider": ["SkipLayerNormFusion"]}
"""Fusions that cost time: on a CPU, a sum and its LayerNormalization take a third of the fused time."""


class OrtCpu(Engine):
    """The CPUs that this process may use, each with its own batch: one batch on all of them is a fifth slower."""

    def __init__(self) -> None:
        self.streams = usable_cpus()

    def load(self, graph: Graph) -> PriceBatch:
        """Open the graph; raises PluginError, BundleError."""
        return load_cpu(graph.model)


class OrtCuda(Engine):
    """One NVIDIA GPU; recurring batch shapes are recorded as CUDA graphs if that is faster."""

    length_multiple, batch_tokens = 32, 16384

    def load(self, graph: Graph) -> PriceBatch:
        """Open the graph; raises PluginError, BundleError."""

        def session(recording: bool) -> Any:
            # TF32 would round the products of float32 to 10 bits.
            settings = {"use_tf32": "0", "enable_cuda_graph": str(int(recording))}
            return _session(graph.model, "CUDAExecutionProvider", settings)

        return BoundSession(session, "cuda")


class OrtTensorRT(Engine):
    """One NVIDIA GPU through TensorRT, which compiles the graph once for all shapes."""

    length_multiple, batch_tokens = 32, 16384

    def load(self, graph: Graph) -> PriceBatch:
        """Open the graph, compiled now or before; raises PluginError, BundleError."""
        provider = "TensorrtExecutionProvider"
        _check_provider(provider)
        graph.cache.mkdir(parents=True, exist_ok=True)
        if not any(graph.cache.glob("*.engine")):
            logger.info(
                "TensorRT compiles the graph for this GPU, which takes minutes; the result is cached."
            )
        return _prices(_session(graph.model, provider, tensorrt_options(graph)))


def tensorrt_options(graph: Graph) -> dict[str, str]:
    """Return the provider's options: shapes from one row of one token up, and caches on disk.

    Without minimum, typical and maximum shapes, TensorRT compiles again for each new shape.
    """
    longest = graph.max_length
    sizes = {"min": (1, 1), "opt": (BATCH_SIZE // 2, min(128, longest)), "max": (BATCH_SIZE, longest)}
    profiles = {
        f"trt_profile_{name}_shapes": f"input_ids:{b}x{n},attention_mask:{b}x{n},features:{b}x{graph.features}"
        for name, (b, n) in sizes.items()
    }
    return {
        **profiles,
        "trt_fp16_enable": str(graph.precision == "fp16"),
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": str(graph.cache),
        "trt_timing_cache_enable": "True",
        "trt_timing_cache_path": str(graph.cache),
    }


def load_cpu(model: bytes | Path) -> PriceBatch:
    """Open a graph on one thread of the CPU; raises PluginError, BundleError.

    A file needs less memory than its content. It must be the caller's own, because it may refer to other files.
    """
    return _prices(_session(model, "CPUExecutionProvider", {}))


def _prices(session: Any) -> PriceBatch:
    def run(batch: Batch) -> np.ndarray:
        try:
            return np.asarray(session.run(["price"], dict(batch))[0])
        except Exception as error:  # ONNX Runtime has its own classes
            raise_outside_cause(error)
            rows, length = batch["input_ids"].shape
            raise BundleError(
                f"the graph cannot price a batch of {rows} rows and {length} tokens: {shorten(str(error), 300)}; "
                "export the run again, and do not trust a bundle of others that does this",
                shape=(rows, length),
            ) from error

    return run


def _session(model: bytes | Path, provider: str, settings: Mapping[str, str]) -> Any:
    """Open a graph on one provider.

    Loaded from bytes, a graph cannot refer to weights in other files.

    Raises:
        PluginError: onnxruntime or the provider is missing or cannot be loaded.
        BundleError: the graph cannot be loaded, or its inputs and output are not pricekit's.
    """
    ort = _check_provider(provider)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1 if provider == "CPUExecutionProvider" else usable_cpus()
    # Spinning threads would take CPU time from the tokenizer and from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(
            model,
            options,
            providers=[(provider, dict(settings)), *_FALLBACKS.get(provider, [])],
            disabled_optimizers=_SLOW_FUSIONS.get(provider),
            enable_fallback=0,
        )
    except Exception as error:
        raise_outside_cause(error)
        if provider != "CPUExecutionProvider":
            raise PluginError(
                f"ONNX Runtime could not open the graph with its {provider}: {shorten(str(error), 400)}; check "
                "the GPU, its driver and its memory, or choose the engine ort-cpu",
                parameters=("engine",),
                provider=provider,
            ) from error
        raise BundleError(
            f"the graph cannot be loaded by ONNX Runtime: {shorten(str(error), 400)}; export it again"
        ) from error
    if session.get_providers()[0] != provider:
        raise PluginError(
            f"ONNX Runtime could not load its {provider}{_missing_library(ort, provider)}; install what is missing, "
            "or choose the engine ort-cpu",
            parameters=("engine",),
            provider=provider,
        )
    _check_ends(session)
    return session


def _check_ends(session: Any) -> None:
    """Raise BundleError if a graph has other inputs and outputs than pricekit's."""
    expected = (
        {**dict.fromkeys(GRAPH_INPUTS, "tensor(int64)"), "features": "tensor(float)"},
        {"price": "tensor(float)"},
    )
    actual = tuple(
        {end.name: end.type for end in ends} for ends in (session.get_inputs(), session.get_outputs())
    )
    if actual != expected:
        shown = shorten(" and ".join(map(str, actual)), 400)
        raise BundleError(
            f"the graph has inputs and outputs {shown}; expected {expected[0]} and {expected[1]}. Export it again"
        )


def _check_provider(provider: str) -> Any:
    """Return the module of ONNX Runtime; raises PluginError if it is missing or lacks the provider."""
    extra = "cpu" if provider == "CPUExecutionProvider" else "gpu"
    try:
        ort = onnx_runtime()
    except ImportError:
        raise PluginError(
            f"prediction from a bundle needs onnxruntime, which is not installed: pip install 'pricekit[{extra}]'"
        ) from None
    if provider not in ort.get_available_providers():
        raise PluginError(
            f"this onnxruntime {ort.__version__} has no {provider}; replace it with the version for GPUs: "
            "pip uninstall onnxruntime && pip install 'pricekit[gpu]'"
        )
    if provider != "CPUExecutionProvider" and hasattr(ort, "preload_dlls"):
        ort.preload_dlls()  # CUDA's libraries, if they are installed as Python packages
    return ort


def _missing_library(ort: Any, provider: str) -> str:
    """Return the loader's message about the provider's library, "" if it loads."""
    name = provider.removesuffix("ExecutionProvider").lower()
    for library in (Path(ort.__file__).parent / "capi").glob(f"*providers_{name}.*"):
        try:
            ctypes.CDLL(str(library))
        except OSError as error:
            return f": {error}"
    return ""
