"""The families of pretrained encoders: their classes in transformers, and their special tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Family:
    """The classes of one family and the special tokens of its tokenizers.

    Attributes:
        config: class of the configuration.
        model: class of the encoder.
        masked: class of the encoder with a head that predicts masked tokens.
        specials: special tokens; the place of each is its id.
        unknown: the special token for what the vocabulary cannot spell.
        around: special tokens that begin and end every text.
        arguments: of `model`, in addition to the configuration.
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
