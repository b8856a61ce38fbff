"""Engines: the one that was asked for or an error, and what `auto` makes of several."""

import json
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pricekit.bundle import open_bundle
from pricekit.core.contracts import Graph
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.engines import choose, loaded
from pricekit.engines import ort as ort_module
from pricekit.engines.choose import open_engine
from pricekit.engines.loaded import LoadedEngine, for_each
from pricekit.engines.ort import load_cpu, tensorrt_options, usable_cpus
from pricekit.errors import BundleError, DataError, PluginError
from pricekit.prediction.predictor import Predictor
from pricekit.preprocess import Inputs
from pricekit.tokens import Tokens

VOCABULARY = 500


@pytest.fixture
def graph(bundle, tmp_path):
    return Graph(open_bundle(bundle).files["model.onnx"], 64, 30, tmp_path / "cache")


@pytest.fixture(autouse=True)
def own_entries(monkeypatch):
    """Leave out the engines of other packages that are installed."""
    kept = {key: entry for key, entry in registry().entries.items() if entry.package == "pricekit"}
    monkeypatch.setattr(registry(), "entries", kept)


@pytest.fixture
def engines(monkeypatch, own_entries):
    """Return a function that registers toy engines by name, each a function of (graph)."""
    module = types.ModuleType("toy_engines")
    monkeypatch.setitem(sys.modules, "toy_engines", module)

    def add(**loads):
        for name, load in loads.items():
            made = type(name, (), {"length_multiple": 16, "load": staticmethod(load), "streams": 2})
            setattr(module, name, made)
            registry().add([Entry("engine", name, f"toy_engines:{name}", "a toy", "toy", "1.0")])

    return add


@pytest.fixture
def small_batches(monkeypatch):
    """Time a few milliseconds of work, which a busy machine does not make as long as `slowed` is."""
    monkeypatch.setattr(choose, "BATCH_TOKENS", (512,))


def slowed(graph):
    priced = load_cpu(graph.model)

    def run(batch):
        time.sleep(0.1)
        return priced(batch)

    return run


def constant(price):
    return lambda graph: lambda batch: np.full(len(batch["features"]), price, np.float32)


def missing(graph):
    raise PluginError("libfast.so is not there")


def test_auto_takes_the_only_engine_that_loads_and_remembers_the_size_of_a_batch(graph, monkeypatch):
    found = open_engine("auto", graph, VOCABULARY)
    assert (found.name, found.streams) == ("ort-cpu", usable_cpus())
    assert found.batch_tokens in choose.BATCH_TOKENS
    monkeypatch.setattr(choose, "_speeds", None)  # the second time nothing is measured
    assert open_engine("auto", graph, VOCABULARY).batch_tokens == found.batch_tokens
    assert open_engine("ort-cpu", graph, VOCABULARY).batch_tokens == found.batch_tokens


def lasting(seconds):
    """An engine whose call lasts `seconds(tokens)`."""

    def load(graph):
        priced = load_cpu(graph.model)

        def run(batch):
            time.sleep(seconds(batch["input_ids"].size))
            return priced(batch)

        return run

    return load


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        (lambda tokens: 0.1, choose.BATCH_TOKENS[-1]),
        (lambda tokens: (tokens / 2048) ** 2, 512),
        (lambda tokens: 0.02 * tokens / 512 if tokens <= 1024 else 0.06, choose.BATCH_TOKENS[-1]),
    ],
)
def test_the_size_of_a_batch_is_what_the_engine_is_fastest_with(graph, engines, monkeypatch, seconds, best):
    monkeypatch.setattr(choose, "LENGTH", 64)
    for module in (choose, loaded):
        monkeypatch.setattr(module, "BATCH_SIZE", 512)
    monkeypatch.setattr(choose, "REPEATS", 1)
    engines(lasting=lasting(seconds))
    assert open_engine("lasting", graph, VOCABULARY).batch_tokens == best


def test_a_quick_engine_is_timed_over_many_batches():
    calls = []

    def price_batch(batch):
        calls.append(1)
        time.sleep(0.001)  # less than it takes to start the threads
        return np.ones(len(batch["input_ids"]), np.float32)

    graph = Graph(b"", 64, 1, Path("unused"))
    assert choose._speeds([LoadedEngine("quick", price_batch, streams=2)], graph, 10).shape == (
        1,
        choose.REPEATS,
    )
    assert len(calls) > 10 * choose.REPEATS


