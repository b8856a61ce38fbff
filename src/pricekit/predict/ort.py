"""ONNX Runtime on CPUs, on an NVIDIA GPU, and on an NVIDIA GPU through TensorRT or TensorRT for RTX.

If a provider cannot be loaded, or supports no operation of the graph, ONNX Runtime silently falls back to the CPU; here
that is an error.
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Engine, Graph, PriceBatch
from pricekit.errors import BundleError, PluginError
from pricekit.io.causes import raise_outside_cause
from pricekit.io.cpus import usable_cpus
from pricekit.io.log import logger, onnx_runtime
from pricekit.predict.loaded_engine import BATCH_SIZE
from pricekit.wording import counted, shorten

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
PRICE, EMBEDDING = "price", "embedding"
"""The outputs of a graph; most have only the first."""

_FALLBACKS = {"TensorrtExecutionProvider": ["CUDAExecutionProvider"]}
"""The providers of the operations that a provider does not support; the CPU supports all."""

_OF_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1", "nvcuda.dll")
"""Libraries that only NVIDIA's driver contains."""

_SLOW_FUSIONS = {"CPUExecutionProvider": ["SkipLayerNormFusion"]}
"""Fusions that cost time: on a CPU, a sum and its LayerNormalization take a third of the fused time."""


class OrtCpu(Engine):
    """The CPUs that this process may use, each with its own batch: one batch on all of them is a fifth slower."""

    def __init__(self) -> None:
        self.streams = usable_cpus()

    def load(self, graph: Graph) -> PriceBatch:
        """Open the graph; raises PluginError, BundleError."""
        return load_cpu(graph.model)

    def runs_on(self) -> str:
        """Return the number of CPUs; raises PluginError."""
        _check_provider("CPUExecutionProvider")
        return counted(self.streams, "CPU")


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

    def runs_on(self) -> str:
        """Return that the libraries load; raises PluginError."""
        return _loads("CUDAExecutionProvider")


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
        return _output(_session(graph.model, provider, tensorrt_options(graph)))

    def runs_on(self) -> str:
        """Return that the libraries load; raises PluginError."""
        return _loads("TensorrtExecutionProvider")


class OrtTensorRTX(Engine):
    """One NVIDIA GPU through TensorRT for RTX, a provider whose package contains its libraries.

    It computes in the precision of the graph. It compiles the graph each time; the kernels for the GPU are cached.
    """

    length_multiple, batch_tokens = 32, 16384

    def __init__(self) -> None:
        self._provider = PluginProvider("onnxruntime_ep_nv_tensorrt_rtx", "pricekit[tensorrt]")

    def load(self, graph: Graph) -> PriceBatch:
        """Open the graph; raises PluginError, BundleError."""
        device = self._provider.device()
        settings = shape_profiles(graph, "nv")
        gpu = f"{device.device.vendor_id:04x}-{device.device.device_id:04x}"
        cache = graph.cache / f"tensorrt-rtx-{self._provider.version}-{gpu}"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            settings["nv_runtime_cache_path"] = str(cache)
        except OSError as error:
            logger.warning(f"the compiled kernels cannot be cached in {cache}: {error.strerror or error}.")
        return _output(_session(graph.model, device.ep_name, settings, device))

    def runs_on(self) -> str:
        """Return the GPU and its options; raises PluginError."""
        device = self._provider.device()
        facts = {**device.device.metadata, **device.ep_metadata, **device.ep_options}
        facts.pop("library_path", None)
        name = f"{device.ep_vendor} {device.device.vendor_id:04x}:{device.device.device_id:04x}"
        return ", ".join([name, *(f"{key}={value}" for key, value in sorted(facts.items()))])


