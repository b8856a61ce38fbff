"""A feature whose state has assets: a table of numbers, and an ONNX graph that adds one to them."""

import numpy as np
import onnx
from onnx import TensorProto, helper

import pricekit


def adds_one() -> bytes:
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    add = helper.make_node("Add", ["x", "one"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([add], "adds", values[:1], values[1:], [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.ModelProto.SerializeToString(model, deterministic=True)


class LengthByTable:
    """The length of a text, from the graph and the table in its assets."""

    names = ("length_by_table",)
    rows = 1 << 16

    def fit(self, table):
        lengths = np.arange(self.rows, dtype="<f4") - len(table)
        return {"rows": self.rows, "adds-one.onnx": adds_one(), "lengths.f4": lengths.tobytes()}

    def transform(self, table, state):
        import onnxruntime

        lengths = np.frombuffer(state["lengths.f4"], "<f4")
        assert len(lengths) == state["rows"]
        found = lengths[table.text.str.len().to_numpy()]
        session = onnxruntime.InferenceSession(state["adds-one.onnx"])
        return np.asarray(session.run(["y"], {"x": found})[0])[:, None]


class LengthByPrice(LengthByTable):
    """The same, as a feature that is fitted out of fold."""

    names = ("length_by_price",)
    uses_price = True

    def fit(self, table, price):
        return super().fit(table) | {"mean": float(price.mean())}


class ForeignGraph(LengthByTable):
    """A feature with a graph that no bundle may contain."""

    names = ("foreign",)

    def fit(self, table):
        return {"graph.onnx": adds_one().replace(b"Add", b"If_")}

    def transform(self, table, state):
        return np.ones((len(table), 1), np.float32)


@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("by-table", f"{__name__}:LengthByTable", "length of the text")
    register("by-price", f"{__name__}:LengthByPrice", "length of the text")
    register("foreign", f"{__name__}:ForeignGraph", "nothing")
