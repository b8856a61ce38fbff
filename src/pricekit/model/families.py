"""The encoders of transformers, by the `model_type` of their configuration, and the sizes of those with a name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_TEXT_ENCODING_MAPPING,
    MODEL_MAPPING,
)

from pricekit.errors import ConfigError


@dataclass(frozen=True)
class Family:
    """The classes of one family and the special tokens of its tokenizers.

    Attributes:
        config: class of the configuration.
        model: class of the encoder.
        masked: class of the encoder with a head that predicts masked tokens; None if there is none.
        arguments: arguments of `model` in addition to the configuration.
        specials: special tokens of a tokenizer that is trained here; the position of each is its id.
        unknown: the special token for characters outside the vocabulary.
        around: special tokens that begin and end every text.
    """

    config: Any
    model: Any
    masked: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    specials: tuple[str, ...] = ()
    unknown: str = ""
    around: tuple[str, str] = ("", "")


_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), "[UNK]", ("[CLS]", "[SEP]")
_SPECIALS = {
    "roberta": (("<s>", "<pad>", "</s>", "<unk>"), "<unk>", ("<s>", "</s>")),
    "bert": _BERT,
    "deberta-v2": (("[PAD]", "[CLS]", "[SEP]", "[UNK]"), "[UNK]", ("[CLS]", "[SEP]")),
    "modernbert": _BERT,
}
"""Families with named backbones, whose tokenizers can be trained here."""

_SEQUENCE_TO_SEQUENCE = ("t5", "mt5", "umt5")
"""Families of which transformers has the encoder alone."""

_MIXES_PADDING = "it mixes padding into the text, so a price would depend on the other texts of a batch"
_BY_LENGTH = "its attention depends on the length of a text, which an exported graph cannot express"
_REFUSED = {
    "big_bird": _BY_LENGTH,
    "convbert": _MIXES_PADDING,
    "fnet": _MIXES_PADDING,
    "funnel": _BY_LENGTH,
    "longformer": _BY_LENGTH,
    "mobilebert": _MIXES_PADDING,
    "nystromformer": _MIXES_PADDING,
    "reformer": _BY_LENGTH,
    "yoso": _MIXES_PADDING,
}
"""Families that cannot be used, with the reason."""


@cache
def family_of(kind: str) -> Family:
    """Return the classes of a family of text encoders.

    Args:
        kind: the `model_type` of a configuration, such as "xlm-roberta".

    Raises:
        ConfigError: transformers does not know the family, it is no text encoder, or it cannot be used.
    """
    if kind not in CONFIG_MAPPING:
        raise _unusable(
            kind,
            f"transformers {transformers.__version__} does not know it, and pricekit runs no code that comes with "
            "weights; use a newer transformers if it has this family, or other weights",
        )
    if kind in _REFUSED:
        raise _unusable(kind, f"{_REFUSED[kind]}; use weights of another family")
    config: Any = CONFIG_MAPPING[kind]
    masked = MODEL_FOR_MASKED_LM_MAPPING.get(config, None)
    if masked is None and kind not in _SEQUENCE_TO_SEQUENCE:
        raise _unusable(
            kind, "it is no encoder of texts; use an encoder such as BERT, XLM-R, ModernBERT or T5"
        )
    model: Any = MODEL_FOR_TEXT_ENCODING_MAPPING.get(config, None)
    if model is None and config().is_encoder_decoder:
        raise _unusable(
            kind, "transformers has no encoder of it without the decoder; use an encoder such as BERT or T5"
        )
    model = model or MODEL_MAPPING[config]
    pooled = "add_pooling_layer" in inspect.signature(model).parameters
    arguments = {"add_pooling_layer": False} if pooled else {}
    return Family(config, model, masked, arguments, *_SPECIALS.get(kind, ()))


def _unusable(kind: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the weights are of the family '{kind}', which cannot be used: {reason}",
        parameters=("weights", "backbone"),
        found=kind,
    )


def longest_text(family: Family, config: Any) -> int | None:
    """Return the maximum number of tokens of an encoder; None: no limit."""
    with torch.device("meta"):
        model = family.model(config, **family.arguments)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    found: int | None = getattr(config, "max_position_embeddings", None)
    return found


def encoder_of(model: Any) -> Any:
    """Return the encoder that is trained and exported.

    Of T5, it is the stack alone, because its embeddings have two names in the whole model. Its attention is computed
    without sdpa, whose result it reshapes in a way that `torch.onnx.export` cannot trace.
    """
    if model.config.model_type not in _SEQUENCE_TO_SEQUENCE:
        return model
    model.set_attn_implementation("eager")
    return model.encoder


_ROBERTA: Mapping[str, Any] = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
_DEBERTA_V3: Mapping[str, Any] = {
    "vocab_size": 128100,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "pad_token_id": 0,
    "relative_attention": True,
    "position_buckets": 256,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}


@dataclass(frozen=True)
class Architecture:
    """One pretrained encoder.

    Attributes:
        name: of the backbone.
        hub: id of the weights on the Hugging Face hub.
        family: `model_type` of the configuration, such as "roberta".
        numbers: values of the configuration that differ from the library's defaults.
        max_length: maximum number of tokens per text; None: no limit.
        prefix: what stood before each text when the weights were trained.
        licence: SPDX id of the licence of these weights, as their model card states it; "" if it is unknown.
    """

    name: str
    hub: str
    family: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    max_length: int | None = 512
    prefix: str = ""
    licence: str = ""


ROBERTA_BASE = Architecture("roberta-base", "FacebookAI/roberta-base", "roberta", _ROBERTA, licence="MIT")
DISTILROBERTA = Architecture(
    "distilroberta",
    "distilbert/distilroberta-base",
    "roberta",
    {**_ROBERTA, "num_hidden_layers": 6},
    licence="Apache-2.0",
)
DEBERTA_V3_BASE = Architecture(
    "deberta-v3-base", "microsoft/deberta-v3-base", "deberta-v2", _DEBERTA_V3, licence="MIT"
)
DEBERTA_V3_SMALL = Architecture(
    "deberta-v3-small",
    "microsoft/deberta-v3-small",
    "deberta-v2",
    {**_DEBERTA_V3, "num_hidden_layers": 6},
    licence="MIT",
)
MODERNBERT_BASE = Architecture(
    "modernbert-base",
    "answerdotai/ModernBERT-base",
    "modernbert",
    {
        "vocab_size": 50368,
        "pad_token_id": 0,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "bos_token_id": 2,
        "eos_token_id": 3,
    },
    max_length=8192,
    licence="Apache-2.0",
)
MULTILINGUAL_E5_SMALL = Architecture(
    "multilingual-e5-small",
    "intfloat/multilingual-e5-small",
    "bert",
    {
        "vocab_size": 250037,
        "hidden_size": 384,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "pad_token_id": 0,
    },
    prefix="query: ",
    licence="MIT",
)
