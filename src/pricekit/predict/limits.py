"""Limits of what a bundle contains, checked before anything is built from its bytes.

A stranger can write a bundle with valid hashes. The limits keep its tokenizer from filling the memory and from taking
forever; they are far above what exported bundles contain. The numbers of members and columns are limited where the
manifest and preprocess.json are parsed.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil, prod
from typing import Any, TypeAlias

import numpy as np
from tokenizers import Tokenizer

from pricekit.config.settings import MAX_LENGTH
from pricekit.errors import BundleError
from pricekit.features.assets import ASSET_BYTES, graphs_among, is_asset
from pricekit.features.preprocess import FILES_OF_PREPROCESSOR, LARGEST_ID
from pricekit.io.packing import leaves, object_of
from pricekit.wording import shorten

MOST_BYTES = 16 << 30
"""Bytes of all files together."""

COMMON_JSON = {
    "intervals.json": 8 << 20,
    "sketch.json": 1 << 20,
    "self_test.json": 1 << 20,
    "comparables.json": 256 << 20,
}
"""Bytes of the JSON files that all members share."""

JSON_BYTES = {"tokenizer.json": 64 << 20, "preprocess.json": 64 << 20, **COMMON_JSON}
FILE_BYTES = {"model.onnx": 2 << 30, "comparables.parquet": 1 << 30, **JSON_BYTES}
"""Bytes of a file, by its name in a bundle with one member; protocol buffers have 2 GiB at most."""

OTHER_BYTES = 64 << 20
"""Bytes of all other files together: the model card, and what later versions may add."""

TOKENIZERS_BYTES = 256 << 20
"""Bytes of all members' tokenizers; equal ones count once. The largest known ones have 33 MB."""

GRAPHS_FIELDS = 8_000_000
"""Fields of all members' graphs; equal ones count once."""

ASSETS = 64
"""Assets of all members' features."""

MOST_CONTAINERS = 2_000_000
"""Lists and objects in a JSON file: an empty one takes 2 bytes there and 64 in memory."""


def check_sizes(sizes: Mapping[str, int], members: Sequence[Mapping[str, str]], where: str) -> None:
    """Check the sizes of a bundle's files before they are read.

    Args:
        sizes: bytes by file name.
        members: the file names of each member, by the names that they have in a bundle with one member.
        where: names the bundle in errors.

    Raises:
        BundleError: a limit is exceeded.
    """
    check = _Check(where)
    check.limit(sum(sizes.values()), MOST_BYTES, "bytes")
    parts = {part for names in members for part in names.items()}
    used = {name for _, name in parts}
    common = {(name, name) for name in sizes.keys() & FILE_BYTES.keys() - used}
    assets = set(filter(is_asset, sizes.keys() - used))
    check.limit(len(assets), ASSETS, "assets")
    for plain, name in sorted(parts | common | {(asset, asset) for asset in assets}):
        most = ASSET_BYTES if plain in assets else FILE_BYTES[plain]
        _Check(f"{where}: {plain}").limit(sizes[name], most, "bytes")
    others = sizes.keys() - used - FILE_BYTES.keys() - assets
    check.limit(sum(sizes[name] for name in others), OTHER_BYTES, "bytes in files that no member uses")


def check_members(members: Sequence[Mapping[str, bytes]], where: str) -> None:
    """Check the members' files, each object once.

    Args:
        members: the contents of each member, by the names that they have in a bundle with one member, and the assets of
            the features. Equal contents are one object: to compare gigabytes would take seconds.
        where: names the bundle in errors.

    Raises:
        BundleError: a limit is exceeded, or a file is damaged.
    """
    check, fields = _Check(where), 0
    graphs = {id(graph): (graph, f"the graph of {where}") for graph in _distinct(members, "model.onnx")}
    for files in members:
        for name in graphs_among(files):
            graphs.setdefault(id(files[name]), (files[name], f"{where}: {name}"))
    models = {id(files["model.onnx"]) for files in members}
    for place, (graph, named) in graphs.items():
        fields += check_graph(graph, named, OUTPUTS if place in models else None)
        check.limit(fields, GRAPHS_FIELDS, "fields in its graphs")
    for content in _distinct(members, "preprocess.json"):
        check_json(content, "preprocess.json", where)
    tokenizers = _distinct(members, "tokenizer.json")
    check.limit(sum(map(len, tokenizers)), TOKENIZERS_BYTES, "bytes in its tokenizers")
    for content in tokenizers:
        check_tokenizer(content, where)


