"""A grammar of hostile bundles: contents that a stranger could write, with valid hashes.

`spoil` applies one rule to a bundle. The rules named in `CORPUS` are found faults, which are repeated first.
"""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
from onnx import TensorProto, helper

from tests.predict.hostile import MANIFEST, change, graph, priced_at_one, put, write_manifest

Rule = Callable[[Path, random.Random], None]
Json = Any
node = helper.make_node

COMMAND = "; touch canary; $(touch canary) `touch canary`"
PICKLE = b"cposix\nsystem\n(S'touch canary'\ntR."
ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\n\r"


def odd(rng: random.Random) -> Json:
    """Return a value that few readers expect."""
    values: list[Callable[[], Json]] = [
        lambda: None,
        lambda: rng.choice([True, False]),
        lambda: rng.choice([0, -1, 1, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30]),
        lambda: rng.choice([0.5, -0.0, 1e308, -1e308, 1e-320, float("nan"), float("inf")]),
        lambda: rng.choice(["", " ", "\0", "../secret", "/etc/passwd", COMMAND, ESCAPES, "ÿ" * 9, "\ud800"]),
        lambda: "x" * 10 ** rng.randint(1, 6),
        list,
        dict,
        lambda: [odd(rng) for _ in range(rng.randint(0, 2))],
        lambda: {str(odd(rng))[:20]: 0},
        lambda: [rng.choice([0, "x", None, []])] * 10 ** rng.randint(1, 5),
        lambda: json.loads("[" * 400 + "]" * 400),
    ]
    return rng.choice(values)()


