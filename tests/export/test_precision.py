"""Graphs in float16 and with 8-bit weights."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from pricekit.errors import ExportError
from pricekit.export import export as export_module
from pricekit.export import precision as precision_module
from pricekit.export.export import export_run
from pricekit.export.precision import Converted, convert, simulate_float16
from pricekit.predict.ort import load_cpu
from pricekit.predict.predictor import Predictor
from pricekit.table import table_of_texts
from tests.export.graphs import chain, mixed, rows


def test_only_what_overflows_stays_in_float32():
    graph = mixed(chain(("Abs", None), ("Mul", "big"), ("Div", "big"), ("Sqrt", None), big=1e4))
    batch = rows([9.0, 4.0], [1.0, 16.0])
    found = convert(graph, "fp16", [batch])
    assert found.float32_nodes == ["Mul_1", "Div_2"]
    assert load_cpu(found.model)(batch) == pytest.approx(load_cpu(graph)(batch), rel=1e-3)


def test_underflow_is_found_by_running():
    graph = mixed(chain(("Mul", "small"), ("Div", "small"), ("Exp", None), small=1e-9))
    batch = rows([2.0, 3.0])
    found = convert(graph, "fp16", [batch])
    assert set(found.float32_nodes) == {"Mul_0", "Div_1"}
    assert load_cpu(found.model)(batch) == pytest.approx([np.exp(3.0)], rel=2e-3)


def test_a_batch_with_a_wide_range_of_prices_does_not_end_the_search():
    """Rounding 1000 changes that price by more than 1% of the other one, 1; the price of the next batch is lost."""
    graph = mixed(chain(("Mul", "small"), ("Div", "small"), small=1e-4))
    wide, lost = rows([1000.3, 1.0], [1.0, 0.5]), rows([1e-3, 0.0])
    found = convert(graph, "fp16", [wide, lost])
    assert "Mul_0" in found.float32_nodes
    assert load_cpu(found.simulated)(lost) == pytest.approx([1e-3], rel=1e-2)


def test_a_difference_is_traced_to_its_cause():
    """1000.1 - 1000 is 0 in float16, and the following node is the first with a large difference."""
    graph = mixed(
        chain(("Add", "base"), ("Sub", "base"), ("Mul", "ten"), ("Exp", None), base=1000.0, ten=10.0)
    )
    batch = rows([0.1, 0.0])
    found = convert(graph, "fp16", [batch])
    assert {"Add_0", "Sub_1"} <= set(found.float32_nodes)
    assert "Exp_3" not in found.float32_nodes
    assert load_cpu(found.simulated)(batch) == pytest.approx([np.e], rel=5e-3)


def test_a_graph_that_repairs_do_not_help_is_left_to_its_verification(run, tmp_path, monkeypatch):
    monkeypatch.setattr(precision_module, "MAX_REPAIRS", 1)
    chained = chain(("Add", "base"), ("Sub", "base"), ("Mul", "ten"), ("Exp", None), base=1000.0, ten=10.0)
    found = convert(mixed(chained), "fp16", [batch := rows([0.1, 0.0])])
    assert load_cpu(found.simulated)(batch) != pytest.approx([np.e], rel=0.1)
    monkeypatch.setattr(precision_module, "TOLERANCE", 0.0)
    assert export_run(run, tmp_path / "b", precision="fp16").largest_difference > 0


def test_a_mask_becomes_the_largest_float16():
    graph = mixed(chain(("Add", "mask"), ("Softmax", None), mask=[0.0, np.finfo(np.float32).min]))
    found = convert(graph, "fp16", [rows([3.0, 5.0])])
    assert found.float32_nodes == []
    assert load_cpu(found.model)(rows([3.0, 5.0])) == pytest.approx([1.0])


def test_inputs_and_outputs_keep_their_types():
    model = onnx.load_from_string(
        convert(mixed(chain(("Mul", "a"), a=[2.0, 3.0])), "fp16", [rows([1.0, 2.0])]).model
    )
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    assert types["features"] == types["price"] == TensorProto.FLOAT
    assert {t.data_type for t in model.graph.initializer} == {TensorProto.FLOAT16, TensorProto.INT64}
    assert np.unique([n.name for n in model.graph.node], return_counts=True)[1].max() == 1


@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 2e-2), ("int8", 0.2)])
def test_the_cli_exports_a_run_in_this_precision(run, bundle, tmp_path, precision, tolerance):
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


def test_the_error_names_the_shape_and_the_node(run, tmp_path, monkeypatch, raises):
    def careless(model, precision, batches):
        graph = onnx.load(model)
        bias = next(t for t in graph.graph.initializer if t.name == "heads.0.3.bias")
        bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 3, bias.name))
        altered = graph.SerializeToString()
        return Converted(altered, altered, [])

    monkeypatch.setattr(export_module, "convert", careless)
    with raises(ExportError, "precision", precision="fp16"):
        export_run(run, tmp_path / "b", precision="fp16")
    assert list(tmp_path.iterdir()) == []


def test_nodes_that_may_overflow_for_other_rows_stay_in_float32(run, bundle, tmp_path):
    """Features of any size are squashed in float32, and prices above 65,504 are valid."""
    graph = chain(
        ("Abs", None), ("Add", "one"), ("Log", None), ("Clip", "low"), ("Exp", None), one=1.0, low=-99.0
    )
    found = convert(graph, "fp16", [rows([1.0, 2.0])])
    few = rows([1e5, 1.0], [-3e38, 5.0])
    assert load_cpu(found.simulated)(few) == pytest.approx(load_cpu(graph)(few), rel=1e-3)
    export_run(run, tmp_path / "b", precision="fp16")
    plain = onnx.load(bundle / "model.onnx").graph
    kept = json.loads((tmp_path / "b" / "manifest.json").read_text())["float32_nodes"]
    squashing = {node.op_type for node in plain.node if "features" in node.input}
    assert squashing | {"Exp", "Clip"} <= {node.op_type for node in plain.node if node.name in kept}
    few = Predictor.load(bundle).members[0].preprocessor
    text = "Item Name: Rice Sack, 70000 Count\nValue: 70000.0\nUnit: Count\n"
    halved = simulate_float16(onnx.load(tmp_path / "b" / "model.onnx")).SerializeToString()
    batch = few(table_of_texts([text], "catalog_content")).batch(np.arange(1))
    expected = load_cpu((bundle / "model.onnx").read_bytes())(batch)
    assert load_cpu(halved)(batch) == pytest.approx(expected, rel=2e-2)


def test_a_converter_that_fails_is_one_paragraph(raises):
    with raises(ExportError, "precision", precision="int8"):
        convert(b"no graph", "int8", [])
