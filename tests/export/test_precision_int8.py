"""Graphs in 8 bits with fixed scales: a row's price depends on its own inputs alone."""

import logging

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnxruntime.quantization import QuantType, quantize_dynamic

from pricekit.config import HeadConfig
from pricekit.errors import ExportError
from pricekit.export import export as export_module
from pricekit.export.export import export_run
from pricekit.export.graph import export_graph
from pricekit.export.precision import Converted, convert, to_int8
from pricekit.io.progress import use_reporter
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel
from pricekit.nets.transformer import SmallTransformer
from pricekit.predict.ort import load_cpu
from tests.export.test_export import Recorder

SPREAD = 1e-5
"""Largest relative difference between a row's price alone and in a batch."""

LONGEST = 24


def batch_of(texts, length=0):
    """Rows with these token ids and different features, padded to the longest row or further."""
    length = max(length, *map(len, texts))
    ids, mask = np.zeros((len(texts), length), np.int64), np.zeros((len(texts), length), np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    features = np.array([[sum(text) % 7, len(text)] for text in texts], np.float32)
    return {"input_ids": ids, "attention_mask": mask, "features": features}


def random_texts(count, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(5, 45, random.integers(1, LONGEST + 1)).tolist() for _ in range(count)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """The float32 graph of a small transformer whose prices depend on its tokens."""
    torch.manual_seed(0)
    backbone = SmallTransformer(SmallTransformer.Options(vocab_size=300, width=32, layers=2, heads=2))
    tokenizer = backbone.tokenizer(f"word{n} {n} oz" for n in range(200))
    model = PriceModel(
        backbone.encoder(backbone.architecture(tokenizer), tokenizer, None), HeadConfig(), smape(), 2
    )
    with torch.no_grad():
        model.heads[0][-1].weight *= 8
    file = tmp_path_factory.mktemp("graphs") / "model.onnx"
    export_graph(model, batch_of([[5, 6, 7], [8, 9]]), file)
    return file.read_bytes()


@pytest.fixture(scope="module")
def rounded(encoder):
    return to_int8(encoder, [batch_of([text]) for text in random_texts(40)])


@pytest.fixture(scope="module")
def price(rounded):
    return load_cpu(rounded)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(5, 44), min_size=1, max_size=LONGEST), min_size=2, max_size=9),
    st.integers(0, 40),
)
def test_a_price_depends_neither_on_other_rows_nor_on_padding(price, texts, length):
    alone = np.concatenate([price(batch_of([text])) for text in texts])
    assert price(batch_of(texts, length)) == pytest.approx(alone, rel=SPREAD)


def test_a_row_has_the_same_price_in_a_batch_of_256(price):
    texts = random_texts(256, seed=1)
    alone = np.concatenate([price(batch_of([text])) for text in texts])
    assert np.log(alone).std() > 0.05  # the text matters
    assert price(batch_of(texts)) == pytest.approx(alone, rel=SPREAD)


def test_prices_are_those_of_float32_but_for_rounding(encoder, price):
    batch = batch_of(random_texts(64, seed=2))
    expected, found = np.log(load_cpu(encoder)(batch)), np.log(price(batch))
    assert 0 < np.abs(found - expected).max() < 0.2 * expected.std()


def test_scales_are_constants_and_products_of_rows_stay_in_float32(rounded):
    graph = onnx.load_from_string(rounded).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    assert not any(node.op_type.startswith("Dynamic") for node in graph.node)
    scaled = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert all(set(node.input[1:]) <= set(constants) for node in scaled)
    assert all(len(node.input) == 3 for node in scaled)  # with a zero point
    products = [node for node in graph.node if node.op_type in ("Gemm", "MatMul")]
    eight = [
        node
        for node in products
        if "DequantizeLinear" in {makers[n].op_type for n in node.input[:2] if n in makers}
    ]
    assert len(eight) == 12  # query, key, value, output and two of the feed-forward layer, twice
    heads = [node for node in products if node.input[1].startswith("heads.")]
    assert heads
    assert all(constants[node.input[1]].data_type == TensorProto.FLOAT for node in heads)


def test_weights_have_7_bits_so_that_no_cpu_overflows(rounded):
    """Without VNNI, a CPU adds two products of uint8 and int8 in int16: 2 · 255 · 64 is below 32,767."""
    graph = onnx.load_from_string(rounded).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    weights = [
        makers[node.input[1]].input[0]
        for node in graph.node
        if node.op_type == "Gemm" and node.input[1] in makers
    ]
    assert weights
    for name in weights:
        values = numpy_helper.to_array(constants[name])
        assert values.dtype == np.int8
        assert 2 * 255 * np.abs(values.astype(int)).max() <= 32767