def mutate(value: Json, rng: random.Random) -> Json:
    """Return JSON with one value changed, removed, repeated or moved, at a random place."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(sorted(value))
        kind = rng.random()
        if kind < 0.1:
            return {name: one for name, one in value.items() if name != key}
        if kind < 0.2:
            return {**value, str(odd(rng))[:50]: value[key]}
        return {**value, key: mutate(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        place = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value * rng.choice([2, 10, 1000])
        return [*value[:place], mutate(value[place], rng), *value[place + 1 :]]
    return odd(rng)


def mutated(name: str) -> Rule:
    """Return a rule that mutates a JSON file a few times."""

    def rule(bundle: Path, rng: random.Random) -> None:
        record = json.loads((bundle / name).read_text("utf-8"))
        for _ in range(rng.randint(1, 3)):
            record = mutate(record, rng)
        text = json.dumps(record).encode()
        if name != MANIFEST:
            put(bundle, name, text)
        elif isinstance(record, dict) and rng.random() < 0.9:
            write_manifest(bundle, record)
        else:
            (bundle / name).write_bytes(text)

    return rule


def other_bytes(name: str) -> Rule:
    """Return a rule that changes bytes of a file, or replaces it by something else."""

    def rule(bundle: Path, rng: random.Random) -> None:
        content = bytearray((bundle / name).read_bytes())
        kind = rng.randrange(6)
        if kind < 3:
            for _ in range(rng.randint(1, 20)):
                content[rng.randrange(len(content))] = rng.randrange(256)
        elif kind == 3:
            content = content[: rng.randrange(len(content))]
        elif kind == 4:
            content = bytearray(PICKLE)
        else:
            content = bytearray(
                rng.choice([b"[", b'{"a":', b"[[],", b"\x0a\x00", b"\x3a\x80"]) * 10 ** rng.randint(0, 7)
            )
        put(bundle, name, bytes(content))

    return rule


def _tokenizer(edit: Callable[[dict[str, Any], random.Random], object]) -> Rule:
    return lambda bundle, rng: change(bundle, "tokenizer.json", lambda record: edit(record, rng))


def _preprocess(edit: Callable[[dict[str, Any], random.Random], object]) -> Rule:
    return lambda bundle, rng: change(bundle, "preprocess.json", lambda record: edit(record, rng))


def _graph(make: Callable[[random.Random], bytes]) -> Rule:
    return lambda bundle, rng: put(bundle, "model.onnx", make(rng))


def _size(rng: random.Random) -> int:
    return 10 ** rng.randint(0, 10)


def normalizer(rng: random.Random, depth: int = 0) -> Json:
    """Return a component that rewrites texts."""
    pattern = rng.choice(
        [{"String": rng.choice(["", " ", "a", "tea"])}, {"Regex": rng.choice(["", " ", r"\s+", "(a*)*$"])}]
    )
    content = rng.choice(["", "a", "aa", " ", "x" * min(_size(rng), 2_000_000)])
    trie = rng.choice([bytes(1024), b"\xff" * 1024, rng.randbytes(1024), b"abc"])
    charsmap = struct.pack("<I", len(trie)) + trie + rng.choice([b"e\0", b"\xff\xfe\0", b"x" * 500])
    kinds: list[Json] = [
        {"type": "Replace", "pattern": pattern, "content": content},
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()},
        {"type": "Prepend", "prepend": content},
        *({"type": name} for name in ("ByteLevel", "NFKD", "StripAccents", "Nmt", "Lowercase", "Script")),
        {"type": "Strip", "strip_left": True, "strip_right": odd(rng)},
    ]
    if rng.random() < 0.3 and depth < 2:
        return {
            "type": "Sequence",
            "normalizers": [normalizer(rng, depth + 1) for _ in range(rng.choice([1, 3, 40]))],
        }
    return rng.choice(kinds)


def pre_tokenizer(rng: random.Random, depth: int = 0) -> Json:
    """Return a component that splits texts."""
    pattern = rng.choice(
        [{"Regex": rng.choice([r"\w+", "(x+x+)+y", "(?:a?){50}a{50}"])}, {"String": rng.choice(["", "a"])}]
    )
    kinds: list[Json] = [
        {
            "type": "Split",
            "pattern": pattern,
            "behavior": rng.choice(["Removed", "Isolated"]),
            "invert": bool(rng.randrange(2)),
        },
        {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": bool(rng.randrange(2)),
        },
        {
            "type": "Metaspace",
            "replacement": rng.choice(["▁", "ab", ""]),
            "prepend_scheme": "always",
            "split": True,
        },
        *(
            {"type": name}
            for name in ("Whitespace", "WhitespaceSplit", "UnicodeScripts", "BertPreTokenizer", "Os")
        ),
        {"type": "FixedLength", "length": 0},
    ]
    if rng.random() < 0.3:
        return {
            "type": "Sequence",
            "pretokenizers": [pre_tokenizer(rng) for _ in range(rng.choice([0, 1, 3]))],
        }
    return rng.choice(kinds)


def post_processor(rng: random.Random) -> Json:
    """Return a component that adds special tokens."""
    piece = [
        {"Sequence": {"id": rng.choice("AB"), "type_id": 0}},
        {"SpecialToken": {"id": "[S]", "type_id": 0}},
    ]
    ids = [rng.choice([0, 1, 10**6, 2**31 - 1, 2**32])] * rng.choice([1, 9, 100_000])
    special = rng.choice([{}, {"[S]": {"id": "[S]", "ids": ids, "tokens": ["x"] * len(ids)}}])
    single = [rng.choice(piece) for _ in range(rng.choice([0, 1, 2, 200]))]
    return {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special}


def model(rng: random.Random) -> Json:
    """Return a tokenizer's model."""
    token, number = rng.choice(["a", "[UNK]", "", "x" * 5000]), rng.choice([0, -1, 10**6, 2**31 - 1, 2**40])
    vocabulary = rng.choice([{}, {token: number}, {f"t{n}": n for n in range(1000)}])
    scores = [[token, rng.choice([0.0, -1e308, 1e308])] for token in [*vocabulary, "b"]]
    unknown = rng.choice(["[UNK]", "[NOPE]", None])
    return rng.choice(
        [
            {
                "type": "BPE",
                "vocab": vocabulary,
                "merges": rng.choice([[], [["a", "b"]], [["", ""]]]),
                "unk_token": unknown,
                "dropout": rng.choice([None, 0.5, 9.0]),
                "continuing_subword_prefix": rng.choice([None, "é##", "x" * 999]),
            },
            {"type": "WordLevel", "vocab": vocabulary, "unk_token": unknown},
            {
                "type": "WordPiece",
                "vocab": vocabulary,
                "unk_token": unknown,
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": _size(rng),
            },
            {
                "type": "Unigram",
                "vocab": scores,
                "unk_id": rng.choice([None, 0, 99]),
                "byte_fallback": bool(rng.randrange(2)),
            },
        ]
    )