def test_an_engine_is_given_as_many_batches_at_a_time_as_it_says():
    together = threading.Barrier(3, timeout=20)  # breaks where fewer than three call
    for_each(lambda item: together.wait(), range(6), streams=3)


def test_the_first_batch_that_fails_ends_the_others():
    begun = []

    def fail(item):
        begun.append(item)
        time.sleep(0.01)
        raise DataError(f"of {item}")

    for streams in (1, 3):
        begun.clear()
        with pytest.raises(DataError, match="of 0"):
            for_each(fail, range(1000), streams)
        assert len(begun) < 100


def test_auto_takes_the_fastest_and_remembers_it(graph, engines, small_batches):
    loaded = []

    def counted(graph):
        loaded.append(1)
        return slowed(graph)

    engines(slow=counted, gone=missing)
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert json.loads((graph.cache / "engine.json").read_text())["fastest"] == "ort-cpu"
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert loaded == [1]  # the second time nothing was tried


def test_why_a_gpu_is_not_used_is_said_each_time_until_it_is(
    graph, engines, small_batches, monkeypatch, logged
):
    monkeypatch.setattr(choose.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(choose, "GPU", "gone")
    loads = [missing]
    engines(gone=lambda graph: loads[-1](graph))
    for _ in range(3):
        assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
        assert "engine ort-cpu, not the GPU:" in logged()
    loads.append(slowed)
    open_engine("auto", graph, VOCABULARY)
    assert "trying what prices this bundle fastest" in logged()
    open_engine("auto", graph, VOCABULARY)
    assert logged() == ""  # that, too, is remembered


def unreadable(graph):
    raise BundleError("one of its operations is not supported")


def failing(graph):
    def run(batch):
        raise RuntimeError("this shape is not supported")

    return run


def test_auto_goes_on_without_an_engine_that_cannot_run_the_graph(graph, engines):
    engines(unreadable=unreadable, failing=failing)
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    with pytest.raises(BundleError, match="one of its operations"):
        open_engine("unreadable", graph, VOCABULARY)
    with pytest.raises(PluginError, match=r"the engine 'failing' of toy 1\.0 failed while pricing a batch"):
        open_engine("failing", graph, VOCABULARY)


def test_a_graph_that_no_engine_reads_is_the_reference_s_error(graph, engines):
    engines(unreadable=unreadable)
    with pytest.raises(BundleError, match="cannot be loaded"):
        open_engine("auto", replace(graph, model=b"no graph"), VOCABULARY)


@pytest.mark.parametrize("wrong", [constant(1e9), constant(float("nan"))])
def test_an_engine_with_other_prices_is_not_used(graph, engines, wrong):
    engines(wrong=wrong)
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    for _ in range(2):
        with pytest.raises(PluginError, match="engine wrong prices this bundle otherwise than ort-cpu does"):
            open_engine("wrong", graph, VOCABULARY)


def test_the_prices_of_an_engine_are_checked_once(graph, engines, monkeypatch):
    checked, difference = [], choose._difference
    monkeypatch.setattr(choose, "_difference", lambda *prices: checked.append(1) or difference(*prices))
    engines(right=lambda graph: load_cpu(graph.model))
    for _ in range(2):
        assert open_engine("right", graph, VOCABULARY).name == "right"
    assert len(checked) == 1
    assert open_engine("auto", graph, VOCABULARY)  # nothing is known yet of what is fastest
    assert json.loads((graph.cache / "engine.json").read_text())["fastest"]


def unmasked(graph):
    price = load_cpu(graph.model)
    return lambda batch: price({**batch, "attention_mask": np.ones_like(batch["attention_mask"])})


def test_an_engine_that_takes_no_notice_of_the_mask_is_not_used(graph, engines):
    engines(unmasked=unmasked)
    with pytest.raises(PluginError, match="prices this bundle otherwise"):
        open_engine("unmasked", graph, VOCABULARY)
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"


def test_an_alike_graph_is_held_against_the_reference_too(graph, engines, monkeypatch, tmp_path):
    checked, difference = [], choose._difference
    monkeypatch.setattr(choose, "_difference", lambda *prices: checked.append(1) or difference(*prices))
    wrong = [1.0]

    def scaled(graph):
        price, factor = load_cpu(graph.model), wrong[0]
        return lambda batch: price(batch) * factor

    engines(scaled=scaled)
    first = replace(open_engine("scaled", graph, VOCABULARY), batch_tokens=8192)
    other = replace(graph, cache=tmp_path / "second")
    for _ in range(2):
        again = open_engine("scaled", other, VOCABULARY, first)
        assert (again.name, again.batch_tokens) == ("scaled", 8192)
    assert len(checked) == 2  # each graph once
    wrong[0] = 10.0
    third = replace(graph, cache=tmp_path / "third")
    with pytest.raises(PluginError, match="prices this bundle otherwise"):
        open_engine("scaled", third, VOCABULARY, first)
    assert open_engine("auto", third, VOCABULARY, first).name == "ort-cpu"


def test_where_nothing_can_be_kept_it_is_said(graph, logged):
    graph.cache.parent.mkdir(exist_ok=True)
    graph.cache.write_text("a file")
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert "cannot be kept" in logged()


def test_what_was_fastest_and_is_gone_is_not_used(graph, engines, small_batches):
    engines(slow=slowed)
    open_engine("auto", graph, VOCABULARY)
    record = json.loads((graph.cache / "engine.json").read_text())
    engines(gone=missing)
    for text in (
        json.dumps(record | {"fastest": "gone"}),
        "{",
        json.dumps([]),
        json.dumps({"fastest": "slow"}),
        json.dumps(record | {"batch_tokens": {"ort-cpu": float("inf")}}),
        "[" * 100_000,
    ):
        (graph.cache / "engine.json").write_text(text)
        assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"


def test_an_engine_that_was_asked_for_and_cannot_load_is_an_error(graph, engines):
    engines(gone=missing)
    with pytest.raises(PluginError, match=r"libfast\.so"):
        open_engine("gone", graph, VOCABULARY)
    with pytest.raises(PluginError, match=r"available: .*ort-cpu"):
        open_engine("nonsense", graph, VOCABULARY)


@pytest.mark.parametrize("name", ["ort-cuda", "ort-tensorrt"])
def test_a_provider_that_is_not_there_is_an_error_not_the_cpu(graph, name):
    with pytest.raises(PluginError, match=r"has no .*ExecutionProvider.*pricekit\[gpu\]"):
        open_engine(name, graph, VOCABULARY)


def test_a_sum_and_its_norm_stay_two_operations(tmp_path, monkeypatch):
    """Fused they are slower on a CPU; where nothing is switched off, ONNX Runtime does fuse them."""
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


def test_a_provider_that_falls_back_is_an_error(graph, monkeypatch):
    """What ONNX Runtime does where CUDA's libraries are missing: a session on the CPU."""
    import onnxruntime as ort

    whole = ort.InferenceSession
    monkeypatch.setattr(
        ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    monkeypatch.setattr(
        ort, "InferenceSession", lambda m, o, providers, **_: whole(m, o, providers=["CPUExecutionProvider"])
    )
    with pytest.raises(PluginError, match="could not load its CUDAExecutionProvider"):
        open_engine("ort-cuda", graph, VOCABULARY)


def test_a_graph_of_other_inputs_is_refused(graph):
    with pytest.raises(BundleError, match="cannot be loaded"):
        load_cpu(b"not a graph")


def test_tensorrt_is_given_shapes_from_one_to_the_longest(graph):
    options = tensorrt_options(graph)
    assert options["trt_profile_min_shapes"] == "input_ids:1x1,attention_mask:1x1,features:1x30"
    assert options["trt_profile_max_shapes"] == "input_ids:256x64,attention_mask:256x64,features:256x30"


@pytest.mark.parametrize(("precision", "half"), [("fp32", "False"), ("fp16", "True")])
def test_tensorrt_computes_in_the_precision_of_the_bundle(graph, precision, half):
    assert tensorrt_options(replace(graph, precision=precision))["trt_fp16_enable"] == half


@pytest.mark.parametrize("name", ["ort-cuda", "ort-tensorrt"])
def test_a_gpu_that_does_not_answer_is_an_error_with_its_reason(graph, monkeypatch, capsys, name):
    """What ONNX Runtime does where there is no driver; by itself it prints that, and takes the CPU."""
    import onnxruntime as ort

    asked = []
    provider = {"ort-cuda": "CUDAExecutionProvider", "ort-tensorrt": "TensorrtExecutionProvider"}[name]

    def no_driver(self, providers, options, disabled=None):
        self._fallback_providers = ["CPUExecutionProvider"]
        asked.append(dict(providers[:1])[provider])
        raise RuntimeError("CUDA failure 35: CUDA driver version is insufficient")

    monkeypatch.setattr(ort, "get_available_providers", lambda: [provider, "CPUExecutionProvider"])
    monkeypatch.setattr(ort.InferenceSession, "_create_inference_session", no_driver)
    with pytest.raises(PluginError, match=f"could not open the graph with its {provider}: CUDA failure 35"):
        open_engine(name, graph, VOCABULARY)
    assert not capsys.readouterr().out
    if name == "ort-cuda":
        assert [settings["enable_cuda_graph"] for settings in asked] == ["1", "0"]
        assert all(settings["use_tf32"] == "0" for settings in asked)


def watching(seen):
    """An engine that tells what `seen` makes of each batch."""

    def load(graph):
        priced = load_cpu(graph.model)

        def run(batch):
            seen(batch)
            return priced(batch)

        return run

    return load


@pytest.mark.parametrize(("multiple", "most"), [(1, 7), (16, 6)])
def test_the_tokens_of_a_batch_are_counted_with_their_padding(multiple, most):
    lengths = np.full(40, 14)
    inputs = Inputs(
        Tokens(np.ones(lengths.sum(), np.int32), np.arange(41) * 14), np.zeros((40, 1), np.float32), 0
    )
    engine = LoadedEngine("toy", lambda batch: batch["features"], multiple, batch_tokens=100, max_length=64)
    batches = engine.batches(inputs)
    assert max(map(len, batches)) == most
    assert all(engine.batch(inputs, rows)["input_ids"].size <= 100 for rows in batches)


def test_lengths_are_round_up_for_an_engine_that_wants_it(bundle, engines):
    lengths = []
    engines(watching=watching(lambda batch: lengths.append(batch["input_ids"].shape[1])))
    texts = ["a", "Item Name: tea " * 9]
    found = Predictor.load(bundle, "watching").predict(texts)
    assert found == pytest.approx(Predictor.load(bundle, "ort-cpu").predict(texts), rel=1e-5)
    assert {length % 16 for length in lengths} == {0}


def test_no_length_is_round_up_beyond_what_the_engine_was_told(graph, engines):
    shapes = []
    engines(watching=watching(lambda batch: shapes.append(batch["input_ids"].shape)))
    opened = open_engine("watching", replace(graph, max_length=20), VOCABULARY)
    shapes.clear()
    tokens = Tokens(np.zeros(23, np.int32), np.array([0, 20, 23]))
    opened.price(Inputs(tokens, np.zeros((2, 30), np.float32), 0), np.arange(2))
    assert shapes == [(2, 20)]


@pytest.mark.parametrize("price", [float("nan"), float("inf"), 0.0])
def test_what_is_no_price_is_an_error(bundle, engines, price):
    predictor = Predictor.load(bundle, "ort-cpu")
    member = predictor.members[0]
    engine = replace(member.engine, price_batch=constant(price)(None))
    broken = replace(predictor, members=(replace(member, engine=engine),))
    with pytest.raises(BundleError, match=r"2 of 2 rows a price that is not finite or not above 0.*fp32"):
        broken.predict(["tea", "a cup"])


def test_a_reference_that_cannot_price_made_up_rows_is_used_all_the_same(graph, engines, monkeypatch):
    engines(wrong=constant(2.0))
    monkeypatch.setattr("pricekit.engines.ort.load_cpu", lambda model, threads: constant(float("nan"))(None))
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"


def test_several_threads_take_turns(bundle, engines):
    inside, most = [], []

    def seen(batch):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()

    engines(watching=watching(seen))  # two batches at a time
    predictor = Predictor.load(bundle, "watching")
    most.clear()
    rows = [[f"tea \x1d of {name}", "green " * number] for number, name in enumerate("abcdefgh")]
    expected = [predictor.predict(texts) for texts in rows]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(predictor.predict, rows * 4))
    assert all(np.array_equal(one, other) for one, other in zip(found, expected * 4, strict=True))
    assert max(most) <= 2


def test_another_version_of_a_library_is_measured_anew(graph, monkeypatch):
    measured, speeds = [], choose._speeds
    monkeypatch.setattr(choose, "_speeds", lambda *given: measured.append(1) or speeds(*given))
    for _ in range(2):
        open_engine("auto", graph, VOCABULARY)
    before, version = len(measured), choose.metadata.version
    choose._versions_below.cache_clear()
    monkeypatch.setattr(
        choose.metadata, "version", lambda name: "99.0" if name == "onnxruntime" else version(name)
    )
    open_engine("auto", graph, VOCABULARY)
    choose._versions_below.cache_clear()
    assert 0 < before < len(measured)
