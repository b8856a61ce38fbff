"""Backbones of transformers: pretrained ones, any encoder from its weights, and a small one from scratch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from tokenizers import Tokenizer
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedModel

from pricekit.config import Search, Section
from pricekit.core.contracts import State, WeightsSource
from pricekit.errors import ConfigError
from pricekit.model.deberta import export_by_distance, slice_positions
from pricekit.model.encoder import LORA, POOLING, Pooling, TransformerEncoder, add_adapters, require_peft
from pricekit.model.families import (
    DEBERTA_V3_BASE,
    DEBERTA_V3_SMALL,
    DISTILROBERTA,
    MODERNBERT_BASE,
    MULTILINGUAL_E5_SMALL,
    ROBERTA_BASE,
    Architecture,
    encoder_of,
    family_of,
    longest_text,
)
from pricekit.model.pretrained import (
    POOLING_FILE,
    SENTENCE_FILE,
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
from pricekit.support.log import logger
from pricekit.support.text import shorten
from pricekit.tokens import Tokens, train_bpe

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
    lora: int = Field(0, ge=0, description=LORA)


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


def _train_tokenizer(texts: Iterable[str], size: int, family: str) -> Tokenizer:
    """Train a tokenizer with the special tokens of a family."""
    known = family_of(family)
    return train_bpe(texts, size, known.specials, unknown=known.unknown, around=known.around)


def _portable(config: Any) -> State:
    """Return a configuration without what only concerns this machine."""
    return {key: value for key, value in config.to_dict().items() if key not in _LOCAL}


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
        require_peft(options.lora)

    @property
    def weights_source(self) -> WeightsSource | None:
        """Where the weights come from; the licence of other weights than the published ones is unknown."""
        if self.from_scratch:
            return None
        if self.options.weights in (None, self.published.hub):
            return WeightsSource(self.published.hub, self.published.licence)
        return source_of(self.options.weights)

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Load the tokenizer of the weights, or train one for random weights."""
        if self.from_scratch:
            config, source = self._config(), "the tokenizer"
            size = min(_TRAINED_VOCABULARY, config.vocab_size)
            tokenizer = _train_tokenizer(texts, size, self.published.family)
        else:
            folder = self._folder()
            tokenizer = load_tokenizer(folder)
            config, source = self._config(), f"the tokenizer in {folder}"
            check_ids(tokenizer, getattr(config, "vocab_size", None), folder)
            put_before(tokenizer, self.published.prefix)
        set_padding(tokenizer, config.pad_token_id, source)
        return tokenizer

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder."""
        return _portable(self._config())

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Return an encoder with pretrained or random weights; with `tokens` None its weights are loaded afterwards."""
        family = family_of(self.published.family)
        config = family.config.from_dict(dict(architecture))
        if tokens is None or self.from_scratch:
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
            add_adapters(kept, self.options.lora)
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
        if self.from_scratch:
            return self._configured(dict(self.published.numbers))
        folder = self._folder()
        numbers = read_config(folder)
        if (kind := numbers["model_type"]) != self.published.family:
            raise ConfigError(
                f"the weights in {folder} are of the family '{kind}', but the backbone '{self.published.name}' is "
                f"of '{self.published.family}'; use weights of that family, or choose another backbone",
                parameters=("weights", "backbone"),
                found=kind,
                expected=self.published.family,
            )
        with naming(folder / "config.json", numbers):
            return self._configured(numbers)

    def _configured(self, numbers: dict[str, Any]) -> Any:
        family = family_of(self.published.family)
        if self.options.dropout is not None:
            known = family.config.from_dict(numbers).to_dict()
            dropouts = (name for name in known if "dropout" in name and "classifier" not in name)
            numbers |= dict.fromkeys(dropouts, self.options.dropout)
        return family.config.from_dict(numbers)


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


roberta_base = PretrainedPlugin(ROBERTA_BASE)
distilroberta = PretrainedPlugin(DISTILROBERTA)
deberta_v3_base = PretrainedPlugin(DEBERTA_V3_BASE, DebertaOptions)
deberta_v3_small = PretrainedPlugin(DEBERTA_V3_SMALL, DebertaOptions)
modernbert_base = PretrainedPlugin(MODERNBERT_BASE, PretrainedOptions)
multilingual_e5_small = PretrainedPlugin(MULTILINGUAL_E5_SMALL)


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
        self.pretrained: Pretrained | None = None
        self.weights_source: WeightsSource | None = None
        if options.weights is not None:
            kept = PretrainedOptions(**options.model_dump(include={"weights", "dropout", "pooling"}))
            self.pretrained = Pretrained(Architecture("transformer", "", "bert"), kept)
            self.weights_source = self.pretrained.weights_source

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Train the tokenizer, or load that of the weights."""
        if self.pretrained:
            return self.pretrained.tokenizer(texts)
        return _train_tokenizer(texts, self.options.vocab_size, "bert")

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder."""
        if self.pretrained:
            return self.pretrained.architecture(tokenizer)
        config = BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=self.options.width,
            num_hidden_layers=self.options.layers,
            num_attention_heads=self.options.heads,
            intermediate_size=4 * self.options.width,
            hidden_dropout_prob=self.options.dropout,
            attention_probs_dropout_prob=self.options.dropout,
            max_position_embeddings=self.max_length,
            pad_token_id=0,
        )
        return _portable(config)

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Return an encoder with random or pretrained weights; with `tokens` None they are loaded afterwards."""
        if self.pretrained:
            return self.pretrained.encoder(architecture, tokenizer, tokens)
        model = BertModel(BertConfig.from_dict(dict(architecture)), add_pooling_layer=False)
        return TransformerEncoder(model, self.options.pooling)

    @property
    def from_scratch(self) -> bool:
        """Whether the weights are random at first."""
        return self.pretrained is None

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with a head that predicts masked tokens."""
        if self.pretrained:
            return self.pretrained.masked_language_model(architecture)
        model: PreTrainedModel = BertForMaskedLM(BertConfig.from_dict(dict(architecture)))
        return model


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
        lora: int = Field(0, ge=0, description=LORA)

    from_scratch = False

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens that the encoder accepts; None: no limit."""
        return self._pretrained.max_length

    @property
    def weights_source(self) -> WeightsSource:
        """Where the weights come from; their licence is unknown."""
        return source_of(self.options.weights or "")

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Load the tokenizer of the weights."""
        return self._pretrained.tokenizer(texts)

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder and its pooling."""
        return {
            "config": self._pretrained.architecture(tokenizer),
            "pooling": self._pretrained.options.pooling,
        }

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Return an encoder with its weights; with `tokens` None they are loaded afterwards."""
        config: Any = architecture["config"]
        if tokens is None:
            known = Architecture("encoder", "", config["model_type"], max_length=None)
            pretrained = Pretrained(
                known, PretrainedOptions(pooling=architecture["pooling"], lora=self.options.lora)
            )
        else:
            pretrained = self._pretrained
        return pretrained.encoder(config, tokenizer, tokens)

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with a head that predicts masked tokens."""
        config: Any = architecture["config"]
        return self._pretrained.masked_language_model(config)

    @cached_property
    def _pretrained(self) -> Pretrained:
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
        with naming(folder / "config.json", found):
            longest = longest_text(family, family.config.from_dict(found))
        return Pretrained(
            Architecture("encoder", str(folder), found["model_type"], max_length=longest, prefix=prefix), kept
        )


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
