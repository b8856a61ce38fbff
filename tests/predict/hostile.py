"""Bundles that a stranger could write: changed contents with valid hashes."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MANIFEST = "manifest.json"


def put(bundle: Path, name: str, content: bytes) -> None:
    """Replace a file of a bundle, and its hash in the manifest."""
    (bundle / name).write_bytes(content)
    manifest = json.loads((bundle / MANIFEST).read_text("utf-8"))
    manifest["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    write_manifest(bundle, manifest)


def write_manifest(bundle: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest, with a valid hash of its own."""
    (bundle / MANIFEST).write_bytes(sealed(manifest))


def sealed(manifest: dict[str, Any]) -> bytes:
    """Return the bytes of a manifest with a valid hash of its own."""
    values = {name: value for name, value in manifest.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return json.dumps({**values, "sha256": digest}).encode()


def change(bundle: Path, name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the JSON of a file, and its hash in the manifest."""
    record = json.loads((bundle / name).read_text("utf-8"))
    edit(record)
    put(bundle, name, json.dumps(record).encode())


def graph(nodes, tensors=None, *, opset=20, domains=(), functions=(), features=None, price=None) -> bytes:
    """Return a graph with pricekit's inputs and the output `price` that `nodes` compute."""
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    inputs.append(helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", features]))
    output = helper.make_tensor_value_info("price", *(price or (TensorProto.FLOAT, ["batch"])))
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in (tensors or {}).items()]
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    made = helper.make_model(
        helper.make_graph(nodes, "g", inputs, [output], weights),
        opset_imports=opsets,
        ir_version=10,
        functions=list(functions),
    )
    return made.SerializeToString()


def priced_at_one(extra=(), tensors=None, **kwargs) -> bytes:
    """Return a graph whose prices are 1, plus 0 times the scalar `extra` if nodes compute it."""
    node = helper.make_node
    nodes = [
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("ReduceMax", ["mask", "one"], ["ones" if extra else "price"], keepdims=0),
        *extra,
    ]
    if extra:
        nodes += [node("Mul", ["extra", "zero"], ["nothing"]), node("Add", ["ones", "nothing"], ["price"])]
    return graph(
        nodes,
        {"one": np.array([1]), "zero": np.float32(0) if extra else np.float32(1), **(tensors or {})},
        **kwargs,
    )
