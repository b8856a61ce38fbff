"""The sizes of the pretrained architectures, as in their published configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
