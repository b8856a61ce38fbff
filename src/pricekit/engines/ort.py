"""ONNX Runtime on CPUs, on an NVIDIA GPU, and on an NVIDIA GPU through TensorRT.

If a provider cannot be loaded, ONNX Runtime silently falls back to the CPU; here that is an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.contracts import Batch, Graph, PriceBatch
from pricekit.cpus import usable_cpus
from pricekit.engines.bound import BoundSession
from pricekit.engines.loaded import BATCH_SIZE
from pricekit.errors import BundleError, PluginError
from pricekit.log import logger

INPUTS = ("input_ids", "attention_mask", "features")

_FALLBACKS = {
    "CPUExecutionProvider": (),
    "CUDAExecutionProvider": (),
    "TensorrtExecutionProvider": ("CUDAExecutionProvider",),
}
"""The providers of the operations that a provider does not support; the CPU supports all."""

_SLOW_FUSIONS = {"CPUExecutionProvider": ["SkipLayerNormFusion"]}
"""Fusions that cost time: on a CPU, a sum and its LayerNormalization take a third of the fused time."""


class OrtCpu:
    """The CPUs that this process may use, each with its own batch: one batch on all of them is a fifth slower."""

    length_multiple, batch_tokens = 1, 1024

    @property
    def streams(self) -> int:
        """One batch per CPU."""
        return usable_cpus()

    def load(self, graph: Graph) -> PriceBatch:
        """Open the graph; raises PluginError, BundleError."""
        return load_cpu(graph.model, threads=1)


class OrtCuda:
    """One NVIDIA GPU; recurring batch shapes are recorded as CUDA graphs if that is faster."""

    length_multiple, batch_tokens = 32, 16384

    def load(self, graph: Graph) -> PriceBatch:
        """Open the graph; raises PluginError, BundleError."""

        def session(recording: bool) -> Any:
            # TF32 would round the products of float32 to 10 bits.
            settings = {"use_tf32": "0", "enable_cuda_graph": str(int(recording))}
            return _session(graph.model, "CUDAExecutionProvider", settings)

        return BoundSession(session, "cuda")


class OrtTensorRT:
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


def load_cpu(model: bytes, threads: int | None = None) -> PriceBatch:
    """Open a graph on some threads, by default one per CPU; raises PluginError, BundleError."""
    return _prices(_session(model, "CPUExecutionProvider", {}, threads))


def _prices(session: Any) -> PriceBatch:
    def run(batch: Batch) -> np.ndarray:
        return np.asarray(session.run(["price"], dict(batch))[0])

    return run


def _session(model: bytes, provider: str, settings: Mapping[str, str], threads: int | None = None) -> Any:
    """Open a graph on one provider.

    Loaded from bytes, a graph cannot refer to weights in other files.

    Raises:
        PluginError: onnxruntime or the provider is missing or cannot be loaded.
        BundleError: the graph cannot be loaded, or its inputs and output are not pricekit's.
    """
    ort = _check_provider(provider)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or usable_cpus()
    options.log_severity_level = 3
    # Spinning threads would take the CPU from the tokenizer, and from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(
            model,
            options,
            providers=[(provider, dict(settings)), *_FALLBACKS[provider]],
            disabled_optimizers=_SLOW_FUSIONS.get(provider),
            enable_fallback=0,
        )
    except Exception as error:
        if provider != "CPUExecutionProvider":
            raise PluginError(
                f"ONNX Runtime could not open the graph with its {provider}: {' '.join(str(error).split())}; check "
                "the GPU, its driver and its memory, or choose the engine ort-cpu",
                parameters=("engine",),
                provider=provider,
            ) from error
        raise BundleError(f"the graph cannot be loaded by ONNX Runtime: {error}; export it again") from error
    if session.get_providers()[0] != provider:
        raise PluginError(
            f"ONNX Runtime could not load its {provider}{_missing_library(ort, provider)}; install what is missing, "
            "or choose the engine ort-cpu",
            parameters=("engine",),
            provider=provider,
        )
    found = tuple(i.name for i in session.get_inputs()), tuple(o.name for o in session.get_outputs())
    if set(found[0]) != set(INPUTS) or found[1] != ("price",):
        raise BundleError(
            f"the graph has inputs and outputs {found}, expected {INPUTS} and price; export it again"
        )
    return session


def _check_provider(provider: str) -> Any:
    """Return the module of ONNX Runtime; raises PluginError if it is missing or lacks the provider."""
    extra = "cpu" if provider == "CPUExecutionProvider" else "gpu"
    try:
        import onnxruntime as ort
    except ImportError:
        raise PluginError(
            f"prediction from a bundle needs onnxruntime, which is not installed: pip install 'pricekit[{extra}]'"
        ) from None
    if provider not in ort.get_available_providers():
        raise PluginError(
            f"this onnxruntime {ort.__version__} has no {provider}; install the one for GPUs instead of it: "
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
