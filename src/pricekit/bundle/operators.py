"""The operators that a bundle's graph may use, read from the bytes of the graph without a library for ONNX.

The operators compute numbers from numbers. None of them repeats a part of the graph, reads a file, draws random
numbers or handles text. The encoders of pricekit, and those that torch exports from transformers, need no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from pricekit.errors import BundleError
from pricekit.support.text import shorten

_NAMES = """
Abs Acos Add And ArgMax ArgMin Asin Atan AveragePool BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr
BitwiseXor Cast CastLike Ceil Celu Clip Compress Concat Constant Conv ConvInteger Cos Cosh CumSum DequantizeLinear
Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements
GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish
Identity InstanceNormalization IsInf IsNaN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
LpNormalization MatMul MatMulInteger Max MaxPool Mean Min Mish Mod Mul Neg NonZero Not Or PRelu Pad Pow
QLinearConv QLinearMatMul QuantizeLinear RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape ReverseSequence Round
ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign Split Sqrt
Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
"""

OPERATORS = frozenset(_NAMES.split())
"""Names in the standard domain of ONNX; operators of other domains are refused."""

MOST_NODES = 50_000
MOST_FIELDS = 1_000_000
"""Fields of a graph's nodes, weights and attributes: about 16 for each node."""

_Value: TypeAlias = "int | memoryview"

_VARINT, _FIXED64, _MESSAGE, _FIXED32 = 0, 1, 2, 5
"""Wire types of protocol buffers (protobuf.dev, "Encoding"). Types 3 and 4 are groups, which ONNX does not have."""

# Numbers of the fields in onnx.proto
_GRAPH, _TRAINING, _FUNCTIONS = 7, 20, 25  # of ModelProto
_NODE, _WEIGHT, _SPARSE_WEIGHT = 1, 5, 15  # of GraphProto
_OPERATOR, _ATTRIBUTE, _DOMAIN = 4, 5, 7  # of NodeProto
_TENSORS, _SPARSE_TENSORS, _SUBGRAPHS = (5, 10), (22, 23), (6, 11)  # of AttributeProto
_PARTS = (1, 2)  # of SparseTensorProto: its values and indices
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of TensorProto

_STANDARD = (b"", b"ai.onnx")
_ORT_FORMAT = b"ORTM"
"""Bytes 4 to 7 of a file in ONNX Runtime's own format, which it also loads."""


def check_graph(content: bytes, where: str) -> int:
    """Check that a graph contains all weights and uses only `OPERATORS`; return the number of its fields.

    Args:
        content: of the file.
        where: names the graph in errors.

    Raises:
        BundleError: it does not, or is no ONNX graph.
    """
    reader = _Reader()
    try:
        if content[4:8] == _ORT_FORMAT:
            raise _NotOnnxError
        operators = reader.operators(memoryview(content))
    except _NotOnnxError:
        raise BundleError(f"{where} is damaged: it is not an ONNX graph") from None
    except _NamesFilesError:
        raise BundleError(f"{where} refers to weights in other files") from None
    if sum(operators.values()) > MOST_NODES:
        raise BundleError(f"{where} has {sum(operators.values()):,} nodes; expected {MOST_NODES:,} at most")
    if foreign := sorted(operators.keys() - OPERATORS):
        named = ", ".join(shorten(repr(name)) for name in foreign[:5])
        raise BundleError(
            f"{where} uses operators that pricekit does not run: {named}; expected standard operators of ONNX without "
            "loops, conditions and functions",
            operators=foreign,
        )
    return MOST_FIELDS - reader.fields_left


class _NotOnnxError(Exception):
    """The bytes are no ONNX graph."""


class _NamesFilesError(Exception):
    """Weights are in other files."""


class _Reader:
    """Reads the fields of the messages that contain operators or weights.

    A parser merges the values of a field that occurs several times, so each occurrence is read.
    """

    def __init__(self) -> None:
        self.fields_left = MOST_FIELDS

    def operators(self, model: memoryview) -> Counter[str]:
        """Return the operators with their counts; raises _NotOnnxError, _NamesFilesError."""
        found: Counter[str] = Counter()
        for number, value in self._fields(model):
            if number in (_TRAINING, _FUNCTIONS):
                found["a function or training graph"] += 1
            elif number == _GRAPH:
                found += self._graph(_message(value))
        return found

    def _graph(self, graph: memoryview) -> Counter[str]:
        found: Counter[str] = Counter()
        for number, value in self._fields(graph):
            if number == _NODE:
                found.update(self._node(_message(value)))
            elif number == _WEIGHT:
                self._check_tensor(_message(value))
            elif number == _SPARSE_WEIGHT:
                self._check_sparse(_message(value))
        return found

    def _node(self, node: memoryview) -> list[str]:
        """Return the operator of a node; several names if it does not have exactly one in the standard domain."""
        names, domains = [], []
        subgraphs = False
        for number, value in self._fields(node):
            if number == _OPERATOR:
                names.append(bytes(_message(value)))
            elif number == _DOMAIN:
                domains.append(bytes(_message(value)))
            elif number == _ATTRIBUTE:
                subgraphs |= self._has_subgraph(_message(value))
        shown = [name.decode("utf-8", "replace") for name in names or [b""]]
        foreign = [
            f"{domain.decode('utf-8', 'replace')}.{name}"
            for domain in domains
            if domain not in _STANDARD
            for name in shown
        ]
        return foreign or ([f"{name} with a subgraph" for name in shown] if subgraphs else shown)

    def _has_subgraph(self, attribute: memoryview) -> bool:
        found = False
        for number, value in self._fields(attribute):
            if number in _TENSORS:
                self._check_tensor(_message(value))
            elif number in _SPARSE_TENSORS:
                self._check_sparse(_message(value))
            found |= number in _SUBGRAPHS
        return found

    def _check_sparse(self, sparse: memoryview) -> None:
        for number, value in self._fields(sparse):
            if number in _PARTS:
                self._check_tensor(_message(value))

    def _check_tensor(self, tensor: memoryview) -> None:
        for number, value in self._fields(tensor):
            if number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0):
                raise _NamesFilesError

    def _fields(self, message: memoryview) -> Iterator[tuple[int, _Value]]:
        """Yield number and value of each field: an integer, or the bytes of a text or message."""
        at, end = 0, len(message)
        while at < end:
            self.fields_left -= 1
            if self.fields_left < 0:
                raise _NotOnnxError
            tag, at = _varint(message, at, 32)
            kind = tag & 7
            value: _Value = 0
            if kind == _VARINT:
                value, at = _varint(message, at, 70)
            elif kind == _MESSAGE:
                size, at = _varint(message, at, 31)
                value, at = message[at : at + size], at + size
            elif kind in (_FIXED32, _FIXED64):
                at += 4 if kind == _FIXED32 else 8
            else:
                raise _NotOnnxError
            if at > end or tag < 8:
                raise _NotOnnxError
            yield tag >> 3, value


def _message(value: _Value) -> memoryview:
    if isinstance(value, int):
        raise _NotOnnxError
    return value


def _varint(message: memoryview, at: int, bits: int) -> tuple[int, int]:
    """Return the integer at a position and the position behind it; one with more bits is refused.

    Parsers drop the bits beyond 32 of a tag, so they would see another field.
    """
    value = 0
    for place in range(0, 70, 7):
        if at >= len(message):
            raise _NotOnnxError
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << place
        if byte < 0x80:
            if value >> bits or place > bits:
                raise _NotOnnxError
            return value, at
    raise _NotOnnxError
