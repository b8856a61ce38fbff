"""Backbones of transformers: pretrained ones, any encoder from its weights, and a small one from scratch."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import MethodType
from typing import Annotated, Any, Literal

import torch
import transformers
from pydantic import BaseModel, Field
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_TEXT_ENCODING_MAPPING,
    MODEL_MAPPING,
)
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from pricekit.config import Search, Section
from pricekit.core.contracts import Backbone, State, WeightsSource
from pricekit.errors import ConfigError
from pricekit.io.log import logger
from pricekit.nets.encoder import LORA, POOLING, Pooling, TransformerEncoder, add_adapters, require_peft
from pricekit.nets.pretrained import (
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
from pricekit.text.tokens import Tokens, train_bpe
from pricekit.wording import shorten


@dataclass(frozen=True)
class Family:
    """The classes of one family.

    Attributes:
        config: class of the configuration.
        model: class of the encoder.
        masked: class of the encoder with a head that predicts masked tokens; None if there is none.
        arguments: arguments of `model` in addition to the configuration.
    """

    config: Any
    model: Any
    masked: Any
    arguments: Mapping[str, Any]

    def create(self, config: Any) -> Any:
        """Return an encoder with random weights."""
        return self.model(config, **self.arguments)


_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), "[UNK]", ("[CLS]", "[SEP]")
_SPECIALS = {
    "roberta": (("<s>", "<pad>", "</s>", "<unk>"), "<unk>", ("<s>", "</s>")),
    "bert": _BERT,
    "deberta-v2": (("[PAD]", "[CLS]", "[SEP]", "[UNK]"), "[UNK]", ("[CLS]", "[SEP]")),
    "modernbert": _BERT,
}
"""Families with named backbones, whose tokenizers can be trained here: special tokens, of which the position is the
id; the one for characters outside of the vocabulary; and those that begin and end every text."""

SEQUENCE_TO_SEQUENCE = ("t5", "mt5", "umt5")
"""Families of which transformers has the encoder alone."""

_MIXES_PADDING = "it mixes padding into the text, so a price would depend on the other texts of a batch"
_BY_LENGTH = "its attention depends on the length of a text, which an exported graph cannot express"
_REFUSED = {
    "big_bird": _BY_LENGTH,
    "convbert": _MIXES_PADDING,
    "fnet": _MIXES_PADDING,
    "funnel": _BY_LENGTH,
    "longformer": _BY_LENGTH,
    "mobilebert": _MIXES_PADDING,
    "nystromformer": _MIXES_PADDING,
    "reformer": _BY_LENGTH,
    "yoso": _MIXES_PADDING,
}
"""Families that cannot be used, with the reason."""


@cache
def family_of(kind: str) -> Family:
    """Return the classes of a family of text encoders.

    Args:
        kind: the `model_type` of a configuration, such as "xlm-roberta".

    Raises:
        ConfigError: transformers does not know the family, it is no text encoder, or it cannot be used.
    """
    if kind not in CONFIG_MAPPING:
        raise _unusable(
            kind,
            f"transformers {transformers.__version__} does not know it, and pricekit runs no code that comes with "
            "weights; use a newer transformers if it has this family, or other weights",
        )
    if kind in _REFUSED:
        raise _unusable(kind, f"{_REFUSED[kind]}; use weights of another family")
    config: Any = CONFIG_MAPPING[kind]
    masked = MODEL_FOR_MASKED_LM_MAPPING.get(config, None)
    if masked is None and kind not in SEQUENCE_TO_SEQUENCE:
        raise _unusable(
            kind, "it is no encoder of texts; use an encoder such as BERT, XLM-R, ModernBERT or T5"
        )
    model: Any = MODEL_FOR_TEXT_ENCODING_MAPPING.get(config, None)
    if model is None and config().is_encoder_decoder:
        raise _unusable(
            kind, "transformers has no encoder of it without the decoder; use an encoder such as BERT or T5"
        )
    model = model or MODEL_MAPPING[config]
    pooled = "add_pooling_layer" in inspect.signature(model).parameters
    arguments = {"add_pooling_layer": False} if pooled else {}
    return Family(config, model, masked, arguments)


def _unusable(kind: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the weights are of the family '{kind}', which cannot be used: {reason}",
        parameters=("weights", "backbone"),
        found=kind,
    )


def longest_text(family: Family, config: Any) -> int | None:
    """Return the maximum number of tokens of an encoder; None: no limit."""
    with torch.device("meta"):
        model = family.create(config)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    positions: int | None = getattr(config, "max_position_embeddings", None)
    return positions


def encoder_of(model: Any) -> Any:
    """Return the encoder that is trained and exported.

    Of T5, it is the stack alone, because its embeddings have two names in the whole model. Its attention is computed
    without sdpa, whose result it reshapes in a way that `torch.onnx.export` cannot trace.
    """
    if model.config.model_type not in SEQUENCE_TO_SEQUENCE:
        return model
    model.set_attn_implementation("eager")
    return model.encoder


_ROBERTA: Mapping[str, Any] = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
_DEBERTA_V3: Mapping[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "relative_attention": True,
    "position_buckets": 256,
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
    {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
    max_length=8192,
    licence="Apache-2.0",
)
MULTILINGUAL_E5_SMALL = Architecture(
    "multilingual-e5-small",
    "intfloat/multilingual-e5-small",
    "bert",
    {"vocab_size": 250037, "hidden_size": 384, "intermediate_size": 1536},
    prefix="query: ",
    licence="MIT",
)


_TRAINED_VOCABULARY = 30_000
_HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+")
_LOCAL = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")


Dropout = Annotated[
    float | None, Field(ge=0, lt=1, description="dropout in the encoder; None: the published value")
]
Rank = Annotated[int, Field(ge=0, description=LORA)]


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
    dropout: Dropout = None
    lora: Rank = 0


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
    specials, unknown, around = _SPECIALS[family]
    return train_bpe(texts, size, specials, unknown=unknown, around=around)


def _portable(config: Any) -> State:
    """Return a configuration without what only concerns this machine."""
    return {key: value for key, value in config.to_dict().items() if key not in _LOCAL}


def source_of(weights: str) -> WeightsSource:
    """Return where weights come from, without their licence: a hub id, or a local folder without its name."""
    on_hub = _HUB_ID.fullmatch(weights) and not Path(weights).exists()
    return WeightsSource(weights if on_hub else "a local folder")


class Pretrained(Backbone):
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
    def weights_source(self) -> WeightsSource | None:  # type: ignore[override]
        """Where the weights come from; the licence of other weights than the published ones is unknown."""
        if self.from_scratch:
            return None
        if self.options.weights in (None, self.published.hub):
            return WeightsSource(self.published.hub, self.published.licence)
        return source_of(self.options.weights)

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Load the tokenizer of the weights, or train one for random weights."""
        config = self._config()
        if self.from_scratch:
            size = min(_TRAINED_VOCABULARY, config.vocab_size)
            tokenizer, source = _train_tokenizer(texts, size, self.published.family), "the tokenizer"
        else:
            folder = self._folder()
            tokenizer, source = load_tokenizer(folder), f"the tokenizer in {folder}"
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
                model = family.create(config)
        else:
            model = load_model(family.model, config, self._folder(), self.published.name, family.arguments)
        if getattr(self.options, "slice_positions", False):
            slice_positions(model)
        if model.config.model_type == "deberta-v2":
            export_by_distance(model, self.published.max_length or model.config.max_position_embeddings)
        encoder = encoder_of(model)
        if self.options.lora:
            add_adapters(encoder, self.options.lora)
        return TransformerEncoder(encoder, self.options.pooling, getattr(self.options, "unpadded", False))

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
        weights = self.options.weights or str(self.locate() or self.published.hub)
        return find_weights(weights, self.published.name)

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


