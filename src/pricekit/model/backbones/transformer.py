"""Transformer encoders: pretrained ones, and a small one from scratch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field
from tokenizers import Tokenizer
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedModel

from pricekit.config import Search, Section
from pricekit.core.contracts import State, WeightsSource
from pricekit.errors import ConfigError
from pricekit.model.backbones import architectures, lora
from pricekit.model.backbones.architectures import Architecture
from pricekit.model.backbones.bpe import train_bpe
from pricekit.model.backbones.deberta import export_by_distance, slice_positions
from pricekit.model.backbones.encoder import POOLING, Pooling, TransformerEncoder
from pricekit.model.backbones.families import FAMILIES, encoder_of, family_of
from pricekit.model.backbones.weights import (
    check_ids,
    find_weights,
    load_model,
    load_tokenizer,
    naming,
    put_before,
    quiet_transformers,
    read_config,
    set_padding,
)
from pricekit.tokens import Tokens

_TRAINED_VOCABULARY = 30_000
_HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+")
_LOCAL = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")


class PretrainedOptions(Section):
    """Options of a pretrained backbone."""

    weights: str | None = Field(
        None, description="folder or hub id of the weights; None: the published weights"
    )
    random_weights: bool = Field(
        False,
        description="start from random weights instead of downloading pretrained ones; trains a tokenizer",
    )
    pooling: Pooling = Field("mean", description=POOLING)
    dropout: float | None = Field(
        None, ge=0, lt=1, description="dropout in the encoder; None: the published value"
    )
    lora: int = Field(0, ge=0, description=lora.DESCRIPTION)


class UnpaddedOptions(PretrainedOptions):
    """Options of a RoBERTa or BERT backbone."""

    unpadded: bool = Field(
        False, description="train on real tokens only, with flash attention on a GPU; no dropout of attention"
    )


class DebertaOptions(PretrainedOptions):
    """Options of a DeBERTa backbone."""

    slice_positions: bool = Field(
        True, description="project only the relative positions within the batch's length"
    )


def source_of(weights: str) -> WeightsSource:
    """Return where given weights come from, without their licence: a hub id, or a local folder without its name."""
    on_hub = _HUB_ID.fullmatch(weights) and not Path(weights).exists()
    return WeightsSource(weights if on_hub else "a local folder")


class Pretrained:
    """A backbone with a pretrained encoder.

    Args:
        architecture: the architecture of the encoder.
        options: a `PretrainedOptions`.
        locate: returns the folder of weights that an installed package contains, or None.
    """

    def __init__(
        self, architecture: Architecture, options: Any, locate: Callable[[], Path | None] = lambda: None
    ) -> None:
        self.published = architecture
        self.options = options
        self.locate = locate
        self.max_length: int | None = architecture.max_length
        lora.require_peft(options.lora)

    @property
    def weights_source(self) -> WeightsSource | None:
        """Where the weights come from; the licence of other weights than the published ones is unknown."""
        given = self.options.weights
        if getattr(self.options, "random_weights", False):
            return None
        if given in (None, self.published.hub):
            return WeightsSource(self.published.hub, self.published.licence)
        return source_of(given)

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Load the tokenizer of the weights, or train one for random weights."""
        family = family_of(self.published.family)
        if self.options.random_weights:
            size = min(_TRAINED_VOCABULARY, self._config().vocab_size)
            found = train_bpe(texts, size, family.specials, unknown=family.unknown, around=family.around)
        else:
            found = load_tokenizer(self._folder())
            check_ids(found, getattr(self._config(), "vocab_size", None), self._folder())
            put_before(found, self.published.prefix)
        source = "the tokenizer" if self.options.random_weights else f"the tokenizer in {self._folder()}"
        set_padding(found, self._config().pad_token_id, source)
        return found

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder."""
        kept = self._config().to_dict()
        return {key: value for key, value in kept.items() if key not in _LOCAL}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Return an encoder with pretrained or random weights; with `tokens` None its weights are loaded afterwards."""
        family = family_of(self.published.family)
        config = family.config.from_dict(dict(architecture))
        if tokens is None or self.options.random_weights:
            with quiet_transformers():
                model = family.model(config, **family.arguments)
        else:
            model = load_model(family.model, config, self._folder(), self.published.name, family.arguments)
        if getattr(self.options, "slice_positions", False):
            slice_positions(model)
        if model.config.model_type == "deberta-v2":
            export_by_distance(model, self.published.max_length or model.config.max_position_embeddings)
        kept = encoder_of(model)
        if self.options.lora:
            lora.add_adapters(kept, self.options.lora)
        return TransformerEncoder(kept, self.options.pooling, getattr(self.options, "unpadded", False))

    @property
    def from_scratch(self) -> bool:
        """Whether the weights are random at first."""
        return bool(self.options.random_weights)

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with a head that predicts masked tokens; the head is new if the weights have none."""
        if self.options.lora:
            raise ConfigError(
                f"backbone.lora is {self.options.lora}, but pretraining changes all weights; set it to 0 here, and use "
                "LoRA when you train on prices",
                parameters=("settings",),
            )
        family = family_of(self.published.family)
        config = family.config.from_dict(dict(architecture))
        if self.from_scratch:
            with quiet_transformers():
                model: PreTrainedModel = family.masked(config)
        elif family.masked is None:
            raise ConfigError(
                f"encoders of the family '{self.published.family}' cannot be pretrained here, because transformers has "
                "no such model that predicts masked tokens; use another backbone",
                parameters=("backbone",),
            )
        else:
            model = load_model(family.masked, config, self._folder(), self.published.name, {}, new_head=True)
        if getattr(self.options, "slice_positions", False):
            slice_positions(model.base_model)
        return model

    def _folder(self) -> Path:
        if self.options.weights is None and (found := self.locate()):
            return find_weights(str(found), self.published.name)
        return find_weights(self.options.weights or self.published.hub, self.published.name)

    def _config(self) -> Any:
        if self.options.random_weights:
            return self._configured(dict(self.published.numbers))
        numbers = self._config_file()
        with naming(self._folder() / "config.json", numbers):
            return self._configured(numbers)

    def _configured(self, numbers: dict[str, Any]) -> Any:
        family = family_of(self.published.family)
        if self.options.dropout is not None:
            known = family.config.from_dict(numbers).to_dict()
            numbers |= dict.fromkeys(filter(_is_dropout, known), self.options.dropout)
        return family.config.from_dict(numbers)

    def _config_file(self) -> dict[str, Any]:
        found = read_config(folder := self._folder())
        if (kind := found["model_type"]) != self.published.family:
            raise ConfigError(
                f"the weights in {folder} are of the family '{kind}', but the backbone '{self.published.name}' is "
                f"of '{self.published.family}'; use weights of that family, or choose another backbone",
                parameters=("weights", "backbone"),
                found=kind,
                expected=self.published.family,
            )
        return found


@dataclass(frozen=True)
class PretrainedPlugin:
    """The plugin of one pretrained architecture; called with options, it creates the backbone.

    Attributes:
        architecture: of the encoder.
        Options: model of the options.
        locate: returns the folder of weights that an installed package contains, or None.
    """

    architecture: Architecture
    Options: type[BaseModel] = UnpaddedOptions
    locate: Callable[[], Path | None] = lambda: None

    def __call__(self, options: Any) -> Pretrained:
        """Create the backbone."""
        return Pretrained(self.architecture, options, self.locate)


def _is_dropout(name: str) -> bool:
    """Return whether a value of a configuration is a dropout in the encoder."""
    return "dropout" in name and "classifier" not in name


roberta_base = PretrainedPlugin(architectures.ROBERTA_BASE)
distilroberta = PretrainedPlugin(architectures.DISTILROBERTA)
deberta_v3_base = PretrainedPlugin(architectures.DEBERTA_V3_BASE, DebertaOptions)
deberta_v3_small = PretrainedPlugin(architectures.DEBERTA_V3_SMALL, DebertaOptions)
modernbert_base = PretrainedPlugin(architectures.MODERNBERT_BASE, PretrainedOptions)
multilingual_e5_small = PretrainedPlugin(architectures.MULTILINGUAL_E5_SMALL)


class SmallTransformer:
    """Backbone `transformer`: a small encoder from scratch, with a tokenizer trained on the training texts.

    With `weights`, encoder and tokenizer come from that folder, such as one that `pricekit pretrain` wrote.
    """

    max_length = 512

    class Options(Section):
        """Options of `transformer`."""

        weights: str | None = Field(
            None,
            description="folder or hub id of a BERT, which also provides the tokenizer and sets the next four options",
        )
        vocab_size: int = Field(16_000, ge=256, description="maximum size of the vocabulary")
        width: int = Field(256, ge=8, description="width of the hidden states")
        layers: int = Field(4, ge=1)
        heads: int = Field(4, ge=1, description="number of attention heads; divides the width")
        dropout: Annotated[float, Search(0.0, 0.4)] = Field(0.1, ge=0, lt=1)
        pooling: Pooling = Field("mean", description=POOLING)

    def __init__(self, options: Options) -> None:
        if options.width % options.heads:
            raise ConfigError(
                f"backbone.width {options.width} is not a multiple of backbone.heads {options.heads}",
                parameters=("settings",),
            )
        self.options = options
        self.given: Pretrained | None = None
        self.weights_source: WeightsSource | None = None
        if options.weights is not None:
            kept = PretrainedOptions(**options.model_dump(include={"weights", "dropout", "pooling"}))
            self.given = Pretrained(Architecture("transformer", "", "bert"), kept)
            self.weights_source = self.given.weights_source

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Train the tokenizer, or load that of the weights."""
        if self.given:
            return self.given.tokenizer(texts)
        family = FAMILIES["bert"]
        return train_bpe(
            texts, self.options.vocab_size, family.specials, unknown=family.unknown, around=family.around
        )

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder."""
        if self.given:
            return self.given.architecture(tokenizer)
        kept = BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=self.options.width,
            num_hidden_layers=self.options.layers,
            num_attention_heads=self.options.heads,
            intermediate_size=4 * self.options.width,
            hidden_dropout_prob=self.options.dropout,
            attention_probs_dropout_prob=self.options.dropout,
            max_position_embeddings=self.max_length,
            pad_token_id=0,
        ).to_dict()
        return {key: value for key, value in kept.items() if key not in _LOCAL}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Return an encoder with random or pretrained weights; with `tokens` None they are loaded afterwards."""
        if self.given:
            return self.given.encoder(architecture, tokenizer, tokens)
        model = BertModel(BertConfig.from_dict(dict(architecture)), add_pooling_layer=False)
        return TransformerEncoder(model, self.options.pooling)

    @property
    def from_scratch(self) -> bool:
        """Whether the weights are random at first."""
        return self.given is None

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with a head that predicts masked tokens."""
        if self.given:
            return self.given.masked_language_model(architecture)
        model: PreTrainedModel = BertForMaskedLM(BertConfig.from_dict(dict(architecture)))
        return model