def check_preprocessor(files: Mapping[str, bytes], where: str) -> None:
    """Check the files of a preprocessor, as a bundle would hold them, before a model is trained with it.

    Args:
        files: their contents by name, and those of its assets.
        where: names the model in errors.

    Raises:
        BundleError: a limit is exceeded.
    """
    names = {name: name for name in FILES_OF_PREPROCESSOR}
    check_sizes({name: len(content) for name, content in files.items()}, [names], where)
    check_json(files["preprocess.json"], "preprocess.json", where)
    check_tokenizer(files["tokenizer.json"], where)
    fields = sum(check_graph(files[name], f"{where}: {name}") for name in graphs_among(files))
    _Check(where).limit(fields, GRAPHS_FIELDS, "fields in its graphs")


def _distinct(members: Sequence[Mapping[str, bytes]], name: str) -> list[bytes]:
    return list({id(files[name]): files[name] for files in members}.values())


def check_json(content: bytes, name: str, where: str) -> None:
    """Check the size of a JSON file before it is parsed; raises BundleError."""
    check = _Check(f"{where}: {name}")
    check.limit(len(content), JSON_BYTES[name], "bytes")
    check.limit(content.count(b"[") + content.count(b"{"), MOST_CONTAINERS, "lists and objects")


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
_NODE, _WEIGHT, _OUTPUT, _SPARSE_WEIGHT = 1, 5, 12, 15  # of GraphProto
_OPERATOR, _ATTRIBUTE, _DOMAIN = 4, 5, 7  # of NodeProto
_TENSORS, _SPARSE_TENSORS, _SUBGRAPHS = (5, 10), (22, 23), (6, 11)  # of AttributeProto
_PARTS = (1, 2)  # of SparseTensorProto: its values and indices
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of TensorProto

_STANDARD = (b"", b"ai.onnx")
OUTPUTS = (("price",), ("price", "embedding"))
"""The names of the outputs that a member's graph may have; those of a feature's graph are its own."""

_ORT_FORMAT = b"ORTM"
"""Bytes 4 to 7 of a file in ONNX Runtime's own format, which it also loads."""


def check_graph(content: bytes, where: str, outputs: Collection[tuple[str, ...]] | None = None) -> int:
    """Check that a graph contains all weights and uses only `OPERATORS`; return the number of its fields.

    Args:
        content: of the file.
        where: names the graph in errors.
        outputs: the names of outputs that it may have, in order; None: any.

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
    if outputs is not None and tuple(reader.outputs) not in outputs:
        shown = shorten(", ".join(map(repr, reader.outputs)) or "none", 200)
        allowed = " or ".join(" and ".join(names) for names in outputs)
        raise BundleError(f"{where} has the outputs {shown}; expected {allowed}")
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
        self.outputs: list[str] = []

    def operators(self, model: memoryview) -> Counter[str]:
        """Return the operators with their counts; raises _NotOnnxError, _NamesFilesError."""
        operators: Counter[str] = Counter()
        for number, value in self._fields(model):
            if number in (_TRAINING, _FUNCTIONS):
                operators["a function or training graph"] += 1
            elif number == _GRAPH:
                operators += self._graph(_message(value))
        return operators

    def _graph(self, graph: memoryview) -> Counter[str]:
        operators: Counter[str] = Counter()
        for number, value in self._fields(graph):
            if number == _NODE:
                operators.update(self._node(_message(value)))
            elif number == _WEIGHT:
                self._check_tensor(_message(value))
            elif number == _SPARSE_WEIGHT:
                self._check_sparse(_message(value))
            elif number == _OUTPUT:
                names = [name for field, name in self._fields(_message(value)) if field == 1]
                self.outputs.append(
                    " ".join(bytes(_message(name)).decode("utf-8", "replace") for name in names)
                )
        return operators

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
        has_subgraph = False
        for number, value in self._fields(attribute):
            if number in _TENSORS:
                self._check_tensor(_message(value))
            elif number in _SPARSE_TENSORS:
                self._check_sparse(_message(value))
            has_subgraph |= number in _SUBGRAPHS
        return has_subgraph

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


MOST_TOKENS = 2_000_000
"""Tokens of a vocabulary."""

LONGEST_TOKEN = 1_000
"""Characters of a token."""

UNIGRAM_CHARACTERS = 4_000_000
"""Characters of a Unigram vocabulary, which becomes a tree with a node for each byte."""

MOST_ADDED_TOKENS = 10_000
LONGEST_WORD = 1_000
"""Characters of the longest word that WordPiece splits, in a time that grows with their square."""

MOST_COMPONENTS = 32
MOST_SETTINGS = 1_000
"""Numbers and texts in a component's settings."""

