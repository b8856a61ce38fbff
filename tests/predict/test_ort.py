"""ONNX Runtime: providers that are missing or fail are errors."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from pricekit.errors import BundleError, PluginError
from pricekit.predict import ort as ort_module
from pricekit.predict.engines import open_engine
from pricekit.predict.ort import load_cpu, tensorrt_options

VOCABULARY = 500


@pytest.mark.parametrize("name", ["ort-cuda", "ort-tensorrt", "ort-tensorrt-rtx"])
def test_a_missing_provider_is_an_error_and_not_replaced_by_the_cpu(graph, name, monkeypatch, raises):
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_nv_tensorrt_rtx", None)
    with raises(PluginError):
        open_engine(name, graph, VOCABULARY)


def test_a_sum_and_its_norm_stay_two_operations(tmp_path, monkeypatch):
    """The fused operation is slower on a CPU, and ONNX Runtime fuses them unless this is disabled."""
    import onnx
    import onnxruntime as ort

    whole, kept = ort.InferenceSession, tmp_path / "optimized.onnx"

    def keeping(model, options, **given):
        options.optimized_model_filepath = str(kept)
        return whole(model, options, **given)

    monkeypatch.setattr(ort, "InferenceSession", keeping)
    for slower, fused in ((ort_module._SLOW_FUSIONS, False), ({}, True)):
        monkeypatch.setattr(ort_module, "_SLOW_FUSIONS", slower)
        load_cpu(sum_and_norm())
        kinds = {node.op_type for node in onnx.load(kept).graph.node}
        assert ("SkipLayerNormalization" in kinds, "LayerNormalization" in kinds) == (fused, not fused)


def sum_and_norm():
    """Return a graph whose price is a LayerNormalization of a sum."""
    from onnx import TensorProto, helper, numpy_helper

    floats, ids = TensorProto.FLOAT, TensorProto.INT64
    weights = {"table": np.ones((9, 4)), "scale": np.ones(4), "bias": np.zeros(4)}
    nodes = [
        ("Gather", ["table", "input_ids"], "tokens"),
        ("Gather", ["table", "attention_mask"], "more"),
        ("Add", ["tokens", "more"], "sum"),
        ("LayerNormalization", ["sum", "scale", "bias"], "normed"),
        ("ReduceMean", ["normed", "axes"], "mean"),
        ("ReduceMean", ["features", "axis"], "of_features"),
        ("Add", ["mean", "of_features"], "price"),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes],
        "sum_and_norm",
        [
            helper.make_tensor_value_info("input_ids", ids, ["B", "L"]),
            helper.make_tensor_value_info("attention_mask", ids, ["B", "L"]),
            helper.make_tensor_value_info("features", floats, ["B", 1]),
        ],
        [helper.make_tensor_value_info("price", floats, None)],
        [
            *(numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()),
            numpy_helper.from_array(np.array([1, 2]), "axes"),
            numpy_helper.from_array(np.array([1]), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    return model.SerializeToString()


def test_a_provider_that_falls_back_is_an_error(graph, monkeypatch, raises):
    """Without CUDA's libraries, ONNX Runtime opens a session on the CPU."""
    import onnxruntime as ort

    whole = ort.InferenceSession
    monkeypatch.setattr(
        ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    monkeypatch.setattr(
        ort, "InferenceSession", lambda m, o, providers, **_: whole(m, o, providers=["CPUExecutionProvider"])
    )
    with raises(PluginError, "engine", provider="CUDAExecutionProvider"):
        open_engine("ort-cuda", graph, VOCABULARY)


def test_a_graph_with_other_inputs_is_rejected(graph, raises):
    with raises(BundleError):
        load_cpu(b"not a graph")


def test_tensorrt_gets_shapes_from_one_to_the_longest(graph):
    options = tensorrt_options(graph)
    assert options["trt_profile_min_shapes"] == "input_ids:1x1,attention_mask:1x1,features:1x38"
    assert options["trt_profile_max_shapes"] == "input_ids:256x64,attention_mask:256x64,features:256x38"


@pytest.mark.parametrize(("precision", "half"), [("fp32", "False"), ("fp16", "True")])
def test_tensorrt_computes_in_the_precision_of_the_bundle(graph, precision, half):
    assert tensorrt_options(replace(graph, precision=precision))["trt_fp16_enable"] == half


@pytest.mark.parametrize("name", ["ort-cuda", "ort-tensorrt"])
def test_an_unresponsive_gpu_is_an_error_with_a_reason(graph, monkeypatch, capsys, name, raises):
    """Without a driver, ONNX Runtime prints a message and uses the CPU."""
    import onnxruntime as ort

    asked = []
    provider = {"ort-cuda": "CUDAExecutionProvider", "ort-tensorrt": "TensorrtExecutionProvider"}[name]

    def no_driver(self, providers, options, disabled=None):
        self._fallback_providers = ["CPUExecutionProvider"]
        asked.append(dict(providers[:1])[provider])
        raise RuntimeError("CUDA failure 35: CUDA driver version is insufficient")

    monkeypatch.setattr(ort, "get_available_providers", lambda: [provider, "CPUExecutionProvider"])
    monkeypatch.setattr(ort.InferenceSession, "_create_inference_session", no_driver)
    with raises(PluginError, "engine"):
        open_engine(name, graph, VOCABULARY)
    assert not capsys.readouterr().out
    if name == "ort-cuda":
        assert [settings["enable_cuda_graph"] for settings in asked] == ["1", "0"]
        assert all(settings["use_tf32"] == "0" for settings in asked)
