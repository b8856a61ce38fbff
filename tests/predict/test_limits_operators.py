from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from pricekit.errors import BundleError
from pricekit.predict.limits import _Reader as Reader
from pricekit.predict.limits import check_graph
from tests.predict.hostile import graph, priced_at_one

GOLDEN = sorted(Path("tests/golden").rglob("*.onnx"))
node = helper.make_node


def subgraph():
    return helper.make_graph([], "body", [], [])


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_operators_of_exported_graphs_are_found_and_allowed(path):
    check_graph(path.read_bytes(), "the graph")
    expected = Counter(found.op_type for found in onnx.load(path).graph.node)
    assert Reader().operators(memoryview(path.read_bytes())) == expected


def test_the_graphs_of_transformers_and_lstms_are_allowed():
    from pricekit.nets.lstm import Lstm
    from pricekit.testing.data import batch, ordinary_texts
    from pricekit.testing.models import export_bytes, small_graph, small_model

    lstm = Lstm(Lstm.Options(vocab_size=256, width=8, embedding=8, layers=1))
    tokenizer = lstm.tokenizer(ordinary_texts())
    model = small_model(encoder=lstm.encoder({}, tokenizer, None))
    for found in (small_graph(), export_bytes(model, batch(4, 9))):
        check_graph(found, "the graph")
        assert "domain" not in repr(
            {n.domain for n in onnx.load_from_string(found).graph.node} - {"", "ai.onnx"}
        )


@pytest.mark.parametrize(
    "content",
    [
        priced_at_one([node("ConstantOfShape", ["n"], ["extra"])], {"n": np.array([10**9])}),
        graph([node("Loop", ["n", "go"], ["price"], body=subgraph())]),
        graph([node("If", ["c"], ["price"], then_branch=subgraph(), else_branch=subgraph())]),
        graph([node("Scan", ["x"], ["price"], body=subgraph(), num_scan_inputs=1)]),
        graph([node("EPContext", ["x"], ["price"], domain="com.microsoft")]),
        graph([node("RandomNormal", [], ["price"], shape=[1])]),
        graph([node("StringNormalizer", ["x"], ["price"])]),
        graph([node("", ["x"], ["price"])]),
        priced_at_one(
                functions=[helper.make_function("mine", "Add", ["x"], ["y"], [], [helper.make_opsetid("", 20)])]
            ),
    ],
)  # fmt: skip
def test_other_operators_are_refused_by_name(content, raises):
    with raises(BundleError):
        check_graph(content, "the graph")


def test_operators_hidden_in_a_second_part_of_the_graph_are_found(raises):
    """Parsers merge the parts of a field that occurs several times."""
    second = onnx.ModelProto()
    second.graph.node.append(node("Loop", [], []))
    joined = priced_at_one() + second.SerializeToString()
    assert [found.op_type for found in onnx.load_from_string(joined).graph.node][-1] == "Loop"
    with raises(BundleError, operators=["Loop"]):
        check_graph(joined, "the graph")


@pytest.mark.parametrize("place", ["weight", "attribute", "sparse"])
def test_weights_in_other_files_are_refused(place, raises):
    model = onnx.load_from_string(priced_at_one())
    outside = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1])
    outside.data_location = TensorProto.EXTERNAL
    entry = outside.external_data.add()
    entry.key, entry.value = "location", "secret"
    if place == "weight":
        model.graph.initializer.append(outside)
    elif place == "attribute":
        model.graph.node.append(node("Constant", [], ["c"], value=outside))
    else:
        sparse = model.graph.sparse_initializer.add()
        sparse.values.CopyFrom(outside)
    with raises(BundleError):
        check_graph(model.SerializeToString(), "the graph")


@pytest.mark.parametrize(
    "content",
    [
        b"\x20\x00\x00\x00ORTM" + bytes(40),  # ONNX Runtime's own format
        b"\xba\x80\x80\x80\x80\x01\x00",  # field 7 with bits beyond 32, which parsers drop
        b"\x3b\x3c",  # a group
        b"\x3a\x05abc",
        b"\x38",
        b"\x3a\xff\xff\xff\xff\xff\x01",
        b"\x10\x01" * 1_000_001,
    ],
)
def test_other_bytes_are_damaged(content, raises):
    with raises(BundleError):
        check_graph(content, "the graph")


@given(st.binary(max_size=200))
def test_any_bytes_pass_or_are_refused(content):
    _passes_or_is_refused(content)


@given(st.data())
def test_changed_graphs_pass_or_are_refused_and_the_reader_sees_what_onnx_sees(data):
    content = bytearray(priced_at_one())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if not _passes_or_is_refused(bytes(content)):
        return
    try:
        seen = onnx.load_from_string(bytes(content))
    except Exception:  # not a graph to the parser
        return
    assert Reader().operators(memoryview(bytes(content))) == Counter(n.op_type for n in seen.graph.node)


def _passes_or_is_refused(content):
    try:
        check_graph(content, "the graph")
    except BundleError:
        return False
    return True