LONGEST_SETTING = 256
"""Characters of such a text."""

MOST_GROWTH = 16
"""The factor by which the replacements of a tokenizer may lengthen a text."""

LONGEST_REPLACEMENT = 64
"""Bytes that a character map (`Precompiled`) puts in place of a character."""

COMPONENTS = {
    "normalizer": "BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace Sequence "
    "Strip StripAccents",
    "pre_tokenizer": "BertPreTokenizer ByteLevel CharDelimiterSplit Digits Metaspace Punctuation Sequence Split "
    "UnicodeScripts Whitespace WhitespaceSplit",
    "post_processor": "BertProcessing ByteLevel RobertaProcessing Sequence TemplateProcessing",
    "decoder": "BPEDecoder ByteFallback ByteLevel CTC Fuse Metaspace Replace Sequence Strip WordPiece",
}
"""Types of the components in each part of a tokenizer."""

MODELS = ("BPE", "Unigram", "WordLevel", "WordPiece")
_MEMBERS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
"""The list in a Sequence of each part."""

_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = frozenset(
    {
        r"\w+",
        r"\s+",
        " ",
        " {2,}",
        rf"{_CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",
        rf"{_CONTRACTIONS}|[\p{{L}}]+|[\p{{N}}]|[^\s\p{{L}}\p{{N}}]+",
        rf"(?i:{_CONTRACTIONS})|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
        rf"(?i:{_CONTRACTIONS})|{_WORDS}|\p{{N}}|{_REST}",
    }
)
"""Regular expressions of `bag` and of common encoders (GPT-2, CLIP, Llama 3, Qwen 2). Others may take hours."""

_EMPTY = {"type": "WordLevel", "vocab": {}, "unk_token": ""}


def check_tokenizer(content: bytes, where: str) -> None:
    """Check that a tokenizer.json has only known components within the limits; raises BundleError."""
    check_json(content, "tokenizer.json", where)
    check = _Check(f"{where}: tokenizer.json")
    try:
        record = json.loads(content.decode("utf-8"), object_pairs_hook=object_of)
        parts = {part: list(check.components(part, record.get(part))) for part in COMPONENTS}
        check.growth([*parts["normalizer"], *parts["pre_tokenizer"]])
        check.model(record["model"])
        check.added_tokens(record.get("added_tokens") or [], record.get("normalizer"))
        for name in ("padding", "truncation"):
            check.lengths(name, record.get(name) or {})
    except BundleError:
        raise
    except Exception as error:  # values of unexpected types; the library raises bare Exceptions
        reason = shorten(f"{type(error).__name__}: {error}", 200)
        raise BundleError(f"{check.where} is damaged ({reason})") from None


