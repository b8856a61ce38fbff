"""Folders of weights as transformers writes them: the true architectures, tiny and with random weights."""

from pathlib import Path
from typing import Any

import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from pricekit.nets.transformer import family_of
from pricekit.text.tokens import train_bpe

TEXTS = [f"Item Name: green tea number {n}, {n % 7} x {n} Count" for n in range(60)]

_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 258,
}
_PAD_FIRST = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PAD_SECOND = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
_DISENTANGLED: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
_T5: dict[str, Any] = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
KINDS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
    "camembert": {"pad_token_id": 1},
    "deberta": _DISENTANGLED,
    "deberta-v2": {
        **_DISENTANGLED,
        "position_buckets": 16,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "electra": {"embedding_size": 16},
    "albert": {"embedding_size": 16},
    "mpnet": {"pad_token_id": 1},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "modernbert": {
        "local_attention": 16,
        "global_attn_every_n_layers": 2,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "bos_token_id": 2,
        "eos_token_id": 3,
    },
    "eurobert": {"num_key_value_heads": 2, "head_dim": 16, "bos_token_id": 2, "eos_token_id": 3},
    "t5": {**_T5, "feed_forward_proj": "gated-gelu"},
    "umt5": _T5,
    "gte": {},
    "nomic_bert": {},
    "jina_embeddings_v3": {},
    "ernie": {},
    "megatron-bert": {},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "roformer": {},
}
"""Families, each with the values of its configuration that differ from `_SIZES`."""


_WIDTHS = (
    *("hidden_size", "intermediate_size", "embedding_size", "input_embedding_size", "output_embedding_size"),
    *("dim", "hidden_dim", "d_model", "d_kv", "d_ff", "head_dim"),
)


def tiny_config(kind: str, vocab_size: int = 300, times: int = 1) -> Any:
    """Return a configuration of a family, tiny or so many times as wide."""
    values = {**_SIZES, "vocab_size": vocab_size, "pad_token_id": 0, **KINDS[kind]}
    return CONFIG_MAPPING[kind](**values | {name: times * values[name] for name in _WIDTHS if name in values})


def write_weights(folder: Path, kind: str, texts: list[str] = TEXTS, times: int = 1) -> Path:
    """Write config.json, tokenizer.json and model.safetensors with random weights; return the folder.

    Args:
        folder: to create.
        kind: a family of `KINDS`.
        texts: of which the tokenizer is trained.
        times: how many times as wide as the tiny encoder it is.
    """
    config = tiny_config(kind, times=times)
    specials = _PAD_SECOND if config.pad_token_id == 1 else _PAD_FIRST
    tokenizer = train_bpe(texts, 300, specials, unknown="[UNK]", around=("[CLS]", "[SEP]"))
    family = family_of(kind)
    torch.manual_seed(0)
    family.create(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
