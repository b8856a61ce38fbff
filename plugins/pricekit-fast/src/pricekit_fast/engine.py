"""Engine `fast`: the encoding of backbone `bag` in C, and the rest of the graph in ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from pricekit.plugin import Batch, BundleError, Engine, Graph, PluginError, PriceBatch, shorten, usable_cpus
from pricekit_fast.kernel import Array, call, library


class Fast(Engine):
    """The CPUs that this process may use, each with its own batch, for bundles of the backbone `bag` in fp32.

    It finds the encoding of `bag` in the graph, computes it in C, and leaves the rest to ONNX Runtime. Sums are in
    another order than in ONNX Runtime, so prices may differ by some 1e-7 of their value.
    """

    batch_tokens = 32768
    backbone = "bag"

    def __init__(self) -> None:
        library()
        self.streams = usable_cpus()

    def load(self, graph: Graph) -> PriceBatch:
        """Split the graph.

        Raises:
            PluginError: it has no encoding of `bag` in float32, or a library is missing.
            BundleError: the graph cannot be loaded.
        """
        import onnxruntime

        try:
            bag, head = split(graph.model)
        except (ValueError, KeyError, OverflowError, StopIteration) as error:
            raise BundleError(f"the graph cannot be read: {error!r}; export it again") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            session = onnxruntime.InferenceSession(head, options, ["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has its own classes
            raise BundleError(
                f"the graph cannot be loaded: {shorten(str(error), 400)}; export it again"
            ) from error

        def price(batch: Batch) -> np.ndarray:
            inputs = {bag.name: bag.encode(batch["input_ids"], batch["attention_mask"])}
            try:
                prices = session.run([_PRICE], inputs | {"features": batch["features"]})[0]
            except Exception as error:
                raise BundleError(
                    f"the graph cannot price a batch: {shorten(str(error), 300)}; export it again"
                ) from error
            return np.asarray(prices)

        return price


@dataclass(frozen=True)
class Bag:
    """The constants of `pricekit.nets.bag.BagEncoder`.

    Attributes:
        name: of the encoding in the graph.
        table: a row for each token and each bucket of pairs, float32 (R, H).
        idf: of each row, float32 (R,).
        hash: the factors of a pair's ids, the prime, the number of buckets, and the row of the first one, int64 (5,).
        lead: the extra weight of the first token.
        lead_tokens: the tokens over which it falls to 1/e.
    """

    name: str
    table: Array
    idf: Array
    hash: Array
    lead: np.float32
    lead_tokens: np.float32

    def encode(self, input_ids: Array, attention_mask: Array) -> Array:
        """Return the encoding of a batch, float32 (B, H); raises BundleError for an id beyond the table."""
        ids, mask = np.ascontiguousarray(input_ids, np.int64), np.ascontiguousarray(attention_mask, np.int64)
        rows, length = ids.shape
        width = self.table.shape[1]
        lead = 1 + self.lead * np.exp(-np.arange(length, dtype=np.float32) / self.lead_tokens)
        encoding = np.empty((rows, width), np.float32)
        try:
            call(
                "pricekit_bag",
                *(ids, mask, rows, length, self.hash, lead.astype(np.float32)),
                *(self.idf, self.table, len(self.table), width, encoding),
            )
        except ValueError:
            raise BundleError("the tokenizer has more tokens than the graph; export the run again") from None
        return encoding


_IDS = "input_ids"
_NEXT = "Pad[mode=constant](Slice({0},[1],[9223372036854775807],[1],[1]),[0,0,0,1])"
_PAIR = (
    f"Add(Mod[fmod=0](Mod[fmod=0](Add(Mul({_IDS},<first>),Mul({_NEXT.format(_IDS)},<second>)),<prime>),<buckets>),"
    "<begin>)"
)
_TERMS = f"Concat[axis=1]({_IDS},{_PAIR})"
_MASK = f"Concat[axis=1](attention_mask,Mul(attention_mask,{_NEXT.format('attention_mask')}))"
_POSITION = f"Sub(CumSum[exclusive=0,reverse=0](Expand(1,Shape[start=0]({_IDS})),1),1)"
_LEAD = f"Add(Mul(Exp(Div(Neg(Cast[to=1]({_POSITION})),<lead_tokens>)),<lead>),1.0)"
_IDF = f"Gather[axis=2](Gather[axis=0](<idf>,{_TERMS}),0)"
_RAW = f"Mul(Mul({_IDF},Cast[to=1]({_MASK})),Concat[axis=1]({_LEAD},{_LEAD}))"
_SQUARE = f"ReduceSum[keepdims=1,noop_with_empty_axes=0](Pow({_RAW},2.0),[1])"
_SCALED = f"Div({_RAW},Sqrt(Clip({_SQUARE},1e-12)))"
_ENCODING = f"Gather[axis=1](MatMul(Unsqueeze({_SCALED},[1]),Gather[axis=0](<table>,{_TERMS})),0)"
"""How the exporter writes `BagEncoder.forward`; names in angle brackets are constants."""

_RESHAPED = re.compile(r"Unsqueeze\((\$[^,()]+),\[1\]\)")
"""The exporter stores a small idf with its new shape, and reshapes a large one."""

_LONGEST, _DEEPEST = 20_000, 100
"""Characters and calls of an expression: a graph may be a stranger's, and use its own results many times."""


