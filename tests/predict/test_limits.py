import base64
import contextlib
import json
import shutil
import struct
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from pricekit.errors import BundleError, ExportError
from pricekit.export.export import export_run
from pricekit.predict import limits
from pricekit.predict.bundle import open_bundle
from tests.predict.hostile import MANIFEST, change, priced_at_one, put, write_manifest

GOLDEN = Path("tests/golden/bundle")
n, p, q = normalizers, pre_tokenizers, processors


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(GOLDEN, tmp_path / "copy")


def charsmap(replacement=b"e", *, trie=None):
    units = bytes(1024) if trie is None else trie
    return base64.b64encode(struct.pack("<I", len(units)) + units + replacement + b"\0").decode()


def tokenizer(model=None, *, normalizer=None, pre_tokenizer=None, post_processor=None) -> Tokenizer:
    made = Tokenizer(model or models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    for part, value in (
        ("normalizer", normalizer),
        ("pre_tokenizer", pre_tokenizer),
        ("post_processor", post_processor),
    ):
        if value is not None:
            setattr(made, part, value)
    return made


CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BERT = n.BertNormalizer()
COMMON = {
    "bert": tokenizer(
        models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"),
        normalizer=BERT,
        pre_tokenizer=p.BertPreTokenizer(),
        post_processor=q.BertProcessing(("[SEP]", 2), ("[CLS]", 1)),
    ),
    "roberta": tokenizer(
        models.BPE({"a": 0}, []),
        pre_tokenizer=p.ByteLevel(add_prefix_space=False),
        post_processor=q.RobertaProcessing(("</s>", 2), ("<s>", 1)),
    ),
    "modernbert": tokenizer(models.BPE({"a": 0}, []), normalizer=n.NFC(), pre_tokenizer=p.ByteLevel()),
    "deberta-v3": tokenizer(
        models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, False),
        normalizer=n.Sequence([n.Strip(), n.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizer=p.Metaspace(),
        post_processor=q.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        ),
    ),
    "xlm-roberta": tokenizer(
        models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, True),
        normalizer=n.Sequence([n.Nmt(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizer=p.Sequence([p.WhitespaceSplit(), p.Metaspace()]),
    ),
    "llama": tokenizer(
        models.BPE({"a": 0}, [], byte_fallback=True),
        normalizer=n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]),
    ),
    "clip": tokenizer(
        models.BPE({"a": 0}, [], end_of_word_suffix="</w>"),
        normalizer=n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()]),
        pre_tokenizer=p.Sequence([p.Split(Regex(CLIP), "removed", invert=True), p.ByteLevel(False)]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", COMMON)
@pytest.mark.parametrize("settings", [{}, {"length": 128}])
def test_the_tokenizers_of_common_encoders_are_allowed(family, settings):
    made = Tokenizer.from_str(COMMON[family].to_str())
    made.enable_padding(**settings)
    made.enable_truncation(512)
    limits.check_tokenizer(made.to_str().encode(), "here")


def test_a_character_map_of_sentencepiece_is_allowed(copy):
    limits.check_tokenizer(_edited(lambda t: t.update(normalizer=_precompiled(charsmap()))), "here")


def _precompiled(encoded):
    return {"type": "Precompiled", "precompiled_charsmap": encoded}


def _edited(edit):
    record = json.loads((GOLDEN / "tokenizer.json").read_text("utf-8"))
    edit(record)
    return json.dumps(record).encode()


def _replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def _sequence(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def _fixed(length, **more):
    padding = {"strategy": {"Fixed": length}, "direction": "Right", "pad_to_multiple_of": None}
    return {**padding, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]", **more}


def _template(*pieces):
    return {"type": "TemplateProcessing", "single": list(pieces), "pair": [], "special_tokens": {}}


def _added(content, **more):
    return [{"id": 1, "content": content, "normalized": True, **more}]


def _units(value, at=0):
    """A trie of a character map whose root, or whose value at a place, is a number."""
    return b"".join(struct.pack("<I", value if place == at else 0) for place in range(256))


PANICS = {
    "special token": lambda t: t.update(post_processor=_template({"SpecialToken": {"id": "x", "type_id": 0}})),
    "second text": lambda t: t.update(post_processor=_template({"Sequence": {"id": "B", "type_id": 0}})),
    "prepended": lambda t: t.update(normalizer=_sequence({"type": "Prepend", "prepend": ""})),
    "merge without prefix": lambda t: t["model"].update(
        vocab={"a": 0, "b": 1, "ab": 2}, merges=[["a", "b"]], continuing_subword_prefix="##"
    ),
    "merge of a text without prefix": lambda t: t["model"].update(merges=["a b"], continuing_subword_prefix="é"),
    "no trie": lambda t: t.update(normalizer=_precompiled(charsmap(trie=b""))),
    "short trie": lambda t: t.update(normalizer=_precompiled(charsmap(trie=bytes(4)))),
    "way out of the trie": lambda t: t.update(normalizer=_precompiled(charsmap(trie=_units(1 << 20)))),
    "value beyond the replacements": lambda t: t.update(
        normalizer=_precompiled(charsmap(trie=struct.pack("<II", 1 << 8 | 1 << 10, 99) + bytes(1016)))
    ),
    "value inside of a character": lambda t: t.update(
        normalizer=_precompiled(charsmap("é".encode(), trie=struct.pack("<II", 1 << 8 | 1 << 10, 1) + bytes(1016)))
    ),
    "empty token": lambda t: t.update(added_tokens=_added("")),
    "token that becomes empty": lambda t: t.update(
        normalizer=_replace({"Regex": r"\s+"}, ""), added_tokens=_added(" ")
    ),
    "overlapping tokens": lambda t: t.update(added_tokens=[*_added(" ", lstrip=True), *_added("a", rstrip=True)]),
}  # fmt: skip
"""Tokenizers that panic for some texts, with a paragraph for each row, or that find tokens without end."""


HOSTILE = {
    **PANICS,
    "megabyte": lambda t: t.update(normalizer=_replace({"String": " "}, "x" * 1_000_000)),
    "doubling": lambda t: t.update(normalizer=_sequence(*[_replace({"String": "a"}, "aa")] * 30)),
    "prepending": lambda t: t.update(normalizer=_sequence(*[{"type": "Prepend", "prepend": "xx"}] * 3)),
    "metaspaces": lambda t: t.update(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [{"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"}] * 5,
            }
        ),
    "many": lambda t: t.update(normalizer=_sequence(*[{"type": "Lowercase"}] * 33)),
    "nested": lambda t: t.update(normalizer=_sequence(_sequence(*[{"type": "ByteLevel"}] * 3))),
    "empty pattern": lambda t: t.update(normalizer=_replace({"String": ""}, "a")),
    "slow expression": lambda t: t.update(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed"}
    ),
    "character map": lambda t: t.update(normalizer=_precompiled(charsmap(b"x" * 1000))),
    "two maps": lambda t: t.update(normalizer=_sequence(*[_precompiled(charsmap())] * 2)),
    "padding": lambda t: t.update(padding=_fixed(10**9)),
    "rounding": lambda t: t.update(padding=_fixed(1, pad_to_multiple_of=10**9)),
    "padding id": lambda t: t.update(padding=_fixed(1, pad_id=1 << 32)),
    "truncation": lambda t: t.update(truncation={"max_length": 10**12, "stride": 0}),
    "template": lambda t: t.update(
            post_processor={
                "type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 100,
                "pair": [],
                "special_tokens": {},
            }
        ),
    "special tokens": lambda t: t.update(
            post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}] * 999, "pair": []}
        ),
    "unknown": lambda t: t.update(pre_tokenizer={"type": "Wasm"}),
    "no type": lambda t: t.update(normalizer={"pattern": {"String": "a"}, "content": "b"}),
    "token": lambda t: t["model"]["vocab"].update({"x" * 2000: 1}),
    "id": lambda t: t["model"]["vocab"].update({"x": 1 << 32}),
    "added id": lambda t: t.update(added_tokens=[{"id": 1 << 31, "content": "x"}]),
    "added": lambda t: t.update(added_tokens=[{"id": 1, "content": "x"}] * 10_001),
    "model": lambda t: t["model"].update(type="Lua"),
    "prefix": lambda t: t["model"].update(continuing_subword_prefix="x" * 10_000),
    "dropout": lambda t: t["model"].update(dropout=0.5),
    "words": lambda t: t["model"].update(max_input_chars_per_word=10**9),
    "tree": lambda t: t.update(model={"type": "Unigram", "vocab": [[f"{i}".zfill(900), 0.0] for i in range(5000)]}),
    "list": lambda t: t.update(normalizer=[]),
    "model missing": lambda t: t.pop("model"),
    "depth": lambda t: t.update(decoder=json.loads("[" * 500 + "]" * 500)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tokenizers_are_refused_before_they_are_built(name, raises):
    edit = HOSTILE[name]
    with raises(BundleError):
        limits.check_tokenizer(_edited(edit), "here")


def test_a_name_that_occurs_twice_is_refused(raises):
    """Parsers disagree which one counts."""
    text = (GOLDEN / "tokenizer.json").read_text("utf-8").replace('"version"', '"model": {}, "version"')
    with raises(BundleError):
        limits.check_tokenizer(text.encode(), "here")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=9,
)


