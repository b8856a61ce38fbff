"""Folders with fine-tuned regressors as transformers writes them: tiny, with random weights."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

from pricekit.datasets import make_catalog
from pricekit.text.tokens import train_bpe
from tests.nets.tiny_weights import tiny_config

NEW = [*make_catalog(4, seed=9)["catalog_content"], "", "Tea " * 400]
"""Texts that no test trains on; one is empty, and one is longer than the models read."""


def _byte_level() -> Tokenizer:
    """A tokenizer like that of RoBERTa, which reads spaces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(make_catalog(50)["catalog_content"], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def _tokenizer(pad_id: int) -> PreTrainedTokenizerFast:
    if pad_id == 1:
        names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
        return PreTrainedTokenizerFast(tokenizer_object=_byte_level(), **names)
    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    trained = train_bpe(
        make_catalog(50)["catalog_content"], 300, specials, unknown="[UNK]", around=("[CLS]", "[SEP]")
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=trained, **names)


def write_regressor(folder: Path, kind: str, **values: Any) -> Path:
    """Write a regressor whose outputs differ from text to text; return the folder.

    Args:
        folder: to create.
        kind: a family of `tiny_weights.KINDS`.
        values: of its configuration.
    """
    config = tiny_config(kind)
    config.update({"num_labels": 1, "problem_type": "regression", **values})
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(30 if name.startswith("class") else 4)
    model.save_pretrained(folder)
    _tokenizer(config.pad_token_id).save_pretrained(folder)
    return folder


def outputs(folder: Path, texts: list[str], max_length: int) -> torch.Tensor:
    """Return what transformers computes of texts, each alone, float64 (N,)."""
    from transformers import AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        rows = [
            model(**tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")).logits[0, 0]
            for text in texts
        ]
    return torch.stack(rows).double()
