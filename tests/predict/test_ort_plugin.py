"""A provider from a package of its own. Package and device are imitated; `tests/runtime` loads the real library."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import onnxruntime as ort
import pytest

from pricekit.errors import PluginError
from pricekit.predict import engines as choose
from pricekit.predict import ort as ort_module
from pricekit.predict.engines import open_engine, sample_inputs
from pricekit.predict.ort import OrtTensorRTX, load_cpu

ENGINE, PROVIDER = "ort-tensorrt-rtx", "NvTensorRTRTXExecutionProvider"
VOCABULARY = 500
GPU = SimpleNamespace(
    ep_name=PROVIDER,
    ep_vendor="NVIDIA",
    ep_metadata={"version": "0.5.0", "library_path": "/a/path"},
    ep_options={"device_id": "0"},
    device=SimpleNamespace(vendor_id=0x10DE, device_id=0x2684, metadata={"pci_bus_id": "0000:01:00.0"}),
)


@pytest.fixture
def provider(monkeypatch, tmp_path):
    """Imitate the package: the CPU prices for its device, and says that it was the provider.

    What is returned decides what happens, and records `settings`, those of the last session.
    """
    package = ModuleType("onnxruntime_ep_nv_tensorrt_rtx")
    package.__version__ = "0.5.0"
    package.get_ep_name = lambda: PROVIDER
    package.get_library_path = lambda: str(tmp_path / "lib.so")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    imitated = SimpleNamespace(
        failure="", devices=[GPU], elsewhere=[], here=["Gemm"], settings=None, factor=np.float32(1)
    )
    whole = ort.InferenceSession

    def register(name, library):
        if imitated.failure:
            raise RuntimeError(f"Failed to load library {library} with error: {imitated.failure}")

    class Options(ort.SessionOptions):
        def add_provider_for_devices(self, devices, settings):
            (imitated.device,) = devices
            imitated.settings = settings

    class Session:
        def __init__(self, model, options, providers, **given):
            self.session = whole(model, providers=["CPUExecutionProvider"])
            self.is_plugin = providers is None

        def __getattr__(self, name):
            return getattr(self.session, name)

        def run(self, names, feeds):
            factor = imitated.factor if self.is_plugin else np.float32(1)
            return [prices * factor for prices in self.session.run(names, feeds)]

        def get_providers(self):
            return [PROVIDER] * self.is_plugin + ["CPUExecutionProvider"]

        def get_provider_graph_assignment_info(self):
            return [
                SimpleNamespace(
                    ep_name=name,
                    get_nodes=lambda kinds=kinds: [SimpleNamespace(op_type=kind) for kind in kinds],
                )
                for name, kinds in (
                    (PROVIDER, imitated.here),
                    ("CPUExecutionProvider", imitated.elsewhere),
                )
            ]

    monkeypatch.setattr(ort, "register_execution_provider_library", register)
    monkeypatch.setattr(ort, "get_ep_devices", lambda: imitated.devices)
    monkeypatch.setattr(ort, "SessionOptions", Options)
    monkeypatch.setattr(ort, "InferenceSession", Session)
    return imitated


def price(engine, graph):
    return engine.price(sample_inputs(graph, VOCABULARY), np.arange(9))


def test_the_device_prices_with_shapes_of_all_lengths_and_a_cache_of_its_own(graph, provider, logged):
    opened = open_engine(ENGINE, graph, VOCABULARY)
    rows = np.arange(9)
    inputs = sample_inputs(graph, VOCABULARY)
    np.testing.assert_allclose(
        opened.price(inputs, rows), open_engine("ort-cpu", graph, VOCABULARY).price(inputs, rows), rtol=1e-5
    )
    assert provider.device is GPU
    cache = graph.cache / "tensorrt-rtx-0.5.0-10de-2684"
    assert cache.is_dir()
    assert provider.settings == {
        "nv_profile_min_shapes": "input_ids:1x1,attention_mask:1x1,features:1x38",
        "nv_profile_opt_shapes": "input_ids:128x64,attention_mask:128x64,features:128x38",
        "nv_profile_max_shapes": "input_ids:256x64,attention_mask:256x64,features:256x38",
        "nv_runtime_cache_path": str(cache),
    }
    assert logged() == ""


def test_without_a_place_for_the_cache_it_prices_all_the_same(graph, provider, logged):
    graph.cache.parent.mkdir(exist_ok=True)
    graph.cache.write_text("a file")
    assert np.isfinite(price(open_engine(ENGINE, graph, VOCABULARY), graph)).all()
    assert "nv_runtime_cache_path" not in provider.settings
    assert "cannot be cached" in logged()


def test_a_library_that_is_registered_already_is_used(graph, provider):
    provider.failure = "EP library is already registered under NvTensorRTRTXExecutionProvider"
    assert open_engine(ENGINE, graph, VOCABULARY).name == ENGINE


@pytest.mark.parametrize(
    "failure",
    [
        "libcuda.so.1: cannot open shared object file: No such file or directory",
        "libz.so.1: cannot open shared object file: No such file or directory",
    ],
)
def test_a_library_that_cannot_be_loaded_is_an_error_with_the_reason(graph, provider, failure, raises):
    provider.failure = failure
    with raises(PluginError, "engine", provider=PROVIDER):
        open_engine(ENGINE, graph, VOCABULARY)


def test_a_machine_without_a_supported_device_is_an_error(graph, provider, monkeypatch, raises):
    from onnxruntime.capi import _pybind_state as state

    provider.devices = []
    gpu, cpu = (SimpleNamespace(type=getattr(state.OrtHardwareDeviceType, kind)) for kind in ("GPU", "CPU"))
    details = {"notes": "there is no support for compute capability 9.0."}
    monkeypatch.setattr(
        state, "get_hardware_device_ep_incompatibility_details", lambda name, device: details, raising=False
    )
    for devices in ([cpu], [cpu, gpu, gpu]):
        monkeypatch.setattr(state, "get_hardware_devices", lambda devices=devices: devices, raising=False)
        with raises(PluginError, "engine", provider=PROVIDER):
            open_engine(ENGINE, graph, VOCABULARY)
    monkeypatch.delattr(state, "get_hardware_devices")  # of older versions of ONNX Runtime
    with raises(PluginError, "engine", provider=PROVIDER):
        open_engine(ENGINE, graph, VOCABULARY)


def test_onnxruntime_with_providers_for_gpus_is_an_error(graph, provider, monkeypatch, raises):
    monkeypatch.setattr(
        ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    monkeypatch.setattr(ort, "__version__", "0.0")
    with raises(PluginError):
        open_engine(ENGINE, graph, VOCABULARY)


def test_a_graph_that_only_the_cpu_would_run_is_an_error(graph, provider, raises):
    """ONNX Runtime lists the provider all the same."""
    provider.here, provider.elsewhere = [], ["Gelu", "Mod", "Gelu"]
    with raises(PluginError, "engine", provider=PROVIDER):
        open_engine(ENGINE, graph, VOCABULARY)


def test_operations_that_the_cpu_runs_cause_a_warning(graph, provider, logged):
    provider.here, provider.elsewhere = ["Gemm"] * 7, ["Gelu", "Mod", "Gelu"]
    open_engine(ENGINE, graph, VOCABULARY)
    assert f"the CPU runs 3 of 10 operations for {PROVIDER}: Gelu, Mod." in logged()


def test_prices_are_compared_with_the_reference(graph, provider, raises):
    provider.factor = np.float32(1.05)
    with raises(PluginError, "engine", kind="engine", name=ENGINE, package="pricekit"):
        price(open_engine(ENGINE, graph, VOCABULARY), graph)


def test_it_tells_what_it_runs_on(provider, raises):
    assert OrtTensorRTX().runs_on() == (
        "NVIDIA 10de:2684, device_id=0, pci_bus_id=0000:01:00.0, version=0.5.0"
    )
    provider.devices = []
    with raises(PluginError, "engine", provider=PROVIDER):
        OrtTensorRTX().runs_on()


def test_a_gpu_that_one_engine_uses_is_not_reported_as_unused(graph, monkeypatch, logged):
    monkeypatch.setattr(choose, "speeds", lambda opened, inputs: np.array([[1.0], [2.0]])[: len(opened)])
    monkeypatch.setattr(choose.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(ort_module.OrtTensorRTX, "load", lambda self, graph: load_cpu(graph.model))
    for _ in range(2):
        assert open_engine("auto", graph, VOCABULARY).name == ENGINE
        assert "cannot be used" not in logged()