class SmallTransformer(Backbone):
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
        self.from_scratch = options.weights is None
        sizes = {
            "hidden_size": options.width,
            "num_hidden_layers": options.layers,
            "num_attention_heads": options.heads,
            "intermediate_size": 4 * options.width,
        }
        self._bert = Pretrained(
            Architecture("transformer", "", "bert", sizes),
            PretrainedOptions(
                weights=options.weights,
                random_weights=self.from_scratch,
                dropout=options.dropout,
                pooling=options.pooling,
            ),
        )
        self.weights_source = self._bert.weights_source

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Train the tokenizer, or load that of the weights."""
        if self.from_scratch:
            return _train_tokenizer(texts, self.options.vocab_size, "bert")
        return self._bert.tokenizer(texts)

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return the configuration of the encoder."""
        state = self._bert.architecture(tokenizer)
        return state | {"vocab_size": tokenizer.get_vocab_size()} if self.from_scratch else state

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> TransformerEncoder:
        """Return an encoder with random or pretrained weights; with `tokens` None they are loaded afterwards."""
        return self._bert.encoder(architecture, tokenizer, tokens)

    def masked_language_model(self, architecture: State) -> PreTrainedModel:
        """Return the encoder with a head that predicts masked tokens."""
        return self._bert.masked_language_model(architecture)


_POOLINGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
"""Keys of the file of sentence-transformers, with the value of `Pooling`."""


class AnyEncoder(Backbone):
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
        dropout: Dropout = None
        lora: Rank = 0

    from_scratch = False

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def max_length(self) -> int | None:  # type: ignore[override]
        """The maximum number of tokens that the encoder accepts; None: no limit."""
        return self._pretrained.max_length

    @property
    def weights_source(self) -> WeightsSource:  # type: ignore[override]
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
        numbers = read_config(folder)
        kind = numbers["model_type"]
        family = family_of(kind)
        prefix = _prefix_of(folder) if self.options.prefix is None else self.options.prefix
        pooling = _pooling_of(folder) if self.options.pooling == "auto" else self.options.pooling
        options = PretrainedOptions(
            weights=str(folder), pooling=pooling, dropout=self.options.dropout, lora=self.options.lora
        )
        with naming(folder / "config.json", numbers):
            longest = longest_text(family, family.config.from_dict(numbers))
        return Pretrained(
            Architecture("encoder", str(folder), kind, max_length=longest, prefix=prefix), options
        )


def _read(path: Path) -> dict[str, Any]:
    """Return an optional file of sentence-transformers, {} without it."""
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}); download the weights again, or delete the file",
            parameters=("weights",),
        ) from None
    return values if isinstance(values, dict) else {}


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


def slice_positions(model: Any) -> None:
    """Make a DebertaV2Model project only the relative positions within the batch's length; results are equal.

    Each layer projects a table of 2·S rows, S = `position_buckets` (256), through its query and key matrices for
    every batch. Two of L tokens are at most L - 1 apart, and a bucket's number is at most the distance. So only the
    2·min(L, S) rows in the middle are looked up. An exported graph keeps the whole table, because L is symbolic.
    """
    encoder = model.encoder
    encoder.whole = encoder.reach = int(encoder.layer[0].attention.self.pos_ebd_size)
    # Bound to the encoder, without a closure: a deep copy, such as the average of the weights, reads its own table.
    encoder.get_rel_embedding = MethodType(_reachable, encoder)
    encoder.register_forward_pre_hook(_set_reach, with_kwargs=True)


