"""The checks of a backbone plugin and its tokenizer; `encoder` checks the encoder. Imports torch."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer

from pricekit.testing.checks import encoder
from pricekit.testing.data import DIFFICULT_TEXTS
from pricekit.testing.models import build, seeded, training_texts
from pricekit.testing.runner import Check, Make, fail, named, require_methods, shown
from pricekit.tokens import encode, pad_id_of

TOKENS = 64


def checks(make: Make) -> list[Check]:
    """Return the checks; see `pricekit.testing.check_backbone`."""
    found = {
        "has tokenizer, architecture and encoder": _is_made,
        "max_length is None or a number": _max_length,
        "trains a tokenizer": _tokenizer,
        "tokenizer survives JSON": _round_trip,
        "tokenizer accepts every text": _every_text,
        "architecture is JSON": _architecture,
        "hidden_size and members": _sizes,
        "layers and embedding belong to the encoder": encoder.layers,
        "encodes as float32 (B, hidden_size)": encoder.output,
        "padding changes nothing": encoder.padding,
        "independent of the other rows of the batch": encoder.batch_sensitivity,
        "deterministic": encoder.twice,
        "gradient reaches every parameter": encoder.gradients,
        "checkpointing changes nothing": encoder.checkpointing,
        "a deep copy is independent": encoder.deep_copy,
        "reopens from a run": encoder.opens_again,
        "exports exactly": encoder.exports,
    }
    return named(seeded(found), make)


def _is_made(make: Make) -> None:
    require_methods(make(), "tokenizer", "architecture", "encoder")


def _max_length(make: Make) -> None:
    plugin = make()
    found = getattr(plugin, "max_length", "absent")
    if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 1):
        fail(f"max_length is {found!r}", "None or an int of at least 1", "write max_length = None")


def _trained(plugin: Any) -> Tokenizer:
    found = plugin.tokenizer(training_texts())
    if not isinstance(found, Tokenizer):
        fail(
            f"tokenizer returned {type(found).__module__}.{type(found).__qualname__}",
            "a tokenizers.Tokenizer",
            "for a transformers tokenizer, return its backend_tokenizer",
        )
    return found


def _tokenizer(make: Make) -> None:
    found = _trained(make())
    size, pad_id = found.get_vocab_size(), pad_id_of(found)
    if not 0 <= pad_id < size:
        fail(
            f"the padding id is {pad_id}, the vocabulary size {size}",
            "an id in the vocabulary",
            "fix enable_padding",
        )
    if not found.encode("Item Name: green tea, 12 oz").ids:
        fail(
            "an ordinary text has no tokens",
            "at least one",
            "train on the given texts, or check the normalizer",
        )


def _round_trip(make: Make) -> None:
    found = _trained(make())
    again = Tokenizer.from_str(found.to_str())
    texts = training_texts()
    for text, one, other in zip(texts, found.encode_batch(texts), again.encode_batch(texts), strict=True):
        if one.ids != other.ids:
            fail(
                f"after a round trip through JSON, the tokenizer gives different ids for {text[:60]!r}",
                "the same ids, because a bundle stores only the JSON",
                "use no components written in Python, such as a custom pre-tokenizer",
            )


def _every_text(make: Make) -> None:
    found = _trained(make())
    ids = encode(found, DIFFICULT_TEXTS, TOKENS, pad_id_of(found)).ids
    size = found.get_vocab_size()
    if ids.min() < 0 or ids.max() >= size:
        fail(
            f"the tokenizer gave ids from {ids.min()} to {ids.max()} with a vocabulary of {size}",
            "ids from 0 to below the vocabulary size, because the encoder looks them up",
            "add every special token to the vocabulary",
        )


def _architecture(make: Make) -> None:
    plugin = make()
    found = plugin.architecture(_trained(plugin))
    if not isinstance(found, dict):
        fail(f"architecture returned {shown(found)}", "a dict", "return {} if the options define the encoder")
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError) as error:
        fail(
            f"architecture is not JSON: {error}",
            "finite numbers, strings, lists and dicts",
            "leave out other values",
        )


def _sizes(make: Make) -> None:
    found = build(make).encoder
    hidden, members = getattr(found, "hidden_size", None), getattr(found, "members", None)
    if not (isinstance(hidden, int) and isinstance(members, int) and members >= 1 and hidden >= members):
        fail(
            f"hidden_size is {hidden!r}, members {members!r}",
            "positive ints, with hidden_size >= members",
            "set both on the encoder",
        )
    if hidden % members:
        fail(
            f"hidden_size {hidden} is not a multiple of members {members}", "a multiple", "change hidden_size"
        )
