"""Boosted trees as plain numbers: read from LightGBM, stored as JSON, run by ONNX Runtime.

The stored form is safe to take from strangers: it is two lists of numbers, which `Forest.from_json` checks before any
native code sees them. A tree is stored in preorder (node, left subtree, right subtree), so links between nodes, and
with them cycles and wrong indices, cannot be expressed.

The sum over the trees is exact: leaf values are multiples of a power of two, and every partial sum fits into the 24
bits of a float32. So the result does not depend on batch size, order, threads or version of ONNX Runtime.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pricekit.io.locks import renewed_in_child
from pricekit.io.log import onnx_runtime
from pricekit.text.kernel import kernel
from pricekit.text.labelled_lines import Block, Floats, Ints

LEAF = -1
MOST_NODES, MOST_DEPTH, MOST_COLUMNS = 1 << 20, 500, 1 << 16
"""ONNX Runtime descends recursively when it loads a tree, so the depth must be bounded."""
_LARGEST = float(np.finfo(np.float32).max)
MOST_LOG_PRICE = 1e6
"""Limit of a stored log price and of its parts: what is computed of them stays finite."""
EXACT = 1 << 24
"""Integers up to here are exact in float32."""
BATCH_ROWS = 256
"""Rows that are predicted together; their inputs fit into the processor's cache."""
NO_WORDS = np.zeros(0, np.int64)


@renewed_in_child
@dataclass(frozen=True)
class Forest:
    """T trees over F columns; a row's result is offset + unit * (sum of one leaf of each tree).

    Attributes:
        columns: F.
        feature: the column that each node compares, `LEAF` for a leaf, int (M,), all trees in preorder.
        value: the threshold of each node (x <= threshold goes left), or the leaf's integer, float32 (M,).
        offset: log price.
        unit: a power of two.
    """

    columns: int
    feature: Ints
    value: Block
    offset: float
    unit: float

    def to_json(self) -> dict[str, Any]:
        """Return the forest as plain JSON; a threshold is written with the digits that identify the float32."""
        values = [
            int(v) if f == LEAF else float(str(v)) for f, v in zip(self.feature, self.value, strict=True)
        ]
        return {
            "columns": self.columns,
            "offset": self.offset,
            "unit": self.unit,
            "feature": self.feature.tolist(),
            "value": values,
        }

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Forest:
        """Check and return a stored forest; raises ValueError if it is damaged."""
        columns, offset, unit = int(state["columns"]), float(state["offset"]), float(state["unit"])
        try:
            feature = np.array(state["feature"], np.int64)
            value = np.array(state["value"], np.float64)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"expected lists of numbers: {error}") from None
        if not (feature.ndim == value.ndim == 1 and len(feature) == len(value) <= MOST_NODES):
            raise ValueError(f"expected two equally long lists of at most {MOST_NODES:,} nodes")
        if not (1 <= columns <= MOST_COLUMNS and np.all((feature >= LEAF) & (feature < columns))):
            raise ValueError(f"expected column numbers from {LEAF} to {columns - 1}")
        if not (np.all(np.abs(value) <= _LARGEST) and math.isfinite(offset) and math.frexp(unit)[0] == 0.5):
            raise ValueError("expected finite numbers, and a power of two as the unit")
        forest = cls(columns, feature, value.astype(np.float32), offset, unit)
        leaf = value[feature == LEAF]
        largest = np.maximum.reduceat(np.abs(leaf), forest._links.first_leaf) if len(leaf) else leaf
        total = largest.sum(dtype=np.float64)
        if np.any(leaf != np.rint(leaf)) or total >= EXACT:
            raise ValueError("expected integers as leaves, with an exact sum in float32")
        if abs(offset) + unit * total > MOST_LOG_PRICE:
            raise ValueError(f"expected log prices of at most {MOST_LOG_PRICE:,.0f}")
        return forest

    @cached_property
    def _links(self) -> _Links:
        return _link(self.feature.tolist())

    @cached_property
    def _session(self) -> Any:
        ort = onnx_runtime()
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        graph = _graph(self)
        return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def predict(self, rows: Block, words: tuple[Ints, Ints] | None = None) -> Block:
        """Return the result of each row; a row does not depend on the others.

        Args:
            rows: the first columns, finite, float32 (N, D).
            words: the row, ascending, and the word of each occurrence of a word, int64 (K,) each; column D + w is how
                often word w occurs. None: D is F.

        Returns:
            float32 (N,).
        """
        least = self.columns if words is None else 0
        if rows.dtype != np.float32 or rows.ndim != 2 or not least <= rows.shape[1] <= self.columns:
            raise ValueError(f"expected float32 (N, {self.columns}), found {rows.dtype} {rows.shape}")
        total = np.zeros(len(rows))
        if len(self.feature) and len(rows):
            total += self._leaves(rows, *(words or (NO_WORDS, NO_WORDS)))
        return (self.offset + self.unit * total).astype(np.float32)

    @cached_property
    def _leaves(self) -> Callable[[Block, Ints, Ints], npt.NDArray[Any]]:
        """Returns the sum over the trees of each row's leaf, whole numbers, (N,), from `rows` and `words`."""
        if (compiled := kernel()) is not None:
            links = self._links
            return compiled.trees(self.columns, self.feature, self.value, links.right, links.roots)
        return self._run

    def _run(self, rows: Block, row: Ints, word: Ints) -> Block:
        sums = np.zeros(len(rows), np.float32)
        for start in range(0, len(rows), BATCH_ROWS):
            part = rows[start : start + BATCH_ROWS]
            block = np.zeros((len(part), self.columns), np.float32)
            block[:, : part.shape[1]] = part
            first, last = np.searchsorted(row, [start, start + len(part)])
            np.add.at(block, (row[first:last] - start, part.shape[1] + word[first:last]), np.float32(1))
            sums[start : start + len(part)] = self._session.run(None, {"rows": block})[0][:, 0]
        return sums