class PluginProvider:
    """A provider in a package of its own, which ONNX Runtime loads by name: `onnxruntime-ep-NAME`.

    Attributes:
        package: the name of the package.
        version: that of the package, once it is imported.
    """

    def __init__(self, module: str, install: str) -> None:
        """Name the provider; nothing is imported yet.

        Args:
            module: of the package; it has `get_ep_name` and `get_library_path`.
            install: what pip installs to get it.
        """
        self.package, self.version = module.replace("_", "-"), ""
        self._module, self._install = module, install

    def device(self) -> Any:
        """Return the first `onnxruntime.OrtEpDevice` of the provider, whose library is registered now or before.

        Raises:
            PluginError: the package or a library is missing, this onnxruntime has GPU providers of its own, or the
                provider supports no device of this machine.
        """
        ort = _check_provider("CPUExecutionProvider")
        if "CUDAExecutionProvider" in ort.get_available_providers():
            raise PluginError(
                f"{self.package} needs the package onnxruntime, and onnxruntime-gpu {ort.__version__} is installed: "
                f"pip uninstall onnxruntime onnxruntime-gpu && pip install '{self._install}'"
            )
        try:
            module = import_module(self._module)
        except ImportError as error:
            raise PluginError(
                f"the package {self.package} cannot be imported ({error}): pip install '{self._install}'"
            ) from error
        self.version = getattr(module, "__version__", "")
        name = module.get_ep_name()
        self._register(ort, name, Path(module.get_library_path()))
        if device := next((each for each in ort.get_ep_devices() if each.ep_name == name), None):
            return device
        raise PluginError(
            f"{self.package} {self.version} supports no device of this machine{_reasons(name)}; choose another engine",
            parameters=("engine",),
            provider=name,
        )

    def _register(self, ort: Any, name: str, library: Path) -> None:
        """Register the library, unless it is; raises PluginError."""
        try:
            for runtime in library.parent.glob("libcudart.so.*"):
                ctypes.CDLL(str(runtime))  # the library needs it, and does not look for it beside itself
            ort.register_execution_provider_library(name, str(library))
        except Exception as error:  # ONNX Runtime has its own classes
            raise_outside_cause(error)
            if "already registered" in str(error):
                return
            reason = shorten(str(error), 400)
            if missing := next((each for each in _OF_DRIVER if each in reason), ""):
                reason = f"there is no NVIDIA driver ({missing} is missing); install it, start the container with GPUs"
            raise PluginError(
                f"{self.package} {self.version} cannot be loaded: {reason}, or choose another engine",
                parameters=("engine",),
                provider=name,
            ) from error


def _reasons(provider: str) -> str:
    """Return what a provider says against each GPU of this machine, in parentheses."""
    notes: list[str] = []
    # ONNX Runtime has no public name for this; older versions, and some providers, lack it.
    with suppress(Exception):
        from onnxruntime.capi import _pybind_state as state

        gpus = [each for each in state.get_hardware_devices() if each.type == state.OrtHardwareDeviceType.GPU]
        details = [state.get_hardware_device_ep_incompatibility_details(provider, gpu) for gpu in gpus]
        notes = [shorten(str(each["notes"]).rstrip("."), 300) for each in details if each["notes"]]
        if not gpus:
            notes = ["ONNX Runtime sees no GPU"]
    return f" ({'; '.join(dict.fromkeys(notes))})" if notes else ""