def _set_reach(encoder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    hidden = args[0] if args else kwargs["hidden_states"]
    exporting = torch.compiler.is_exporting()
    encoder.reach = encoder.whole if exporting else min(int(hidden.shape[1]), encoder.whole)
    for layer in encoder.layer:
        layer.attention.self.pos_ebd_size = encoder.reach


def _reachable(encoder: Any) -> Tensor:
    rows: Tensor = type(encoder).get_rel_embedding(encoder)
    return rows[encoder.whole - encoder.reach : encoder.whole + encoder.reach]


def export_by_distance(model: Any, longest: int) -> None:
    """Make a DebertaV2Model look positions up by distance while a graph is exported; results are equal.

    The library gathers scores of content and position (He et al. 2021, arXiv:2006.03654, equation 4) element by
    element. Each layer needs three large tables for it: scores, (B · heads, L, 2S); projections of the positions, once
    per text; and indices, (B · heads, L, L). Here the rows of the position table are first sorted by the 2·L
    distances. Then the scores are a diagonal band of one product, which two slices cut out.

    Args:
        model: a DebertaV2Model; a model that differs from version 3 is not changed.
        longest: the largest L.
    """
    encoder, span = model.encoder, getattr(model.encoder, "position_buckets", -1)
    attentions = [layer.attention.self for layer in encoder.layer]
    if span < 1 or not all(a.share_att_key and {"c2p", "p2c"} <= set(a.pos_att_type) for a in attentions):
        return
    distances = torch.arange(-longest, longest)
    buckets = make_log_bucket_position(distances, span, encoder.max_relative_positions).long()
    for attention in attentions:
        for name, places in (("rows_of_query", buckets), ("rows_of_key", -buckets)):
            attention.register_buffer(name, (places + span).clamp(0, 2 * span - 1), persistent=False)
        attention.forward = MethodType(_attend, attention)


def _attend(
    attention: Any, hidden_states: Tensor, attention_mask: Tensor, *others: Any, **named: Any
) -> tuple[Tensor, Tensor | None]:
    """Return the output of a DisentangledSelfAttention, (B, L, H), and None.

    Args:
        attention: the module.
        hidden_states: (B, L, H).
        attention_mask: (B, 1, 1, L) or (B, 1, L, L), not 0 for attended keys.
        others: unused while exporting.
        named: `rel_embeddings`, (2S, H); others are unused.
    """
    if not torch.compiler.is_exporting():
        forward: Callable[..., tuple[Tensor, Tensor | None]] = type(attention).forward
        return forward(attention, hidden_states, attention_mask, *others, **named)
    heads, length = attention.num_attention_heads, hidden_states.shape[1]
    middle = len(attention.rows_of_key) // 2
    of_batch = slice(middle - length, middle + length)
    projections = attention.query_proj, attention.key_proj, attention.value_proj
    query, key, value = (p(hidden_states).unflatten(-1, (heads, -1)).transpose(1, 2) for p in projections)
    scale = 1 / math.sqrt(3 * query.shape[-1])

    def scores(content: Tensor, projection: Any, rows: Tensor) -> Tensor:
        table = projection(named["rel_embeddings"]).unflatten(-1, (heads, -1))[rows[of_batch]]
        # Scaling between transposition and product prevents a fusion on which ONNX Runtime 1.31 crashes in float16.
        return _band(content @ (table.permute(1, 2, 0) * scale))

    to_position = scores(query, attention.key_proj, attention.rows_of_key)
    to_content = scores(key, attention.query_proj, attention.rows_of_query).transpose(-1, -2)
    masked = torch.where(attention_mask.bool(), 0.0, torch.finfo(query.dtype).min)
    context = functional.scaled_dot_product_attention(
        query, key, value, to_position + to_content + masked, scale=scale
    )
    return context.transpose(1, 2).flatten(2), None


def _band(scores: Tensor) -> Tensor:
    """Return L of the 2·L scores of each row, from (…, L, 2·L) to (…, L, L); row l starts at column L - l.

    Dropping the first L elements and cutting the rest into rows of 2·L - 1 shifts each row by one.
    """
    length = scores.shape[-2]
    flat = scores.flatten(-2)[..., length:]
    return flat.reshape(*flat.shape[:-1], length, 2 * length - 1)[..., :length]
