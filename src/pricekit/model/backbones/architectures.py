"""The sizes of the pretrained architectures, as in their published configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DebertaV2Model,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaModel,
)

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
        family: `model_type` of the configuration: roberta, bert or deberta-v2.
        numbers: values of the configuration that differ from the library's defaults.
        max_length: maximum number of tokens per text.
        licence: SPDX id of the licence of these weights, as their model card states it; "" if it is unknown.
    """

    name: str
    hub: str
    family: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    max_length: int = 512
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


@dataclass(frozen=True)
class Family:
    """The classes of one family and the special tokens of its tokenizers.

    Attributes:
        config: class of the configuration.
        model: class of the encoder.
        masked: class of the encoder with a head that predicts masked tokens.
        specials: special tokens; the position of each is its id.
        unknown: the special token for characters outside the vocabulary.
        around: special tokens that begin and end every text.
        arguments: arguments of `model` in addition to the configuration.
    """

    config: Any
    model: Any
    masked: Any
    specials: tuple[str, ...]
    unknown: str
    around: tuple[str, str]
    arguments: Mapping[str, Any]


_BERT_TOKENS = ("[UNK]", ("[CLS]", "[SEP]"))
FAMILIES = {
    "roberta": Family(
        RobertaConfig,
        RobertaModel,
        RobertaForMaskedLM,
        ("<s>", "<pad>", "</s>", "<unk>"),
        "<unk>",
        ("<s>", "</s>"),
        {"add_pooling_layer": False},
    ),
    "bert": Family(
        BertConfig,
        BertModel,
        BertForMaskedLM,
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]"),
        *_BERT_TOKENS,
        {"add_pooling_layer": False},
    ),
    "deberta-v2": Family(
        DebertaV2Config,
        DebertaV2Model,
        DebertaV2ForMaskedLM,
        ("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
        *_BERT_TOKENS,
        {},
    ),
}