def padding(rng: random.Random) -> Json:
    """Return settings of padding."""
    strategy = rng.choice([{"Fixed": _size(rng)}, "BatchLongest"])
    multiple = rng.choice([None, 0, 8, _size(rng)])
    return {
        "strategy": strategy,
        "direction": "Right",
        "pad_to_multiple_of": multiple,
        "pad_id": rng.choice([0, 2**31, 10**7]),
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }


def tensor_steps(rng: random.Random) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """Return steps of allowed operators that make a large or odd tensor, and its constants."""
    shape = [min(_size(rng), 10**7) * rng.choice([1, 1, -1]) for _ in range(rng.randint(1, 3))]
    tensors = {
        "shape": np.array(shape),
        "a": np.float32(rng.choice([0, 1, 1e30, np.nan])),
        "b": np.float32(rng.choice([0, 1, 1e-30, 1e9])),
        "c": np.float32(rng.choice([0, 1, 1e-9, -1])),
        "one_row": np.ones((1, 100), np.float32),
    }
    choices = [
        [node("Expand", ["a", "shape"], ["x"])],
        [node("Tile", ["one", "shape"], ["t"]), node("Cast", ["t"], ["x"], to=TensorProto.FLOAT)],
        [node("Range", ["a", "b", "c"], ["x"])],
        [node("Pad", ["one_row", "shape"], ["x"])],
        [node("Reshape", ["one_row", "shape"], ["x"])],
        [node("Expand", ["a", "shape"], ["e"]), node("MatMul", ["e", "e"], ["x"])],
        [node("Einsum", ["one_row", "one_row"], ["x"], equation=rng.choice(["ij,kl->ijkl", "ij,kl->", "i"]))],
        [node("Concat", [f"d{n}", f"d{n}"], [f"d{n + 1}"], axis=0) for n in range(34)]
        + [node("Identity", ["d34"], ["x"])],
        [node("EyeLike", ["one_row"], ["x"])],
        [node("CumSum", ["one_row", "shape"], ["x"])],
        [node("TopK", ["one_row", "shape"], ["x", "indices"])],
        [node("Trilu", ["one_row", "shape"], ["x"])],
    ]
    tensors["d0"] = np.ones(10, np.float32)
    return rng.choice(choices), tensors


def large_graph(rng: random.Random) -> bytes:
    """Return a graph that multiplies its price with something large or odd."""
    steps, tensors = tensor_steps(rng)
    return priced_at_one([*steps, node("ReduceMax", ["x"], ["extra"], keepdims=0)], tensors)


def forbidden_graph(rng: random.Random) -> bytes:
    """Return a graph with an operator that is not on the list."""
    body = helper.make_graph([], "body", [], [])
    found = rng.choice(
        [
            node("Loop", ["n", ""], ["extra"], body=body),
            node("If", ["n"], ["extra"], then_branch=body, else_branch=body),
            node("ConstantOfShape", ["n"], ["extra"]),
            node(
                "PyOp",
                ["n"],
                ["extra"],
                domain="ai.onnx.contrib",
                code="import os; os.system('touch canary')",
            ),
            node(
                "EPContext",
                ["n"],
                ["extra"],
                domain="com.microsoft",
                ep_cache_context="../secret",
                embed_mode=0,
            ),
            node("RandomUniform", [], ["extra"], shape=[10**9]),
            node("ImageDecoder", ["n"], ["extra"]),
        ]
    )
    return priced_at_one([found], {"n": np.array(10**12)}, domains=[found.domain] if found.domain else [])


def outside_graph(rng: random.Random) -> bytes:
    """Return a graph with weights in another file."""
    made = onnx.load_from_string(priced_at_one())
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", rng.choice(["../secret", "/etc/passwd", "secret", "tokenizer.json"])
    return made.SerializeToString()