@given(st.sampled_from([*limits.COMPONENTS, "model", "added_tokens", "padding", "truncation"]), JSON)
def test_any_settings_pass_or_are_refused(part, value):
    with contextlib.suppress(BundleError):
        limits.check_tokenizer(_edited(lambda record: record.update({part: value})), "here")


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(content):
    with pytest.raises(BundleError):
        limits.check_tokenizer(content, "here")


def test_a_hostile_tokenizer_with_a_valid_hash_is_refused_by_the_bundle(copy, raises):
    change(copy, "tokenizer.json", HOSTILE["megabyte"])
    with raises(BundleError, found=1000000):
        open_bundle(copy)


def test_a_hostile_graph_with_a_valid_hash_is_refused_by_the_bundle(copy, raises):
    put(copy, "model.onnx", priced_at_one([_node("Loop")]))
    with raises(BundleError, operators=["Loop"]):
        open_bundle(copy)


def _node(operator):
    from onnx import helper

    return helper.make_node(operator, ["mask"], ["extra"])


@pytest.mark.parametrize("content", [b"[" * (65 << 20), b"[" * 3_000_000])
@pytest.mark.parametrize("name", ["preprocess.json", "tokenizer.json"])
def test_large_and_nested_json_is_not_parsed(copy, name, content, raises):
    put(copy, name, content)
    with raises(BundleError):
        open_bundle(copy)


