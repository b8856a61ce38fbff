"""Tokenizers that fail or panic: one error that names the tokenizer."""

import base64
import shutil
import struct
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from pricekit.core.calls import plugin_call
from pricekit.errors import BundleError, ConfigError, PluginError, is_panic
from pricekit.nets.pretrained import load_tokenizer
from pricekit.predict.predictor import Predictor
from pricekit.text.tokens import _ready as ready
from pricekit.text.tokens import encode
from tests.predict.hostile import change

GOLDEN = Path("tests/golden/bundle")
FEW, MANY = ["tea ☃ 茶", "coffee"], [f"tea ☃ 茶 {number}" for number in range(20)]


def _template(*pieces):
    return {"type": "TemplateProcessing", "single": list(pieces), "pair": [], "special_tokens": {}}


def _charsmap(trie):
    content = base64.b64encode(struct.pack("<I", len(trie)) + trie + b"e\0").decode()
    return {"type": "Precompiled", "precompiled_charsmap": content}


UNKNOWN = {"unk_token": "[U]", "vocab": {"a": 0}}
ODD = {
    "no vocabulary": lambda t: t["model"].update(vocab={}, merges=[]),
    "no unknown token": lambda t: t["model"].update(unk_token="[U]"),
    "wordlevel": lambda t: t.update(model={"type": "WordLevel", **UNKNOWN}),
    "wordpiece": lambda t: t.update(
        model={"type": "WordPiece", **UNKNOWN, "continuing_subword_prefix": "#", "max_input_chars_per_word": 9}
    ),
    "unigram": lambda t: t.update(
        model={"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]], "byte_fallback": False}
    ),
    "special token (panic)": lambda t: t.update(post_processor=_template({"SpecialToken": {"id": "x", "type_id": 0}})),
    "second text (panic)": lambda t: t.update(post_processor=_template({"Sequence": {"id": "B", "type_id": 0}})),
    "character map (panic)": lambda t: t.update(normalizer=_charsmap(b"\xff" * 1024)),
    "prefix (panic)": lambda t: t["model"].update(continuing_subword_prefix="é##"),
    "short map (panic)": lambda t: t.update(normalizer=_charsmap(b"abc")),
}  # fmt: skip


@pytest.mark.parametrize("texts", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", ODD)
def test_a_tokenizer_that_fails_or_panics_is_one_error(tmp_path, name, texts, raises):
    copy = shutil.copytree(GOLDEN, tmp_path / "copy")
    change(copy, "tokenizer.json", ODD[name])
    with raises(BundleError):
        Predictor.load(copy, "ort-cpu").predict(texts)


def test_an_empty_sequence_of_components_splits_nowhere(tmp_path):
    copy = shutil.copytree(GOLDEN, tmp_path / "copy")
    change(
        copy, "tokenizer.json", lambda t: t.update(pre_tokenizer={"type": "Sequence", "pretokenizers": []})
    )
    assert (Predictor.load(copy, "ort-cpu").predict(MANY) > 0).all()


def test_fixed_padding_changes_no_tokens(tmp_path):
    tokenizer = Tokenizer.from_file(str(GOLDEN / "tokenizer.json"))
    expected = encode(tokenizer, MANY, 16, 0)
    tokenizer.enable_padding(length=4000)
    found = encode(tokenizer, MANY, 16, 0)
    assert found.ids.tolist() == expected.ids.tolist()
    assert tokenizer.padding["length"] == 4000


def _panic():
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    from tokenizers.processors import TemplateProcessing

    tokenizer.post_processor = TemplateProcessing(single="$B", special_tokens=[])
    tokenizer.encode("a")


def test_a_panic_of_a_plugin_is_an_error_that_names_it(raises):
    expected = raises(PluginError, kind="backbone", name="bag", package="pricekit")
    with expected, plugin_call("backbone", "bag", "making its tokenizer"):
        _panic()
    with raises(BaseException) as found:
        _panic()
    assert is_panic(found.value)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, GeneratorExit])
def test_interrupts_pass(interrupt):
    with pytest.raises(interrupt), plugin_call("backbone", "bag", "making its tokenizer"):
        raise interrupt
    with pytest.raises(interrupt), ready(Tokenizer.from_file(str(GOLDEN / "tokenizer.json"))):
        raise interrupt


def test_weights_with_a_tokenizer_that_panics_are_refused(tmp_path, raises):
    copy = shutil.copytree(GOLDEN, tmp_path / "copy")
    change(copy, "tokenizer.json", ODD["prefix (panic)"])
    with raises(ConfigError, "weights"):
        load_tokenizer(copy)