def odd_graph(rng: random.Random) -> bytes:
    """Return a graph whose prices or weights have odd values, types or shapes."""
    kind = rng.choice(
        [TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.BOOL]
    )
    steps = [
        node("ReduceMax", ["attention_mask", "one"], ["p"], keepdims=rng.randrange(2)),
        node(rng.choice(["Div", "Mod", "Mul", "Gather", "Pow", "BitShift"]), ["p", "odd"], ["q"]),
        node("Cast", ["q"], ["price"], to=kind),
    ]
    value = np.array(rng.choice([0, -1, 2**63 - 1, -(2**63)]), np.int64)
    content = graph(
        steps,
        {"one": np.array([rng.choice([0, 1, 7])]), "odd": value},
        price=(kind, ["n"]),
        opset=rng.choice([1, 18, 20, 99]),
    )
    made = onnx.load_from_string(content)
    if rng.random() < 0.3:
        made.graph.initializer[0].dims[:] = rng.choice([[10**12], [-1], [2**40, 2**40], []])
    if rng.random() < 0.1:
        made.graph.node.extend([node("Identity", ["p"], [f"i{n}"]) for n in range(60_000)])
    return made.SerializeToString()


def crash_graph(_: random.Random) -> bytes:
    """Return a graph that divides the smallest integer by -1, which is a trap of the processor."""
    steps = [
        node("ReduceMax", ["attention_mask", "one"], ["p"], keepdims=0),
        node("Mul", ["p", "least"], ["m"]),
        node("Div", ["m", "minus"], ["d"]),
        node("Cast", ["d"], ["price"], to=TensorProto.FLOAT),
    ]
    tensors = {"one": np.array([1]), "least": np.array(-(2**63)), "minus": np.array(-1)}
    return graph(steps, tensors)


def _columns(record: dict[str, Any], rng: random.Random) -> None:
    record["columns"]["text"] = [f"column {number}" for number in range(10 ** rng.randint(0, 5))]


def _features(record: dict[str, Any], rng: random.Random) -> None:
    kind = rng.randrange(4)
    if kind == 0:
        record["features"] = record["features"] * rng.choice([2, 99, 1000])
    for feature in record["features"]:
        if kind == 1:
            feature.update(
                name="evil",
                package=rng.choice([COMMAND, ESCAPES, "evil"]),
                version=rng.choice(["1", "file x"]),
            )
        elif kind == 2:
            feature["state"] = mutate(feature["state"], rng)
        elif kind == 3:
            feature["options"] = {str(odd(rng))[:30]: odd(rng)}


def _members(bundle: Path, rng: random.Random) -> None:
    manifest = json.loads((bundle / MANIFEST).read_text("utf-8"))
    count = rng.choice([0, 1, 2, 60, 300])
    names = ["model.onnx", "tokenizer.json", "preprocess.json"]
    rng.shuffle(names) if rng.random() < 0.3 else None
    member: dict[str, Any] = {
        "weight": 1 / max(1, count),
        **dict(zip(("model", "tokenizer", "preprocess"), names, strict=True)),
    }
    member |= {name: manifest[name] for name in ("metrics", "verified")}
    write_manifest(bundle, {**manifest, "members": [member] * count})


def _outside(bundle: Path, rng: random.Random) -> None:
    """Name files outside the folder, or replace a file by a link to one."""
    if rng.random() < 0.5:
        file = bundle / rng.choice(["model.onnx", "tokenizer.json", "preprocess.json", MANIFEST])
        file.unlink()
        file.symlink_to("../secret")
        return
    manifest = json.loads((bundle / MANIFEST).read_text("utf-8"))
    name = rng.choice(["../secret", "/etc/passwd", "..", "a/../../secret", "secret\0", ESCAPES])
    manifest["files"][name] = {"sha256": "0" * 64, "bytes": 0}
    write_manifest(bundle, manifest)