def joined(parts: Sequence[tuple[Forest, Ints]], columns: int) -> Forest:
    """Return the forest whose result is the sum of the results of others.

    Args:
        parts: the forests, each with the numbers of its columns among those of the result.
        columns: the number of columns of the result.
    """
    feature = [np.append(numbers, LEAF)[forest.feature] for forest, numbers in parts]  # LEAF is the last one
    reach, trees = 0.0, 0
    for forest, _ in parts:
        leaf, links = np.abs(forest.value[forest.feature == LEAF]), forest._links
        trees += len(links.roots)
        if len(leaf):
            reach += forest.unit * float(np.maximum.reduceat(leaf, links.first_leaf).sum(dtype=np.float64))
    unit = _unit(reach, trees)
    value = [
        np.where(forest.feature == LEAF, np.rint(forest.value * (forest.unit / unit)), forest.value)
        for forest, _ in parts
    ]
    offset = sum(forest.offset for forest, _ in parts)
    return Forest(columns, np.concatenate(feature), np.concatenate(value).astype(np.float32), offset, unit)


def _unit(reach: float, trees: int) -> float:
    """Return the smallest power of two of which leaves may be multiples, so that their sums are exact in float32.

    Args:
        reach: the sum over the trees of the largest absolute leaf.
        trees: their number; the rounding of each may add half a unit.
    """
    return float(2.0 ** math.ceil(math.log2(max(reach, 2**-40) / (EXACT - trees))))


@dataclass(frozen=True)
class _Links:
    """The structure that preorder implies: right child of each inner node, root of each tree, its first leaf."""

    right: Ints
    roots: Ints
    first_leaf: Ints


def _link(feature: list[int]) -> _Links:
    """Find the right children; raises ValueError if the last tree is incomplete, a tree too deep or only a leaf."""
    right, roots, first_leaf = [0] * len(feature), [], []
    waiting: list[int] = []  # inner nodes whose right subtree has not begun
    depth: list[int] = []
    level, leaves, complete = 0, 0, True
    for node, column in enumerate(feature):
        if complete:
            if column == LEAF:
                raise ValueError("expected trees with at least one split")
            roots.append(node)
            first_leaf.append(leaves)
            complete, level = False, 0
        if column != LEAF:
            waiting.append(node)
            depth.append(level)
            level += 1
            if level > MOST_DEPTH:
                raise ValueError(f"expected trees of at most {MOST_DEPTH} levels")
            continue
        leaves += 1
        if waiting:
            right[waiting.pop()] = node + 1
            level = depth.pop() + 1
        else:
            complete = True
    if not complete:
        raise ValueError("the last tree is incomplete")
    return _Links(*(np.array(part, np.int64) for part in (right, roots, first_leaf)))


# From LightGBM


def from_lightgbm(text: str) -> tuple[Forest, Ints]:
    """Convert LightGBM's text format, with numeric splits only, from training rows without missing values.

    Args:
        text: `Booster.model_to_string()`.

    Returns:
        The forest over the columns that occur in splits, and the numbers of those columns, ascending.
    """
    trees = [_fields(block) for block in re.split(r"\nTree=\d+\n", text.split("\nend of trees")[0])[1:]]
    centre = [(leaves.min() + leaves.max()) / 2 for leaves in (tree["leaf_value"] for tree in trees)]
    reach = sum(np.ptp(tree["leaf_value"]) / 2 for tree in trees)
    unit = _unit(reach, len(trees))
    feature: list[int] = []
    value: list[float] = []
    for tree, middle in zip(trees, centre, strict=True):
        if len(tree["leaf_value"]) > 1:
            _append(tree, np.rint((tree["leaf_value"] - middle) / unit), feature, value)
    codes = np.array(feature, np.int64)
    used = np.unique(codes[codes != LEAF])
    codes[codes != LEAF] = np.searchsorted(used, codes[codes != LEAF])
    return Forest(max(len(used), 1), codes, np.array(value, np.float32), float(sum(centre)), unit), used