def _pattern() -> re.Pattern[str]:
    """Return `_ENCODING` as an expression; a name that occurs again stands for the same constant."""
    pattern, known = "", set()
    for part in re.split(r"(<\w+>)", _ENCODING):
        if not part.startswith("<"):
            pattern += re.escape(part)
        elif part in known:
            pattern += f"(?P={part[1:-1]})"
        else:
            known.add(part)
            pattern += f"(?P{part}[^,()]+)"
    return re.compile(pattern)


def split(model: bytes) -> tuple[Bag, bytes]:
    """Return the encoding of `bag` that a graph contains, and the graph with the encoding as an input.

    Raises:
        PluginError: it contains none.
        ValueError: the bytes are no graph.
    """
    (graph,) = [value for number, value in _fields(model) if number == _GRAPH]
    read = _Graph.of(graph)
    pattern = _pattern()
    for node in read.nodes:
        written = read.expression(node.outputs[0]) if node.operator == "Gather" and node.outputs else ""
        if match := pattern.fullmatch(_RESHAPED.sub(r"\1", written)):
            break
    else:
        raise PluginError(
            "the engine fast prices bundles of the backbone bag in fp32, and this graph has no such encoding; choose "
            "the engine ort-cpu",
            parameters=("engine",),
        )
    table, idf = (read.weight(match[name][1:]) for name in ("table", "idf"))
    whole = np.array(
        [int(match[name]) for name in ("first", "second", "prime", "buckets", "begin")], np.int64
    )
    if table.ndim != 2 or table.dtype != np.float32 or idf.dtype != np.float32 or idf.size != len(table):
        raise ValueError(
            f"the encoding has weights of {table.dtype} {table.shape} and {idf.dtype} {idf.shape}"
        )
    lead, lead_tokens = (np.float32(match[name]) for name in ("lead", "lead_tokens"))
    bag = Bag(node.outputs[0], _aligned(table), _aligned(idf.ravel()), whole, lead, lead_tokens)
    head = read.without(bag.name, table.shape[1])
    others = b"".join(_written(number, value) for number, value in _fields(model) if number != _GRAPH)
    return bag, others + _written(_GRAPH, head)


def _aligned(values: Array) -> Array:
    """Return a copy that begins at a line of the processor's cache."""
    bytes_ = np.empty(values.nbytes + 64, np.uint8)
    start = -bytes_.ctypes.data % 64
    copy = bytes_[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


# Protocol buffers (protobuf.dev, "Encoding"), with the numbers of fields in onnx.proto

_GRAPH = 7
_NODE, _WEIGHT, _INPUT, _OUTPUT, _INFO = 1, 5, 11, 12, 13
_PRICE = "price"
"""The output that the engine computes; a graph may have a second one."""
_KINDS: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 7: np.dtype("<i8")}
_SMALL = 8
"""Weights with more numbers are written by name in expressions."""

Value: TypeAlias = "int | bytes | memoryview"


@dataclass(frozen=True)
class _Node:
    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: str
    content: Value