def _mutate_packed(value: Json, rng: random.Random) -> Json:
    """Return a state with the numbers of one packed array changed."""
    places = list(_texts(value))
    packed = [way for way, text in places if len(text) > 20 and text.startswith("eJ")]
    if not packed:
        return mutate(value, rng)
    way = rng.choice(packed)
    value = json.loads(json.dumps(value))
    inner = value
    for name in way[:-1]:
        inner = inner[name]
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(inner[way[-1]])), np.uint8).copy()
    for _ in range(rng.randint(1, 8)):
        numbers[rng.randrange(len(numbers))] = rng.choice([0, 1, 127, 128, 255])
    kept = numbers[: rng.choice([len(numbers), len(numbers), len(numbers) - 4, 0])]
    inner[way[-1]] = base64.b64encode(zlib.compress(kept.tobytes())).decode()
    return value


def _texts(value: Json, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(value, str):
        yield way, value
    elif isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(one, (*way, name))


def _state(record: dict[str, Any], rng: random.Random) -> None:
    """Change the state of one feature."""
    feature = rng.choice(record["features"])
    change_of = rng.choice([mutate, mutate, _mutate_packed])
    for _ in range(rng.randint(1, 2)):
        feature["state"] = change_of(feature["state"], rng)


def _options(record: dict[str, Any], rng: random.Random) -> None:
    """Change the options, the columns or the version of one feature."""
    feature = rng.choice(record["features"])
    names = [*feature["options"], "columns", "k", "rounds", str(odd(rng))[:30]]
    feature["options"] = {**feature["options"], rng.choice(names): odd(rng)}
    if rng.random() < 0.3:
        feature["version"] = rng.choice(["0.0.1", ESCAPES, "x" * 900])


def _formats(record: dict[str, Any], rng: random.Random) -> None:
    """Change the roles of columns, or how they are written."""
    record["columns"] = mutate(record["columns"], rng)


def texts_of_manifest(bundle: Path, rng: random.Random) -> None:
    """Put long or odd texts into the manifest."""
    manifest = json.loads((bundle / MANIFEST).read_text("utf-8"))
    text = rng.choice(["€" * 100_000, ESCAPES * rng.choice([1, 9]), "x" * rng.choice([90, 1_000, 500_000])])
    places = [way for way, _ in _texts(manifest) if way[0] not in ("files", "sha256")]
    inner, way = manifest, rng.choice([*places, ("currency",), ("price_unit",), ("table",)])
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = text
    if rng.random() < 0.2:
        manifest["metrics"] = {f"{text[:40]} {number}": 1.0 for number in range(rng.choice([3, 5_000]))}
    write_manifest(bundle, manifest)


def products(bundle: Path, rng: random.Random) -> None:
    """Change cells, columns or types of the products."""
    table = pq.read_table(bundle / "comparables.parquet")
    place = rng.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    if pa.types.is_floating(column.type):
        values: list[Any] = [rng.choice([0.0, -1.0, np.nan, np.inf, 1e308, None])] * len(column)
    else:
        values = [rng.choice([None, ESCAPES, "", "x" * 100_000])] * len(column)
    kind = rng.choice([column.type, column.type, pa.string(), pa.int64()])
    try:
        table = table.set_column(place, rng.choice([name, name, ESCAPES]), pa.array(values, kind))
    except (pa.ArrowException, TypeError):
        table = table.slice(0, rng.choice([0, 1, 50]))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    put(bundle, "comparables.parquet", sink.getvalue())


def named_graph(rng: random.Random) -> bytes:
    """Return a graph whose names are escape sequences, and which fails, warns or is from the future."""
    name = ESCAPES + rng.choice(["", "x" * 10_000])
    steps = [
        node("Gather", ["t", "input_ids"], ["g"], name=name),
        node("ReduceMax", ["g", "one"], ["price"], keepdims=0, name=rng.choice([name, ""])),
    ]
    weights = {
        "t": np.ones(rng.choice([2, 10**6]), np.float32),
        "one": np.array([1]),
        name: np.ones(3, np.float32),
    }
    return graph(steps, weights, opset=rng.choice([18, 20, 22, 99]))


def composed(record: dict[str, Any], rng: random.Random) -> None:
    """Compose a tokenizer of allowed components, added tokens and models."""
    parts = [normalizer, pre_tokenizer, post_processor, model]
    for name, make in zip(("normalizer", "pre_tokenizer", "post_processor", "model"), parts, strict=True):
        if rng.random() < 0.4:
            record[name] = make(rng)
    behavior = rng.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
    if rng.random() < 0.5:
        kinds: list[Json] = [
            {"type": "Digits", "individual_digits": True},
            {"type": "Punctuation", "behavior": behavior},
            {"type": "CharDelimiterSplit", "delimiter": rng.choice("aé ")},
            {"type": "UnicodeScripts"},
            {
                "type": "Metaspace",
                "replacement": rng.choice("▁aé"),
                "prepend_scheme": "always",
                "split": True,
            },
            {
                "type": "Split",
                "pattern": {"String": rng.choice(["a", "é"])},
                "behavior": behavior,
                "invert": True,
            },
        ]
        record["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": rng.sample(kinds, rng.randint(1, 3))}
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    record["added_tokens"] += [
        {"id": rng.choice([0, 5, 10**6]), "content": rng.choice(["", "a", "é", " ", "[S]", "茶"])}
        | {flag: rng.random() < 0.5 for flag in flags}
        for _ in range(rng.choice([0, 0, 1, 3]))
    ]


def self_test(bundle: Path, rng: random.Random) -> None:
    """Add a self-test, mutated or with other bytes."""
    reads = json.loads((bundle / "preprocess.json").read_text("utf-8"))["columns"]["text"]
    rows = [["Green tea"] * len(reads), [""] * len(reads)]
    record = {"columns": reads, "rows": rows, "prices": [9.5, 4.0], "tolerance": 1e-4}
    put(bundle, "self_test.json", json.dumps(record).encode())
    rng.choice([mutated, other_bytes])("self_test.json")(bundle, rng)


RULES: dict[str, Rule] = {
    "normalizer": _tokenizer(lambda t, rng: t.update(normalizer=normalizer(rng))),
    "pre_tokenizer": _tokenizer(lambda t, rng: t.update(pre_tokenizer=pre_tokenizer(rng))),
    "post_processor": _tokenizer(lambda t, rng: t.update(post_processor=post_processor(rng))),
    "model": _tokenizer(lambda t, rng: t.update(model=model(rng))),
    "padding": _tokenizer(lambda t, rng: t.update(padding=padding(rng))),
    "mutated tokenizer": mutated("tokenizer.json"),
    "mutated preprocess": mutated("preprocess.json"),
    "mutated manifest": mutated(MANIFEST),
    "mutated intervals": mutated("intervals.json"),
    "mutated sketch": mutated("sketch.json"),
    "mutated products": mutated("comparables.json"),
    "products": products,
    "composed tokenizer": _tokenizer(composed),
    "state": _preprocess(_state),
    "options": _preprocess(_options),
    "formats": _preprocess(_formats),
    "texts": texts_of_manifest,
    "named graph": _graph(named_graph),
    "self-test": self_test,
    "columns": _preprocess(_columns),
    "features": _preprocess(_features),
    "members": _members,
    "outside": _outside,
    "large graph": _graph(large_graph),
    "forbidden graph": _graph(forbidden_graph),
    "outside graph": _graph(outside_graph),
    "odd graph": _graph(odd_graph),
    "crash": _graph(crash_graph),
    **{
        f"bytes of {name}": other_bytes(name)
        for name in (
            *("model.onnx", "tokenizer.json", "preprocess.json", "intervals.json"),
            *("sketch.json", "comparables.json", "comparables.parquet"),
        )
    },
}

OFTEN = {"state": 12, "composed tokenizer": 4, "options": 3, "formats": 3, "mutated sketch": 3}
"""How often rules are chosen beside the others, which count once."""

CORPUS: tuple[tuple[str, int], ...] = (("crash", 0), ("outside", 5))
"""Rules and seeds that once broke a requirement, or that the sandbox alone survives: a trap of the processor, and a
file name with line breaks."""


def spoil(bundle: Path, number: int, rng: random.Random) -> str:
    """Apply a rule to a bundle, the one of the corpus for the first numbers; return its name."""
    if number < len(CORPUS):
        rule, seed = CORPUS[number]
        rng = random.Random(seed)
    else:
        rule = rng.choices(list(RULES), [OFTEN.get(name, 1) for name in RULES])[0]
    RULES[rule](bundle, rng)
    return rule