def _fields(block: str) -> dict[str, Floats]:
    pairs = dict(line.split("=", 1) for line in block.strip().split("\n"))
    names = ("split_feature", "threshold", "decision_type", "left_child", "right_child", "leaf_value")
    tree = {name: np.array(pairs.get(name, "").split(), np.float64) for name in names}
    kinds = tree["decision_type"].astype(np.int64)
    if np.any(kinds & 1) or np.any(kinds >> 2):
        raise ValueError("expected numeric splits, and training rows without missing values")
    tree["threshold"] = round_down(tree["threshold"]).astype(np.float64)
    return tree


def _append(tree: dict[str, Any], leaves: Any, feature: list[int], value: list[float]) -> None:
    """Append the nodes of a tree in preorder."""
    pending = [0]
    while pending:
        node = pending.pop()
        feature.append(LEAF if node < 0 else int(tree["split_feature"][node]))
        value.append(leaves[-node - 1] if node < 0 else tree["threshold"][node])
        if node >= 0:
            pending += [int(tree["right_child"][node]), int(tree["left_child"][node])]


def round_down(values: Floats) -> Block:
    """Return the largest float32 that is not above each value: x <= value is the same for every float32 x."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    low = np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
    return np.clip(low, np.finfo(np.float32).min, np.finfo(np.float32).max).astype(np.float32)


# To ONNX: `TreeEnsemble` of ai.onnx.ml 5, written as protocol buffers (onnx.proto) without the package onnx


def _graph(forest: Forest) -> bytes:
    """Return a graph from `rows`, float32 (N, F), to the sums of leaves, float32 (N, 1)."""
    graph = _part(1, _trees(forest)) + _part(2, b"trees")
    graph += _part(11, _tensor_info("rows", forest.columns)) + _part(12, _tensor_info("sum", 1))
    opsets = [_part(1, domain) + _number(2, version) for domain, version in ((b"", 18), (b"ai.onnx.ml", 5))]
    return _number(1, 9) + _part(7, graph) + b"".join(_part(8, opset) for opset in opsets)


def _trees(forest: Forest) -> bytes:
    """Return the operator. Several operators of 5 to 100 trees, for the sake of the cache, are not faster."""
    feature, value, roots = forest.feature, forest.value, forest._links.roots
    leaf = feature == LEAF
    number = np.where(leaf, np.cumsum(leaf), np.cumsum(~leaf)) - 1  # leaves and inner nodes count separately
    inner = np.flatnonzero(~leaf)
    left, right = inner + 1, forest._links.right[inner]
    lists = {
        "tree_roots": number[roots],
        "nodes_featureids": feature[inner],
        "nodes_truenodeids": number[left],
        "nodes_falsenodeids": number[right],
        "nodes_trueleafs": leaf[left],
        "nodes_falseleafs": leaf[right],
        "leaf_targetids": np.zeros(leaf.sum()),
    }
    tensors = {
        "nodes_splits": (1, value[inner].astype("<f4")),
        "nodes_modes": (2, np.zeros(len(inner), np.uint8)),  # 0 is x <= split
        "leaf_weights": (1, value[leaf].astype("<f4")),
    }
    attributes = [_part(1, k.encode()) + _part(8, _packed(v)) + _number(20, 7) for k, v in lists.items()]
    attributes += [
        _part(1, k.encode()) + _part(5, _tensor(kind, v)) + _number(20, 4) for k, (kind, v) in tensors.items()
    ]
    settings = {"n_targets": 1, "aggregate_function": 1, "post_transform": 0}
    attributes += [_part(1, k.encode()) + _number(3, v) + _number(20, 2) for k, v in settings.items()]
    ends = _part(1, b"rows") + _part(2, b"sum") + _part(4, b"TreeEnsemble") + _part(7, b"ai.onnx.ml")
    return ends + b"".join(_part(5, attribute) for attribute in attributes)


def _tensor(kind: int, values: npt.NDArray[Any]) -> bytes:
    return _number(1, len(values)) + _number(2, kind) + _part(9, values.tobytes())


def _tensor_info(name: str, columns: int) -> bytes:
    shape = _part(1, _part(2, b"N")) + _part(1, _number(1, columns))
    return _part(1, name.encode()) + _part(2, _part(1, _number(1, 1) + _part(2, shape)))


def _packed(values: npt.NDArray[Any]) -> bytes:
    """Encode integers below 2**28 as varints of four bytes each."""
    number = values.astype(np.uint32)
    parts = [(number >> shift & 0x7F) | (0x80 if shift < 21 else 0) for shift in (0, 7, 14, 21)]
    return np.stack(parts, 1).astype(np.uint8).tobytes()


def _part(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