@dataclass(frozen=True)
class _Graph:
    """A graph's nodes in order, and its weights by name.

    Attributes:
        nodes: in order.
        weights: by name.
        inputs: the descriptions of the inputs by name.
        others: the other fields.
    """

    nodes: list[_Node]
    weights: dict[str, Value]
    inputs: dict[str, Value]
    others: list[tuple[int, Value]]
    _makers: dict[str, _Node] = field(default_factory=dict)
    _expressions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, content: Value) -> _Graph:
        graph = cls([], {}, {}, [])
        for number, value in _fields(content):
            if number == _NODE:
                graph.nodes.append(_node(value))
            elif number == _WEIGHT:
                graph.weights[_text(value, 8)] = value
            elif number == _INPUT:
                graph.inputs[_text(value, 1)] = value
            else:
                graph.others.append((number, value))
        graph._makers.update({name: node for node in graph.nodes for name in node.outputs})
        return graph

    def expression(self, name: str, depth: int = 0) -> str:
        """Return how a value is computed, with small constants; "" if that is too long, or too deep."""
        if name not in self._expressions:
            self._expressions[name] = ""  # for a graph with a circle
            written = self._write(name, depth + 1) if depth < _DEEPEST else ""
            self._expressions[name] = written if len(written) <= _LONGEST else ""
        return self._expressions[name]

    def _write(self, name: str, depth: int) -> str:
        if name in self.weights:
            try:
                values = self.weight(name)
            except KeyError:
                return f"${name}"
            if values.size > _SMALL:
                return f"${name}"
            written = [str(value) for value in values.ravel()]
            return written[0] if values.ndim == 0 else f"[{','.join(written)}]"
        if (node := self._makers.get(name)) is None or len(node.outputs) != 1:
            return name
        inputs = (self.expression(each, depth) for each in node.inputs)
        return f"{node.operator}{node.attributes}({','.join(inputs)})"

    def weight(self, name: str) -> Array:
        """Return a weight of float32 or int64; raises KeyError for another type or form."""
        fields = list(_fields(self.weights[name]))
        shape = [size for number, value in fields if number == 1 for size in _numbers(value)]
        kind = next(_KINDS[value] for number, value in fields if number == 2 and isinstance(value, int))
        raw = [value for number, value in fields if number == 9 and not isinstance(value, int)]
        if len(raw) != 1:
            raise KeyError(name)
        values: Array = np.frombuffer(raw[0], kind).reshape(shape)
        return values

    def without(self, name: str, width: int) -> bytes:
        """Return the graph with a value, float32 (N, width), as an input, and without what computed it alone."""
        kept: list[_Node] = []
        needed = {_PRICE}
        for node in reversed(self.nodes):
            if name not in node.outputs and not needed.isdisjoint(node.outputs):
                kept.insert(0, node)
                needed.update(node.inputs)
        shape = _written(1, _written(2, b"rows")) + _written(1, _written(1, width))
        tensor = _written(1, _written(1, 1) + _written(2, shape))
        parts = [_written(_NODE, node.content) for node in kept]
        parts += [_written(_WEIGHT, value) for each, value in self.weights.items() if each in needed]
        parts += [_written(_INPUT, value) for each, value in self.inputs.items() if each in needed]
        parts.append(_written(_INPUT, _written(1, name.encode()) + _written(2, tensor)))
        for number, value in self.others:
            if number != _INFO and (number != _OUTPUT or _text(value, 1) == _PRICE):
                parts.append(_written(number, value))
        return b"".join(parts)


def _node(content: Value) -> _Node:
    inputs, outputs, operator, attributes = [], [], "", {}
    for number, value in _fields(content):
        if number == 1:
            inputs.append(_string(value))
        elif number == 2:
            outputs.append(_string(value))
        elif number == 4:
            operator = _string(value)
        elif number == 5:
            attributes[_text(value, 1)] = _attribute(value)
    written = ",".join(f"{name}={value}" for name, value in sorted(attributes.items()))
    return _Node(operator, inputs, outputs, f"[{written}]" if written else "", content)


def _attribute(content: Value) -> str:
    """Return a whole number, a text or whole numbers; "?" for other attributes."""
    fields = [
        (number, value) for number, value in _fields(content) if number in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    ]
    if len(fields) != 1 or fields[0][0] not in (3, 4):
        return "?"
    value = fields[0][1]
    return str(value) if isinstance(value, int) else _string(value)


def _text(content: Value, number: int) -> str:
    return next((_string(value) for field, value in _fields(content) if field == number), "")


def _string(value: Value) -> str:
    if isinstance(value, int):
        raise ValueError("expected a text, found a number")
    return bytes(value).decode()


def _numbers(value: Value) -> list[int]:
    """Return a whole number, or several in one field."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def _fields(content: Value) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field of a message; those of a fixed size as bytes."""
    if isinstance(content, int):
        raise ValueError("expected a message, found a number")
    view, at = memoryview(content), 0
    while at < len(view):
        tag, at = _varint(view, at)
        kind, value = tag & 7, 0
        if kind == 0:
            value, at = _varint(view, at)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, at = _varint(view, at)
        elif not size:
            raise ValueError(f"expected a field, found one of the wire type {kind}")
        if size > len(view) - at:
            raise ValueError("a field is longer than the message")
        yield tag >> 3, view[at : at + size]
        at += size


def _varint(view: bytes | memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(view):
            break
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number has no end")


def _written(number: int, value: Value) -> bytes:
    """Return a field; the fields of a model and a graph are numbers, texts and messages."""
    if isinstance(value, int):
        return _encoded(number << 3) + _encoded(value)
    return _encoded(number << 3 | 2) + _encoded(len(value)) + bytes(value)


def _encoded(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
