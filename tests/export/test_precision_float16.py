"""Converting graphs to float16, and simulating float16 on a CPU."""

import numpy as np
import onnx

from pricekit.export.precision import simulate_float16, to_float16
from pricekit.predict.ort import load_cpu
from tests.export.graphs import chain, rows


def test_the_graph_that_is_checked_rounds_as_float16_does():
    half = to_float16(chain(("Add", "base"), ("Sub", "base"), base=1000.0), set())
    batch = rows([0.1, 0.6])
    assert load_cpu(simulate_float16(half).SerializeToString())(batch).tolist() == [0.5]
    assert np.float16(1000) + np.float16(0.6) - np.float16(1000) == 0.5


def test_one_tensor_is_cast_once_however_many_read_it():
    kept = {"Mul_0", "Add_1", "Div_2"}
    graph = chain(("Mul", "a"), ("Add", "a"), ("Div", "a"), ("Exp", None), a=[2.0, 3.0])
    found = to_float16(graph, kept)
    assert [n.op_type for n in found.graph.node] == [
        *("Mul", "Add", "Div"),
        "Cast",
        *("Exp", "ReduceMax"),
        "Cast",
    ]
    onnx.checker.check_model(found, full_check=True)