class _Check:
    """The checks of one file; each raises BundleError. Values of wrong types raise TypeError and the like."""

    def __init__(self, where: str) -> None:
        self.where = where

    def limit(self, value: float, most: int, what: str) -> None:
        if not 0 <= value <= most:
            raise BundleError(f"{self.where} has {value:,} {what}; expected {most:,} at most", found=value)

    def components(self, part: str, outermost: Any) -> Iterator[dict[str, Any]]:
        """Yield the components of a part, without sequences."""
        waiting, seen = ([] if outermost is None else [outermost]), 0
        while waiting:
            component, seen = dict(waiting.pop()), seen + 1
            kind = str(component["type"])
            if kind not in COMPONENTS[part].split():
                self.refuse(f"the {part} {kind!r}", f"one of {', '.join(COMPONENTS[part].split())}")
            self.limit(seen, MOST_COMPONENTS, f"components in its {part}")
            if kind == "Sequence":
                waiting += component[_MEMBERS[part]]
            else:
                self.settings(component, kind)
                yield component

    def refuse(self, used: str, expected: str) -> None:
        raise BundleError(
            f"{self.where} uses {shorten(used, 100)}, which pricekit does not run; expected {expected}"
        )

    def settings(self, component: dict[str, Any], kind: str) -> None:
        """Limit the numbers, the texts and the lists among a component's settings, and its pattern."""
        settings = {name: value for name, value in component.items() if name != "precompiled_charsmap"}
        values = list(leaves(settings))
        self.limit(len(values), MOST_SETTINGS, f"settings in {kind}")
        texts = [value for value in values if isinstance(value, str)]
        self.limit(max(map(len, texts), default=0), LONGEST_SETTING, f"characters in a text of {kind}")
        numbers = [value for value in values if isinstance(value, int | float)]
        self.limit(max(map(abs, numbers), default=0), LARGEST_ID, f"as a number of {kind}")
        pattern = component.get("pattern")
        if isinstance(pattern, dict) and "Regex" in pattern and pattern["Regex"] not in PATTERNS:
            self.refuse(f"the regular expression {pattern['Regex']!r}", "a pattern of a common encoder")
        if kind == "TemplateProcessing":
            self.template(component)
        if kind == "Prepend" and not component["prepend"]:
            raise ValueError("it prepends an empty text, on which the library panics")

    def template(self, component: dict[str, Any]) -> None:
        """Limit a template to one text and the special tokens that it lists: the library panics on others."""
        sequences = [piece["Sequence"]["id"] for piece in component["single"] if "Sequence" in piece]
        self.limit(len(sequences), 1, "copies of each text in its template")
        tokens = {piece["SpecialToken"]["id"] for piece in component["single"] if "SpecialToken" in piece}
        if {*sequences} - {"A"} or tokens - component["special_tokens"].keys():
            raise ValueError("its template names an unknown text or special token")

    def growth(self, components: list[dict[str, Any]]) -> None:
        """Limit how much longer the tokenizer makes a text."""
        maps = [dict(component) for component in components if component["type"] == "Precompiled"]
        self.limit(len(maps), 1, "character maps")
        for component in maps:
            trie, replacements = _character_map(component["precompiled_charsmap"])
            self.limit(max(map(len, replacements.split(b"\0"))), LONGEST_REPLACEMENT, "bytes for a character")
            _check_trie(trie, replacements)
        self.limit(prod(map(_growth, components)), MOST_GROWTH, "characters for one of a text")

    def model(self, model: dict[str, Any]) -> None:
        """Limit the vocabulary."""
        kind, vocabulary = str(model["type"]), model["vocab"]
        if kind not in MODELS:
            self.refuse(f"the model {kind!r}", f"one of {', '.join(MODELS)}")
        self.limit(len(vocabulary), MOST_TOKENS, "tokens")
        tokens = list(vocabulary) if isinstance(vocabulary, dict) else [token for token, _ in vocabulary]
        lengths = list(map(len, tokens))
        self.limit(max(lengths, default=0), LONGEST_TOKEN, "characters in a token")
        if isinstance(vocabulary, dict):
            self.limit(max(vocabulary.values(), default=0), LARGEST_ID, "as the id of a token")
        else:
            self.limit(sum(lengths), UNIGRAM_CHARACTERS, "characters in its vocabulary")
        self.settings({name: model[name] for name in model.keys() - {"vocab", "merges"}}, kind)
        self.limit(model.get("max_input_chars_per_word", 0), LONGEST_WORD, "characters in a word")
        if model.get("dropout"):
            self.refuse("tokens that are drawn at random (dropout)", "the same tokens for the same text")
        if prefix := model.get("continuing_subword_prefix") or "":
            merges = (
                pair.split(" ") if isinstance(pair, str) else pair for pair in model.get("merges") or ()
            )
            if not all(second.startswith(prefix) for _, second in merges):
                raise ValueError("a merged token does not begin with the prefix of its model")

    def added_tokens(self, added: list[dict[str, Any]], normalizer: Any) -> None:
        """Limit the added tokens.

        The library finds a token without end if it is empty, or if the normalizer makes it empty. It panics where a
        token that takes the spaces behind it overlaps with a token that begins with a space.
        """
        self.limit(len(added), MOST_ADDED_TOKENS, "added tokens")
        for token in added:
            self.limit(len(token["content"]), LONGEST_TOKEN, "characters in a token")
            self.limit(token["id"], LARGEST_ID, "as the id of a token")
        texts = [token["content"] for token in added]
        if changed := [token["content"] for token in added if normalizer and token.get("normalized", True)]:
            alone = {"version": "1.0", "normalizer": normalizer, "model": _EMPTY}
            rewrite = Tokenizer.from_str(json.dumps(alone)).normalizer.normalize_str
            texts += map(rewrite, changed)
        if not all(texts):
            raise ValueError("an added token is empty")
        if any(text[0].isspace() for text in texts) and any(token.get("rstrip") for token in added):
            raise ValueError("an added token takes the spaces with which another one begins")

    def lengths(self, name: str, settings: dict[str, Any]) -> None:
        numbers = [value for key in settings.keys() - {"pad_id"} for value in leaves(settings[key])]
        longest = max((n for n in numbers if isinstance(n, int | float)), default=0)
        self.limit(longest, MAX_LENGTH, f"tokens in its {name}")
        self.limit(settings.get("pad_id", 0), LARGEST_ID, "as the id of a token")


