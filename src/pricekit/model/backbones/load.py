"""Loading tokenizer and model from a folder of pretrained weights, with errors that explain the problem."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from pricekit.errors import ConfigError
from pricekit.model.backbones.weights import quiet_transformers
from pricekit.text import shorten

HEADS = ("cls.", "lm_head.")
"""Prefixes of the tensors of the head that predicts masked tokens."""


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder of weights; it is converted if there is no tokenizer.json.

    Raises:
        ConfigError: the folder holds no tokenizer that can be opened.
    """
    path = folder / "tokenizer.json"
    try:
        if path.is_file():
            return Tokenizer.from_file(str(path))
        from transformers import AutoTokenizer

        with quiet_transformers():
            return AutoTokenizer.from_pretrained(folder, local_files_only=True).backend_tokenizer
    except Exception as error:  # tokenizers raises bare Exception, and the conversion anything
        reason = shorten(str(error), 200)
        raise ConfigError(
            f"{folder} holds no fast tokenizer that can be opened ({reason}); expected tokenizer.json. To convert "
            "spm.model, pip install sentencepiece protobuf",
            parameters=("weights",),
            path=str(folder),
        ) from None


def load_model(
    model: Any, config: Any, folder: Path, name: str, arguments: Mapping[str, Any], *, new_head: bool = False
) -> PreTrainedModel:
    """Return a model with the weights of a folder, in float32.

    Args:
        model: the library's class.
        config: of the class's configuration.
        folder: of the weights.
        name: of the backbone, for messages.
        arguments: of the class, in addition.
        new_head: whether the head that predicts masked tokens may be new, where the folder has none.

    Raises:
        ConfigError: the weights are damaged, or lack tensors of the model.
    """
    try:
        with quiet_transformers():
            made, found = model.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                **arguments,
            )
    except Exception as error:  # a damaged file raises many kinds
        reason = shorten(str(error), 200)
        raise ConfigError(
            f"the weights in {folder} cannot be loaded into '{name}': {reason}; download them again",
            parameters=("weights",),
            path=str(folder),
        ) from None
    missing = sorted(key for key in found["missing_keys"] if not (new_head and key.startswith(HEADS)))
    if missing:
        raise ConfigError(
            f"the weights in {folder} lack {len(missing)} tensors of '{name}', such as {missing[0]}: they are "
            "from another architecture",
            parameters=("weights",),
            missing=missing,
        )
    loaded: PreTrainedModel = made
    return loaded
