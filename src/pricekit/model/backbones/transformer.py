"""Transformer encoders: pretrained ones, and a small one from scratch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, Field
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedModel

from pricekit.config import Section
from pricekit.core.contracts import State
from pricekit.errors import ConfigError
from pricekit.model.backbones import architectures
from pricekit.model.backbones.architectures import Architecture
from pricekit.model.backbones.bpe import train_bpe
from pricekit.model.backbones.deberta import export_by_distance, slice_positions
from pricekit.model.backbones.families import FAMILIES
from pricekit.model.backbones.load import load_model, load_tokenizer
from pricekit.model.backbones.unpadded import pack, use_unpadded
from pricekit.model.backbones.weights import find_weights, quiet_transformers
from pricekit.tokens import Tokens

_TRAINED_VOCABULARY = 30_000
Pooling = Literal["mean", "cls", "lead"]
_POOLING = "mean of all tokens; the first one; lead: the mean, and one in which the first tokens weigh more"
_LEAD, _LEAD_TOKENS = (
    12.0,
    40.0,
)  # as in `bag`: the extra weight of the first token, and over how many it fades
_LOCAL = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")


class PretrainedOptions(Section):
    """Options of a pretrained backbone."""

    weights: str | None = Field(None, description="folder or hub id of the weights; none: the published ones")
    random_weights: bool = Field(
        False, description="the true architecture without a download, tokenizer trained on the table"
    )
    pooling: Pooling = Field("mean", description=_POOLING)
    dropout: float | None = Field(None, ge=0, lt=1, description="inside the encoder; none: the published one")


class UnpaddedOptions(PretrainedOptions):
    """Options of a RoBERTa or BERT backbone: one more."""

    unpadded: bool = Field(
        False, description="train on real tokens alone, by a GPU's flash attention; drops no attention"
    )


class DebertaOptions(PretrainedOptions):
    """Options of a DeBERTa backbone: one more."""

    slice_positions: bool = Field(
        True, description="project only the relative positions that a batch reaches"
    )


class Pretrained:
    """A backbone whose encoder is one of the architectures."""

    def __init__(
        self, architecture: Architecture, options: Any, locate: Callable[[], Path | None] = lambda: None
    ) -> None:
        self.published = architecture
        self.options = options
        self.locate = locate  # where a package brings the weights along
        self.max_length: int | None = architecture.max_length

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Load the tokenizer of the weights, or train one where they are random."""
        family = FAMILIES[self.published.family]
        if self.options.random_weights:
            size = min(_TRAINED_VOCABULARY, self._config().vocab_size)
            found = train_bpe(texts, size, family.specials, unknown=family.unknown, around=family.around)
        else:
            found = load_tokenizer(self._folder())
        pad = self._config().pad_token_id
        found.no_truncation()
        found.enable_padding(pad_id=pad, pad_token=found.id_to_token(pad))
        return found

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder."""
        kept = self._config().to_dict()
        return {key: value for key, value in kept.items() if key not in _LOCAL}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Make the encoder: pretrained, random, or empty where its weights are loaded afterwards."""
        family = FAMILIES[self.published.family]
        config = family.config.from_dict(dict(architecture))
        if tokens is None or self.options.random_weights:
            with quiet_transformers():
                model = family.model(config, **family.arguments)
        else:
            model = load_model(family.model, config, self._folder(), self.published.name, family.arguments)
        if getattr(self.options, "slice_positions", False):
            slice_positions(model)
        if model.config.model_type == "deberta-v2":
            export_by_distance(model, self.published.max_length)
        return TransformerEncoder(model, self.options.pooling, getattr(self.options, "unpadded", False))

    @property
    def from_scratch(self) -> bool:
        """Whether its weights start from noise."""
        return bool(self.options.random_weights)

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with the head that fills in masked tokens; new where the weights have none."""
        family = FAMILIES[self.published.family]
        config = family.config.from_dict(dict(architecture))
        if self.from_scratch:
            with quiet_transformers():
                model: PreTrainedModel = family.masked(config)
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
        family = FAMILIES[self.published.family]
        numbers = dict(self.published.numbers) if self.options.random_weights else self._config_file()
        if self.options.dropout is not None:
            numbers |= dict.fromkeys(
                ("hidden_dropout_prob", "attention_probs_dropout_prob"), self.options.dropout
            )
        return family.config.from_dict(numbers)

    def _config_file(self) -> dict[str, Any]:
        path = self._folder() / "config.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
            kind = found["model_type"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is damaged ({error}); download the weights again") from None
        if kind != self.published.family:
            raise ConfigError(
                f"the weights in {path.parent} are of the family '{kind}', and the backbone '{self.published.name}' is "
                f"of '{self.published.family}'; give it weights of its own family, or choose another --backbone"
            )
        return found


class TransformerEncoder(nn.Module):
    """A transformer and its pooling, in float32.

    With `unpadded` it trains on the real tokens of a batch as one row; prediction and export pad.
    """

    members = 1

    def __init__(self, model: PreTrainedModel, pooling: str, unpadded: bool = False) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        self.hidden_size: int = model.config.hidden_size * (2 if pooling == "lead" else 1)
        self.padded_attention: str = model.config._attn_implementation or "sdpa"
        self.unpadded = unpadded
        if unpadded:  # a new module is in training mode
            use_unpadded(model)

    def train(self, mode: bool = True) -> TransformerEncoder:
        """Switch between training and evaluation, and between the two ways of attention."""
        if self.unpadded and mode != self.training:
            if mode:
                use_unpadded(self.model)
            else:
                self.model.set_attn_implementation(self.padded_attention)
        return super().train(mode)

    @property
    def layers(self) -> list[nn.Module]:
        """The embeddings, those of positions included, then each layer."""
        inner: Any = self.model
        positions = [
            m for name, m in inner.encoder.named_children() if name in ("rel_embeddings", "LayerNorm")
        ]
        return [nn.ModuleList([inner.embeddings, *positions]), *inner.encoder.layer]

    @property
    def embedding(self) -> nn.Module:
        """The table of token embeddings."""
        inner: Any = self.model
        table: nn.Module = inner.get_input_embeddings()
        return table

    def gradient_checkpointing_enable(self) -> None:
        """Compute the activations of each layer again in the backward pass."""
        model: Any = self.model  # transformers renamed it in 5
        enable = (
            getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        )
        enable({"use_reentrant": False})

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the pooled hidden states, float32 (B, H)."""
        if self.unpadded and self.training:
            return self._packed(input_ids, attention_mask)
        live = attention_mask
        if torch.compiler.is_exporting() and not getattr(self.model.config, "conv_kernel_size", 0):
            live = attention_mask[:, None, None, :].bool()  # a DeBERTa's convolution would read it otherwise
        hidden: Tensor = self.model(input_ids=input_ids, attention_mask=live).last_hidden_state.float()
        if self.pooling == "cls":
            return hidden[:, 0]
        mask = attention_mask.to(hidden.dtype)
        position = torch.cumsum(attention_mask, 1) - 1
        means = [
            (hidden * weights[:, :, None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)
            for weights in (mask * factor for factor in self._factors(position))
        ]
        return torch.cat(means, 1)

    def _factors(self, position: Tensor) -> list[Tensor | float]:
        """Return how much each token weighs in each of the means that are pooled."""
        if self.pooling == "mean":
            return [1.0]
        return [1.0, 1 + _LEAD * torch.exp(-position.float() / _LEAD_TOKENS)]

    def _packed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the same from the real tokens alone, (1, T)."""
        text, position, starts = pack(attention_mask)
        offset = self.model.config.pad_token_id + 1 if self.model.config.model_type == "roberta" else 0
        hidden: Tensor = (
            self.model(
                input_ids=input_ids[text, position][None],
                position_ids=position[None] + offset,
                starts=starts,
                longest=input_ids.shape[1],
            )
            .last_hidden_state[0]
            .float()
        )
        if self.pooling == "cls":
            return hidden[starts[:-1].long()]
        means = []
        for factor in self._factors(position):
            weights = torch.ones_like(text, dtype=hidden.dtype)[:, None] * torch.as_tensor(factor).reshape(
                -1, 1
            )
            totals = hidden.new_zeros(len(input_ids), hidden.shape[1] + 1)
            totals = totals.index_add(0, text, torch.cat([hidden * weights, weights], 1))
            means.append(totals[:, :-1] / totals[:, -1:])
        return torch.cat(means, 1)


@dataclass(frozen=True)
class PretrainedPlugin:
    """The plugin of one architecture: called with options, it makes the backbone.

    Attributes:
        architecture: in numbers.
        Options: model of its options.
        locate: returns the folder of weights that an installed package brings along, or None.
    """

    architecture: Architecture
    Options: type[BaseModel] = UnpaddedOptions
    locate: Callable[[], Path | None] = lambda: None

    def __call__(self, options: Any) -> Pretrained:
        """Make the backbone."""
        return Pretrained(self.architecture, options, self.locate)


roberta_base = PretrainedPlugin(architectures.ROBERTA_BASE)
distilroberta = PretrainedPlugin(architectures.DISTILROBERTA)
deberta_v3_base = PretrainedPlugin(architectures.DEBERTA_V3_BASE, DebertaOptions)
deberta_v3_small = PretrainedPlugin(architectures.DEBERTA_V3_SMALL, DebertaOptions)


class SmallTransformer:
    """Backbone `transformer`: a small encoder from scratch, tokenizer trained on the training texts.

    With `weights` it is the encoder of that folder, as `pricekit pretrain` writes it, and its tokenizer.
    """

    max_length = 512

    class Options(Section):
        """Options of `transformer`."""

        weights: str | None = Field(
            None,
            description="folder or hub id of a BERT; its sizes and its tokenizer then stand for the four below",
        )
        vocab_size: int = Field(16_000, ge=256, description="tokens of the vocabulary at most")
        width: int = Field(256, ge=8, description="of the hidden states")
        layers: int = Field(4, ge=1)
        heads: int = Field(4, ge=1, description="of attention; divides the width")
        dropout: float = Field(0.1, ge=0, lt=1)
        pooling: Pooling = Field("mean", description=_POOLING)

    def __init__(self, options: Options) -> None:
        if options.width % options.heads:
            raise ConfigError(
                f"backbone.width {options.width} is not a multiple of backbone.heads {options.heads}"
            )
        self.options = options
        self.given: Pretrained | None = None
        if options.weights is not None:
            kept = PretrainedOptions(**options.model_dump(include={"weights", "dropout", "pooling"}))
            self.given = Pretrained(Architecture("transformer", options.weights, "bert"), kept)

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
        """Make the encoder: with random weights, with those of a folder, or empty."""
        if self.given:
            return self.given.encoder(architecture, tokenizer, tokens)
        model = BertModel(BertConfig.from_dict(dict(architecture)), add_pooling_layer=False)
        return TransformerEncoder(model, self.options.pooling)

    @property
    def from_scratch(self) -> bool:
        """Whether its weights start from noise."""
        return self.given is None

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with the head that fills in masked tokens."""
        if self.given:
            return self.given.masked_language_model(architecture)
        model: PreTrainedModel = BertForMaskedLM(BertConfig.from_dict(dict(architecture)))
        return model
