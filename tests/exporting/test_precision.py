"""Graphs in half precision and with weights of 8 bits."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from pricekit.engines.ort import load_cpu
from pricekit.errors import ExportError
from pricekit.exporting import export as export_module
from pricekit.exporting import tensors, verify
from pricekit.exporting.export import export_run
from pricekit.exporting.half import rounded, to_half
from pricekit.exporting.precision import Converted, convert
from pricekit.exporting.tensors import first_difference, peaks, worst_piece
from pricekit.exporting.verify import verify_graph
from pricekit.prediction.predictor import Predictor
from pricekit.runs.folder import open_run, read_sample
from pricekit.table import table_of_texts


def chain(*steps, **weights):
    """A graph that takes features (N, 2) through (op, weight or None) and gives `price` (N,)."""
    nodes, name = [], "features"
    for number, (op, weight) in enumerate(steps):
        out = f"t{number}"
        nodes.append(make_node(op, [name, *([weight] if weight else [])], [out], f"{op}_{number}"))
        name = out
    nodes.append(make_node("ReduceMax", [name, "axes"], ["price"], "last", keepdims=0))
    tokens = [
        make_tensor_value_info(n, TensorProto.INT64, ["n", "l"]) for n in ("input_ids", "attention_mask")
    ]
    features = make_tensor_value_info("features", TensorProto.FLOAT, ["n", 2])
    price = make_tensor_value_info("price", TensorProto.FLOAT, ["n"])
    tensors = [numpy_helper.from_array(np.float32(v), n) for n, v in weights.items()]
    tensors.append(numpy_helper.from_array(np.array([1]), "axes"))
    graph = make_graph(nodes, "g", [*tokens, features], [price], tensors)
    return make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=10).SerializeToString()


def mixed(model):
    """The graph with features multiplied with the mask first: nodes of features alone stay in float32."""
    graph = onnx.load_from_string(model)
    for node in graph.graph.node:
        node.input[:] = ["mixed" if name == "features" else name for name in node.input]
    graph.graph.node.insert(0, make_node("Cast", ["attention_mask"], ["seen"], "cast", to=TensorProto.FLOAT))
    graph.graph.node.insert(1, make_node("Mul", ["features", "seen"], ["mixed"], "mix"))
    return graph.SerializeToString()


def rows(*values):
    features = np.array(values, np.float32)
    tokens = np.ones((len(features), 1), np.int64)
    return {"input_ids": tokens, "attention_mask": tokens, "features": features}


def test_only_what_overflows_stays_in_float32():
    graph = mixed(chain(("Abs", None), ("Mul", "big"), ("Div", "big"), ("Sqrt", None), big=1e4))
    batch = rows([9.0, 4.0], [1.0, 16.0])
    found = convert(graph, "fp16", [batch])
    assert found.kept == ["Mul_1", "Div_2"]
    assert load_cpu(found.model)(batch) == pytest.approx(load_cpu(graph)(batch), rel=1e-3)


def test_what_vanishes_is_found_by_running():
    graph = mixed(chain(("Mul", "small"), ("Div", "small"), ("Exp", None), small=1e-9))
    batch = rows([2.0, 3.0])
    found = convert(graph, "fp16", [batch])
    assert set(found.kept) == {"Mul_0", "Div_1"}
    assert load_cpu(found.model)(batch) == pytest.approx([np.exp(3.0)], rel=2e-3)


def test_what_a_difference_has_lost_is_looked_for_where_it_came_from():
    """1000.1 less 1000 is 0 in float16, and the node after it is the first where that is large."""
    graph = mixed(
        chain(("Add", "base"), ("Sub", "base"), ("Mul", "ten"), ("Exp", None), base=1000.0, ten=10.0)
    )
    batch = rows([0.1, 0.0])
    found = convert(graph, "fp16", [batch])
    assert {"Add_0", "Sub_1"} <= set(found.kept)
    assert "Exp_3" not in found.kept
    assert load_cpu(found.computed)(batch) == pytest.approx([np.e], rel=5e-3)


def test_the_graph_that_is_checked_rounds_as_float16_does():
    half = to_half(onnx.load_from_string(chain(("Add", "base"), ("Sub", "base"), base=1000.0)), set())
    batch = rows([0.1, 0.6])
    assert load_cpu(rounded(half).SerializeToString())(batch).tolist() == [0.5]
    assert np.float16(1000) + np.float16(0.6) - np.float16(1000) == 0.5


def test_a_mask_becomes_the_largest_float16():
    graph = mixed(chain(("Add", "mask"), ("Softmax", None), mask=[0.0, np.finfo(np.float32).min]))
    found = convert(graph, "fp16", [rows([3.0, 5.0])])
    assert found.kept == []
    assert load_cpu(found.model)(rows([3.0, 5.0])) == pytest.approx([1.0])


def test_inputs_and_outputs_keep_their_types():
    model = onnx.load_from_string(
        convert(mixed(chain(("Mul", "a"), a=[2.0, 3.0])), "fp16", [rows([1.0, 2.0])]).model
    )
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    assert types["features"] == types["price"] == TensorProto.FLOAT
    assert {t.data_type for t in model.graph.initializer} == {TensorProto.FLOAT16, TensorProto.INT64}
    assert np.unique([n.name for n in model.graph.node], return_counts=True)[1].max() == 1


def test_one_tensor_is_cast_once_however_many_read_it():
    kept = {"Mul_0", "Add_1", "Div_2"}
    graph = onnx.load_from_string(
        chain(("Mul", "a"), ("Add", "a"), ("Div", "a"), ("Exp", None), a=[2.0, 3.0])
    )
    found = to_half(graph, kept)
    assert [n.op_type for n in found.graph.node] == [
        *("Mul", "Add", "Div"),
        "Cast",
        *("Exp", "ReduceMax"),
        "Cast",
    ]
    onnx.checker.check_model(found, full_check=True)


def test_the_node_where_two_graphs_part_is_found():
    one = chain(("Mul", "a"), ("Add", "b"), ("Exp", None), a=2.0, b=1.0)
    two = chain(("Mul", "a"), ("Add", "b"), ("Exp", None), a=2.0, b=1.2)
    assert first_difference(one, two, rows([1.0, 2.0]), 1e-3).name == "Add_1"
    assert first_difference(one, one, rows([1.0, 2.0]), 1e-3) is None


def test_the_inner_tensors_of_a_few_rows_are_held_at_once(monkeypatch):
    graph, held = chain(("Abs", None), ("Mul", "two"), two=2.0), []
    batch = {**rows(*([n, -n] for n in (3.0, 9.0, 1.0, 5.0, 7.0))), "input_ids": np.ones((5, 512), np.int64)}
    real = tensors._open

    def opened(model, kinds):
        run = real(model, kinds)
        return lambda piece: held.append(len(piece["features"])) or run(piece)

    monkeypatch.setattr(tensors, "_open", opened)
    assert peaks(graph, [batch])["price"] == 18
    assert held == [2, 2, 1]


@pytest.mark.parametrize(("row", "price"), [(0, 2.0), (3, np.nan), (4, np.inf), (4, 0.5)])
def test_the_worst_piece_is_where_prices_are_furthest_apart(row, price):
    batch = {"input_ids": np.ones((5, 512), np.int64), "features": np.arange(5)[:, None]}
    found = np.full(5, 1.1)
    found[row] = price
    assert row in worst_piece(batch, np.ones(5), found)["features"]
    assert len(worst_piece(batch, np.ones(5), found[:, None])["features"]) == 2


def test_peaks_are_the_largest_of_all_batches():
    graph = chain(("Mul", "a"), ("Log", None), a=-3.0)
    found = peaks(graph, [rows([1.0, -2.0]), rows([4.0, 5.0])])
    assert found["features"] == 5.0
    assert found["t0"] == 15.0
    assert found["t1"] == np.inf  # the logarithm of a negative number


@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 2e-2), ("int8", 0.2)])
def test_a_run_exports_in_it(run, bundle, tmp_path, precision, tolerance):
    report = export_run(run, tmp_path / "b", precision=precision)
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert manifest["precision"] == precision
    assert manifest["verified"]["smape_change"] == report.smape_change > 0
    texts = ["Item Name: green tea, 12 oz", "Item Name: coffee beans", ""]
    price = Predictor.load(tmp_path / "b").predict(texts)
    assert price == pytest.approx(Predictor.load(bundle).predict(texts), rel=tolerance)
    kinds = {t.data_type for t in onnx.load(tmp_path / "b" / "model.onnx").graph.initializer}
    assert {"fp16": TensorProto.FLOAT16, "int8": TensorProto.INT8}[precision] in kinds
    nodes = {node.name for node in onnx.load(tmp_path / "b" / "model.onnx").graph.node}
    assert set(manifest["float32_nodes"]) <= nodes


def test_the_error_names_the_shape_and_the_node(run, tmp_path, monkeypatch):
    def careless(model, precision, batches):
        graph = onnx.load_from_string(model)
        bias = next(t for t in graph.graph.initializer if t.name == "heads.0.3.bias")
        bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 3, bias.name))
        return Converted(graph.SerializeToString(), graph.SerializeToString(), [])

    monkeypatch.setattr(export_module, "convert", careless)
    with pytest.raises(ExportError, match=r"fp16 graph differs .* it begins at the node \S+ \(Gemm\)"):
        export_run(run, tmp_path / "b", precision="fp16")
    assert list(tmp_path.iterdir()) == []


def test_a_change_of_smape_over_the_limit_is_refused(run, tmp_path, monkeypatch):
    limits = {**verify.LIMITS, "fp16": verify.Limits(2e-2, 1e-9, None)}
    monkeypatch.setattr(verify, "LIMITS", limits)
    with pytest.raises(ExportError, match="changes SMAPE on the run's sample rows by"):
        export_run(run, tmp_path / "b", precision="fp16")
    assert list(tmp_path.iterdir()) == []


def test_a_price_that_depends_on_the_rows_beside_it_is_refused(run, bundle, monkeypatch):
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    graph = (bundle / "model.onnx").read_bytes()
    honest = load_cpu(graph)
    # Few rows are compared with torch: let those pass and alter the large batches alone.
    monkeypatch.setattr(verify, "BATCH_SIZES", (1, 2))
    monkeypatch.setitem(verify.LIMITS, "fp32", verify.Limits(1e-2, 1e-4, 1e-5))
    monkeypatch.setattr(
        verify,
        "load_cpu",
        lambda graph: lambda batch: honest(batch) * (1 + 1e-3 * (len(batch["features"]) > 32)),
    )
    with pytest.raises(ExportError, match=r"depends on the rows beside it: relative difference 0\.001"):
        verify_graph(opened.model, graph, inputs, 64)


def test_every_sample_row_has_the_price_of_the_model(run, bundle, monkeypatch):
    opened = open_run(run)
    sample = read_sample(opened)
    inputs = opened.preprocessor(sample)
    honest = load_cpu((bundle / "model.onnx").read_bytes())
    last = inputs.features[-1]

    def careless(batch):
        """Another price for the one row that is in no shape."""
        return honest(batch) * np.where((batch["features"] == last).all(1), 1.03, 1)

    monkeypatch.setattr(verify, "BATCH_SIZES", (1, 7))
    monkeypatch.setattr(verify, "ALONE", 7)
    monkeypatch.setattr(verify, "load_cpu", lambda graph: careless)
    with pytest.raises(ExportError, match=r"prices 1 of 60 sample rows otherwise .* up to 0\.03"):
        verify_graph(opened.model, b"", inputs, 64, sample.price, precision="fp16")


def test_what_other_rows_overflow_stays_in_float32(run, bundle, tmp_path):
    """A feature of any size is squashed in float32, and a price above 65,504 is a price."""
    graph = chain(
        ("Abs", None), ("Add", "one"), ("Log", None), ("Clip", "low"), ("Exp", None), one=1.0, low=-99.0
    )
    found = convert(graph, "fp16", [rows([1.0, 2.0])])
    few = rows([1e5, 1.0], [-3e38, 5.0])
    assert load_cpu(found.computed)(few) == pytest.approx(load_cpu(graph)(few), rel=1e-3)
    export_run(run, tmp_path / "b", precision="fp16")
    plain = onnx.load(bundle / "model.onnx").graph
    kept = json.loads((tmp_path / "b" / "manifest.json").read_text())["float32_nodes"]
    squashing = {node.op_type for node in plain.node if "features" in node.input}
    assert squashing | {"Exp", "Clip"} <= {node.op_type for node in plain.node if node.name in kept}
    few = Predictor.load(bundle).members[0].preprocessor
    text = "Item Name: Rice Sack, 70000 Count\nValue: 70000.0\nUnit: Count\n"
    halved = rounded(onnx.load(tmp_path / "b" / "model.onnx")).SerializeToString()
    batch = few(table_of_texts([text], "catalog_content")).batch(np.arange(1))
    expected = load_cpu((bundle / "model.onnx").read_bytes())(batch)
    assert load_cpu(halved)(batch) == pytest.approx(expected, rel=2e-2)


def test_a_converter_that_fails_is_one_paragraph():
    with pytest.raises(ExportError, match=r"cannot be converted to int8 .* export it as fp32"):
        convert(b"no graph", "int8", [])