def _growth(component: dict[str, Any]) -> int:
    """Return the number of characters that a component makes of one."""
    match component["type"]:
        case "Replace":
            pattern, content = component["pattern"], len(component["content"])
            return max(1, ceil(content / len(pattern["String"])) if "String" in pattern else content)
        case "ByteLevel":  # a character for each byte of the text
            return 4
        case "Metaspace":
            return 2
        case "Prepend":
            return 1 + len(component["prepend"])
    return 1


def _character_map(encoded: str) -> tuple[np.ndarray, bytes]:
    """Return the trie of a character map of SentencePiece, uint32 (U,), and its replacements, each with a zero byte.

    The map is the size of the trie in bytes, the trie, and the replacements.
    """
    content = base64.b64decode(encoded, validate=True)
    (size,) = struct.unpack_from("<I", content)
    return np.frombuffer(content[4 : 4 + size], "<u4"), content[4 + size :]


def _check_trie(trie: np.ndarray, replacements: bytes) -> None:
    """Raise ValueError unless every path through a trie stays inside it and ends at a replacement.

    The library panics on other paths.
    It is a double array, as darts-clone writes it. The children of the unit at p are at p ^ offset ^ byte, and its
    value, if it has one, is at p ^ offset. A unit with the highest bit is a value.
    """
    place = np.arange(len(trie), dtype=np.int64)
    inner = (trie >> 31 == 0) | (place == 0)
    unit = trie[inner].astype(np.int64)
    below = place[inner] ^ ((unit >> 10) << ((unit & 1 << 9) >> 6))
    if not len(trie) or (below | 0xFF).max() >= len(trie):
        raise ValueError("the trie of its character map points outside itself")
    value = trie[below[unit >> 8 & 1 == 1]] & 0x7FFFFFFF
    starts = np.frombuffer(replacements.decode("utf-8").encode() + b"\0", np.uint8) & 0xC0 != 0x80
    if value.max(initial=0) >= len(starts) or not starts[value].all():
        raise ValueError("a value of its character map is not the start of a replacement")
