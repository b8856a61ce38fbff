"""Small ONNX graphs and batches for the tests of the export."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info


def chain(*steps, **weights):
    """A graph that applies (op, weight or None) to features (N, 2) and returns `price` (N,)."""
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