def shape_profiles(graph: Graph, prefix: str) -> dict[str, str]:
    """Return TensorRT's options for shapes from one row of one token up; their names begin with the prefix.

    Without minimum, typical and maximum shapes, TensorRT compiles again for each new shape.
    """
    longest = graph.max_length
    sizes = {"min": (1, 1), "opt": (BATCH_SIZE // 2, min(128, longest)), "max": (BATCH_SIZE, longest)}
    return {
        f"{prefix}_profile_{name}_shapes": f"input_ids:{b}x{n},attention_mask:{b}x{n},features:{b}x{graph.features}"
        for name, (b, n) in sizes.items()
    }


def tensorrt_options(graph: Graph) -> dict[str, str]:
    """Return the provider's options: shapes, precision, and caches on disk."""
    return {
        **shape_profiles(graph, "trt"),
        "trt_fp16_enable": str(graph.precision == "fp16"),
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": str(graph.cache),
        "trt_timing_cache_enable": "True",
        "trt_timing_cache_path": str(graph.cache),
    }


def load_cpu(model: bytes | Path, threads: int = 1, output: str = PRICE) -> PriceBatch:
    """Open a graph on some threads of the CPU; raises PluginError, BundleError.

    A file needs less memory than its content. It must be the caller's own, because it may refer to other files.

    Args:
        model: the graph.
        threads: of a batch.
        output: what the function returns: prices, or the embeddings of a graph that has them, float32 (B, H).
    """
    return _output(_session(model, "CPUExecutionProvider", {}, threads=threads), output)


def _output(session: Any, name: str = PRICE) -> PriceBatch:
    """Return a function that computes one output of a batch; embeddings without heads and features, which follow."""
    options = []
    if name != PRICE:
        from onnxruntime import RunOptions

        options = [RunOptions()]
        options[0].only_execute_path_to_fetches = True

    def run(batch: Batch) -> np.ndarray:
        try:
            return np.asarray(session.run([name], dict(batch), *options)[0])
        except Exception as error:  # ONNX Runtime has its own classes
            raise_outside_cause(error)
            rows, length = batch["input_ids"].shape
            raise BundleError(
                f"the graph cannot price a batch of {rows} rows and {length} tokens: {shorten(str(error), 300)}; "
                "export the run again, and do not trust a bundle of others that does this",
                shape=(rows, length),
            ) from error

    return run


def _session(
    model: bytes | Path,
    provider: str,
    settings: Mapping[str, str],
    device: Any = None,
    threads: int | None = None,
) -> Any:
    """Open a graph on one provider.

    Loaded from bytes, a graph cannot refer to weights in other files.

    Args:
        model: the graph.
        provider: the name of the provider.
        settings: its options.
        device: of a `PluginProvider`.
        threads: of a batch; None: one for each usable CPU.

    Raises:
        PluginError: onnxruntime or the provider is missing or cannot be loaded, or it supports no part of the graph.
        BundleError: the graph cannot be loaded, or its inputs and output are not pricekit's.
    """
    ort = _check_provider(provider if device is None else "CPUExecutionProvider")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or usable_cpus()
    # Spinning threads would take CPU time from the tokenizer and from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if isinstance(model, Path):
        options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    providers: list[Any] | None = None
    if device is None:
        providers = [(provider, dict(settings)), *_FALLBACKS.get(provider, [])]
    else:
        options.add_provider_for_devices([device], dict(settings))
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        session = ort.InferenceSession(
            model,
            options,
            providers=providers,
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
        raise _not_loaded(provider, _missing_library(ort, provider))
    if device is not None:
        _check_assignment(session, provider)
    _check_ends(session)
    return session


def _check_assignment(session: Any, provider: str) -> None:
    """Warn of operations that the CPU runs instead of the provider; raise PluginError if it runs all of them."""
    kinds: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for part in session.get_provider_graph_assignment_info():
        kinds[part.ep_name == provider].update(node.op_type for node in part.get_nodes())
    here, elsewhere = kinds[True].total(), kinds[False].total()
    names = shorten(", ".join(sorted(kinds[False])), 200)
    if not here:
        raise PluginError(
            f"{provider} supports no operation of this graph, so the CPU would run all of them ({names}); choose "
            "another engine",
            parameters=("engine",),
            provider=provider,
        )
    if elsewhere:
        logger.warning(f"the CPU runs {elsewhere} of {here + elsewhere} operations for {provider}: {names}.")


def _check_ends(session: Any) -> None:
    """Raise BundleError if a graph has other inputs and outputs than pricekit's."""
    inputs = {**dict.fromkeys(GRAPH_INPUTS, "tensor(int64)"), "features": "tensor(float)"}
    outputs = dict.fromkeys((PRICE, EMBEDDING), "tensor(float)")
    actual = [{end.name: end.type for end in ends} for ends in (session.get_inputs(), session.get_outputs())]
    if actual[0] != inputs or actual[1] not in ({PRICE: outputs[PRICE]}, outputs):
        shown = shorten(" and ".join(map(str, actual)), 400)
        raise BundleError(
            f"the graph has inputs and outputs {shown}; expected {inputs} and {outputs}, of which the second may be "
            "missing. Export it again"
        )


def _loads(provider: str) -> str:
    """Return that the libraries of a provider of onnxruntime-gpu load; raises PluginError."""
    if reason := _missing_library(_check_provider(provider), provider):
        raise _not_loaded(provider, reason)
    return "its libraries load"


def _not_loaded(provider: str, reason: str) -> PluginError:
    return PluginError(
        f"ONNX Runtime could not load its {provider}{reason}; install what is missing, or choose the engine ort-cpu",
        parameters=("engine",),
        provider=provider,
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