@pytest.mark.parametrize("name", ["intervals.json", "sketch.json", "self_test.json"])
def test_large_files_that_members_share_are_not_parsed(copy, name, raises):
    put(copy, name, b"[" * (2 << 20))
    with raises(BundleError, found=2097152):
        open_bundle(copy)


def test_the_number_of_members_is_limited(copy, raises):
    member = {
        "weight": 1 / 300,
        "model": "model.onnx",
        "tokenizer": "tokenizer.json",
        "preprocess": "preprocess.json",
    }
    manifest = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps({**manifest, "members": [member] * 300}))
    with raises(BundleError):
        open_bundle(copy)


def test_the_number_of_tokens_is_limited(monkeypatch, raises):
    content = tokenizer().to_str().encode()
    limits.check_tokenizer(content, "here")
    monkeypatch.setattr(limits, "MOST_TOKENS", 1)
    with raises(BundleError, found=2):
        limits.check_tokenizer(content, "here")


def test_the_size_of_all_files_is_limited(copy, monkeypatch, raises):
    monkeypatch.setattr("pricekit.predict.limits.MOST_BYTES", 50_000)
    with raises(BundleError):
        open_bundle(copy)


def share(bundle, *members):
    """Give a bundle members of equal weight, each with the names of its graph and tokenizer."""
    manifest = json.loads((bundle / MANIFEST).read_text())
    shared = {name: manifest[name] for name in ("metrics", "verified")} | {"preprocess": "preprocess.json"}
    facts = [
        {"weight": 1 / len(members), "model": model, "tokenizer": tokens, **shared}
        for model, tokens in members
    ]
    write_manifest(bundle, {**manifest, "members": facts})


