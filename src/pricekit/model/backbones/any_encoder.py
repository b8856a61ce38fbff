"""Backbone `encoder`: any text encoder of transformers, from a folder of weights or a hub id."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from pricekit.config import Section
from pricekit.core.contracts import State, WeightsSource
from pricekit.errors import ConfigError
from pricekit.model.backbones.architectures import Architecture
from pricekit.model.backbones.encoder import POOLING, TransformerEncoder
from pricekit.model.backbones.families import family_of, longest_text
from pricekit.model.backbones.lora import DESCRIPTION
from pricekit.model.backbones.transformer import Pretrained, PretrainedOptions, source_of
from pricekit.model.backbones.weights import (
    POOLING_FILE,
    SENTENCE_FILE,
    find_weights,
    naming,
    read_config,
)
from pricekit.support.log import logger
from pricekit.support.text import shorten
from pricekit.tokens import Tokens

_POOLINGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
"""Keys of the file of sentence-transformers, with the value of `Pooling`."""


class AnyEncoder:
    """A text encoder of any family that transformers contains; its own code is never run.

    Pooling and prefix are those that sentence-transformers stored beside the weights, such as "query: " of E5.
    """

    class Options(Section):
        """Options of `encoder`."""

        weights: str | None = Field(None, description="folder or hub id of the weights, in safetensors")
        pooling: Literal["auto", "mean", "cls", "lead"] = Field(
            "auto", description=f"{POOLING}; auto: that of the weights, or mean"
        )
        prefix: str | None = Field(
            None, description="put before each text, such as 'query: '; None: that of the weights"
        )
        dropout: float | None = Field(
            None, ge=0, lt=1, description="dropout in the encoder; None: the published value"
        )
        lora: int = Field(0, ge=0, description=DESCRIPTION)

    from_scratch = False

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens that the encoder accepts; None: no limit."""
        return self._given.max_length

    @property
    def weights_source(self) -> WeightsSource:
        """Where the weights come from; their licence is unknown."""
        return source_of(self.options.weights or "")

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Load the tokenizer of the weights."""
        return self._given.tokenizer(texts)

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder and its pooling."""
        return {"config": self._given.architecture(tokenizer), "pooling": self._given.options.pooling}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Return an encoder with its weights; with `tokens` None they are loaded afterwards."""
        config: Any = architecture["config"]
        if tokens is None:
            known = Architecture("encoder", "", config["model_type"], max_length=None)
            given = Pretrained(
                known, PretrainedOptions(pooling=architecture["pooling"], lora=self.options.lora)
            )
        else:
            given = self._given
        return given.encoder(config, tokenizer, tokens)

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with a head that predicts masked tokens."""
        config: Any = architecture["config"]
        return self._given.masked_language_model(config)

    @cached_property
    def _given(self) -> Pretrained:
        """The backbone that the weights describe."""
        if self.options.weights is None:
            raise ConfigError(
                "the backbone 'encoder' has no weights; name a folder with config.json, tokenizer.json and "
                "model.safetensors, or an id on the Hugging Face hub",
                parameters=("weights",),
            )
        folder = find_weights(self.options.weights, "encoder")
        found = read_config(folder)
        family = family_of(found["model_type"])
        prefix = _prefix_of(folder) if self.options.prefix is None else self.options.prefix
        pooling = _pooling_of(folder) if self.options.pooling == "auto" else self.options.pooling
        kept = PretrainedOptions(
            weights=str(folder), pooling=pooling, dropout=self.options.dropout, lora=self.options.lora
        )
        known = Architecture("encoder", str(folder), found["model_type"], max_length=None, prefix=prefix)
        with naming(folder / "config.json", found):
            longest = longest_text(family, family.config.from_dict(found))
        return Pretrained(replace(known, max_length=longest), kept)


def _read(path: Path) -> dict[str, Any]:
    """Return an optional file of sentence-transformers, {} without it."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}); download the weights again, or delete the file",
            parameters=("weights",),
        ) from None
    return found if isinstance(found, dict) else {}


def _pooling_of(folder: Path) -> Any:
    """Return the pooling that is stored beside the weights, otherwise the mean."""
    stored = _read(folder / POOLING_FILE)
    chosen = [key for key, value in stored.items() if key.startswith("pooling_mode") and value is True]
    known = [_POOLINGS[key] for key in chosen if key in _POOLINGS]
    if chosen and len(known) != 1:
        logger.warning(
            f"the weights were trained with {', '.join(chosen)}; the mean of all tokens is used instead"
        )
    return known[0] if len(known) == 1 else "mean"


def _prefix_of(folder: Path) -> str:
    """Return the default prompt that is stored beside the weights, or no prefix."""
    stored = _read(folder / SENTENCE_FILE)
    prompts, name = stored.get("prompts"), stored.get("default_prompt_name")
    if not isinstance(name, str | None):
        raise ConfigError(
            f"{folder / SENTENCE_FILE} has default_prompt_name {shorten(json.dumps(name), 80)}; expected the name of a "
            "prompt, or null. Download the weights again, correct the file, or set backbone.prefix",
            parameters=("weights", "settings"),
        )
    return str(prompts.get(name) or "") if isinstance(prompts, dict) else ""