def small_graph(table, *weights):
    """Look up a table; multiply it by each matrix, add the bias and take the positive part; the price is the mean."""
    tensors = {"table": table, "axes": np.array([1, 2])}
    nodes, name = [make_node("Gather", ["table", "input_ids"], ["found"], "find")], "found"
    for number, (matrix, bias) in enumerate(weights):
        tensors[f"w{number}"], out = np.float32(matrix), f"product{number}"
        nodes.append(make_node("MatMul", [name, f"w{number}"], [out], out))
        if bias is not None:
            tensors[f"b{number}"] = np.float32(bias)
            nodes.append(make_node("Add", [f"b{number}", out], [f"sum{number}"], f"sum{number}"))
            out = f"sum{number}"
        nodes.append(make_node("Relu", [out], [f"relu{number}"], f"relu{number}"))
        name = f"relu{number}"
    nodes.append(make_node("ReduceMean", [name, "axes"], ["price"], "mean", keepdims=0))
    inputs = [
        make_tensor_value_info(n, TensorProto.INT64, ["n", "l"]) for n in ("input_ids", "attention_mask")
    ]
    inputs.append(make_tensor_value_info("features", TensorProto.FLOAT, ["n", 2]))
    price = make_tensor_value_info("price", TensorProto.FLOAT, ["n"])
    constants = [numpy_helper.from_array(value, key) for key, value in tensors.items()]
    graph = make_graph(nodes, "g", inputs, [price], constants)
    return make_model(graph, opset_imports=[make_opsetid("", 20)], ir_version=10).SerializeToString()


def types_of(model):
    return {tensor.name: tensor.data_type for tensor in onnx.load_from_string(model).graph.initializer}


def test_products_with_and_without_bias_and_tables_with_negative_values():
    random = np.random.default_rng(0)
    table = np.float32(random.normal(size=(250, 6)) - 1)
    graph = small_graph(
        table, (random.normal(size=(6, 10)), None), (random.normal(size=(10, 4)), random.normal(size=4))
    )
    batches = [batch_of([text]) for text in random_texts(60)]
    found = load_cpu(to_int8(graph, batches))
    for batch in batches:
        assert found(batch) == pytest.approx(load_cpu(graph)(batch), rel=0.05, abs=0.02)


@pytest.mark.parametrize("outlier", [(7, 3), (slice(None), 3)])
def test_a_table_that_would_lose_its_small_values_stays_in_float32(outlier):
    random = np.random.default_rng(0)
    table = np.float32(random.normal(size=(250, 6)))
    assert types_of(to_int8(small_graph(table), []))["table_8bit"] == TensorProto.INT8
    table[outlier] = 100
    assert types_of(to_int8(small_graph(table), []))["table"] == TensorProto.FLOAT


def test_a_graph_that_is_no_smaller_is_a_warning(caplog):
    table = np.float32(np.random.default_rng(0).normal(size=(2500, 6)))
    with caplog.at_level(logging.WARNING, "pricekit"):
        smaller = convert(small_graph(table), "int8", []).model
        assert len(smaller) < 0.4 * len(small_graph(table))
        assert not caplog.records
        table[7, 3] = 1000
        assert len(convert(small_graph(table), "int8", []).model) > 2 * len(smaller)
    assert "in int8 the graph is no smaller" in caplog.text


def test_calibration_shows_a_bar_and_no_advice(encoder, caplog):
    recorder, batches = Recorder(), [batch_of([text]) for text in random_texts(4)]
    tokens = sum(batch["input_ids"].size for batch in batches)
    with use_reporter(recorder), caplog.at_level(logging.WARNING):
        to_int8(encoder, batches)
    assert recorder.bars == {"calibrating 8 bits": (tokens, tokens)}
    assert not caplog.records


def test_the_export_refuses_scales_that_depend_on_the_batch(run, tmp_path, monkeypatch, raises):
    def dynamic(model, precision, batches):
        graph, out = onnx.load(model), tmp_path / "dynamic.onnx"
        del graph.graph.value_info[:]
        quantize_dynamic(graph, out, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"])
        found = out.read_bytes()
        return Converted(found, found, [])

    monkeypatch.setattr(export_module, "convert", dynamic)
    with raises(ExportError, "precision", precision="int8"):
        export_run(run, tmp_path / "b", precision="int8")
    assert not (tmp_path / "b").exists()