@pytest.fixture
def alike(copy):
    """A bundle with an equal copy of its graph and of its tokenizer."""
    for name in ("model.onnx", "tokenizer.json"):
        put(copy, f"1-{name}", (copy / name).read_bytes())
    return copy


def test_files_that_members_share_are_checked_once(alike, monkeypatch):
    graph, tokens = (alike / "model.onnx").read_bytes(), (alike / "tokenizer.json").read_bytes()
    monkeypatch.setattr(limits, "GRAPHS_FIELDS", limits.check_graph(graph, "here"))
    monkeypatch.setattr(limits, "TOKENIZERS_BYTES", len(tokens))
    share(alike, *[("model.onnx", "tokenizer.json"), ("1-model.onnx", "1-tokenizer.json")] * 32)
    (first, _), *others = open_bundle(alike).members()
    assert all(files[name] is content for files, _ in others for name, content in first.items())


def test_the_work_for_the_files_of_all_members_is_limited(alike, monkeypatch, raises):
    graph = onnx.load(alike / "model.onnx")
    graph.doc_string = "other"
    put(alike, "1-model.onnx", graph.SerializeToString())
    put(alike, "1-tokenizer.json", (alike / "tokenizer.json").read_bytes() + b" ")
    share(alike, ("model.onnx", "tokenizer.json"), ("1-model.onnx", "1-tokenizer.json"))
    open_bundle(alike)
    monkeypatch.setattr(limits, "TOKENIZERS_BYTES", (alike / "1-tokenizer.json").stat().st_size)
    with raises(BundleError, found=13233):
        open_bundle(alike)
    monkeypatch.setattr(limits, "GRAPHS_FIELDS", 1000)
    with raises(BundleError):
        open_bundle(alike)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("padding", 65 << 20),
        ("model.onnx", 3 << 30),
        ("preprocess.json", 3 << 30),
    ],
)
def test_files_that_are_too_large_are_not_read(copy, name, size, raises):
    """The hash in the manifest is wrong, which a reader would find."""
    with open(copy / name, "wb") as file:
        file.truncate(size)
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest["files"][name] = {"sha256": "0", "bytes": size}
    write_manifest(copy, manifest)
    with raises(BundleError):
        open_bundle(copy)


def test_small_files_of_later_versions_are_allowed(copy):
    put(copy, "later.bin", b"new")
    assert open_bundle(copy).files["later.bin"] == b"new"


def test_a_bundle_larger_than_the_available_memory_is_not_read(copy, tmp_path, monkeypatch, raises):
    monkeypatch.setattr("pricekit.io.cpus._MEMORY", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemAvailable:   10 kB\n")
    with raises(BundleError):
        open_bundle(copy)


def test_a_model_that_exceeds_the_limits_is_not_exported(run, tmp_path, monkeypatch, raises):
    monkeypatch.setattr(limits, "OPERATORS", limits.OPERATORS - {"Gather"})
    with raises(ExportError, operators=["Gather"]):
        export_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bundle_that_could_not_be_read_is_not_exported(run, tmp_path, monkeypatch, raises):
    monkeypatch.setitem(limits.FILE_BYTES, "model.onnx", 1000)
    with raises(ExportError):
        export_run(run, tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr("pricekit.predict.bundle.MAX_MANIFEST_BYTES", 100)
    with raises(ExportError):
        export_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
