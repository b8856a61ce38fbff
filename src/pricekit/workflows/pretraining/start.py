"""Preparation of a pretraining: the texts of the tables, their tokens, and the model."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from pricekit.config import merge
from pricekit.core.calls import plugin_call
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError, PricekitError
from pricekit.options import names_of, option_layer, settings_layers
from pricekit.preprocess import short_lines_first
from pricekit.support.log import logger
from pricekit.table import Columns, ReadOptions, TableSource, iter_table
from pricekit.tokens import Tokens, encode, pad_id_of
from pricekit.workflows.pretraining.masked import Masking, attach_masking, held_out_loss, make_masking

MIN_TEXTS = 10
HELD_OUT, MOST_HELD_OUT = 0.05, 2000
_FROM_SCRATCH, _PRETRAINED = (10, 1e-3), (3, 1e-4)


@dataclass(frozen=True)
class PretrainSettings:
    """The backbone to pretrain, and the settings of the pretraining.

    Attributes:
        backbone: name of the backbone.
        options: of the backbone.
        text: the text columns.
        max_length: maximum number of tokens per text; longer texts are truncated.
        facts_first: move short lines to the front, as the setting `facts_first` does in training.
        epochs: number of epochs; None is 3, or 10 for randomly initialised weights.
        batch_size: number of texts per optimizer step.
        learning_rate: peak of the schedule; None is 1e-4, or 1e-3 for randomly initialised weights.
        seed: of the held-out texts, their order, the masks, and random weights.
        limit: number of rows to read from each table; None reads all.
    """

    backbone: str
    options: dict[str, Any] = field(default_factory=dict)
    text: tuple[str, ...] = Columns().text
    max_length: int = 128
    facts_first: bool = False
    epochs: int | None = None
    batch_size: int = 32
    learning_rate: float | None = None
    seed: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class PretrainJob:
    """A model with its training and held-out tokens.

    Attributes:
        settings: with all defaults filled in.
        tokenizer: with a mask token.
        masking: of the tokenizer.
        model: a ForMaskedLM model that returns its loss.
        train: tokens to train on.
        held_out: tokens to measure the loss on.
    """

    settings: PretrainSettings
    tokenizer: Tokenizer
    masking: Masking
    model: Any
    train: Tokens
    held_out: Tokens

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return pad_id_of(self.tokenizer)

    def loss(self, *, shown: bool = True) -> float:
        """Return the mean loss of masked tokens of the held-out texts, in nats."""
        seed = self.settings.seed
        return held_out_loss(self.model, self.masking, self.held_out, self.pad_id, seed, shown=shown)

    def digest(self) -> str:
        """Return a hash of the settings and tokens."""
        found = hashlib.sha256(json.dumps(asdict(self.settings), default=str).encode())
        for part in (self.train, self.held_out):
            found.update(part.ids.tobytes() + part.offsets.tobytes())
        return found.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return the counts of texts and tokens, and the settings."""
        held_out = len(self.held_out)
        counts = {"texts": len(self.train) + held_out, "held_out": held_out, "tokens": len(self.train.ids)}
        return counts | {"settings": asdict(self.settings)}


def read_texts(
    tables: Sequence[TableSource], settings: PretrainSettings, read_options: ReadOptions
) -> tuple[int, list[str]]:
    """Return the number of rows of the tables, and their distinct texts in order.

    Raises:
        DataError: a table cannot be read, or there are too few distinct texts.
    """
    columns = Columns(tuple(settings.text), None, None)
    rows, texts = 0, dict[str, None]()
    for table in tables:
        for part in iter_table(
            table, columns, limit=settings.limit, read_options=read_options, notices=logger.warning
        ):
            rows += len(part)
            texts |= dict.fromkeys(part.text[part.text.str.strip() != ""])
    if len(texts) < MIN_TEXTS:
        raise DataError(
            f"there are {len(texts):,} distinct texts in {rows:,} rows; pretraining needs at least {MIN_TEXTS}, and "
            "pays off from several thousand. Choose other text columns, or add tables",
            parameters=("text",),
            texts=len(texts),
            rows=rows,
        )
    logger.info(f"{len(texts):,} distinct texts in {rows:,} rows")
    return rows, list(texts)


def create_backbone(settings: PretrainSettings) -> Any:
    """Create the backbone.

    Raises:
        ConfigError: it cannot be pretrained, or accepts fewer tokens.
        PluginError: there is no backbone of this name.
    """
    made = registry().create("backbone", settings.backbone, settings.options)
    if not hasattr(made, "masked_language_model"):
        able = _pretrainable()
        raise ConfigError(
            f"the backbone '{settings.backbone}' cannot be pretrained; these can: {', '.join(able)}",
            parameters=("backbone",),
            backbone=settings.backbone,
            candidates=able,
        )
    if made.max_length is not None and settings.max_length > made.max_length:
        raise ConfigError(
            f"max_length is {settings.max_length}; '{settings.backbone}' accepts at most {made.max_length} tokens",
            parameters=("max_length",),
            max_length=settings.max_length,
            limit=made.max_length,
        )
    return made


def _pretrainable() -> list[str]:
    """Return the names of the backbones that can be pretrained."""
    found = []
    for entry in registry().of_kind("backbone"):
        try:
            made = registry().create("backbone", entry.name)
        except PricekitError:  # a backbone that cannot be created cannot be pretrained
            continue
        if hasattr(made, "masked_language_model"):
            found.append(entry.name)
    return found


def with_defaults(backbone: Any, settings: PretrainSettings) -> PretrainSettings:
    """Return the settings with a value for each one that is not given."""
    epochs, rate = _FROM_SCRATCH if getattr(backbone, "from_scratch", False) else _PRETRAINED
    return replace(
        settings,
        options=registry().resolve("backbone", settings.backbone, settings.options),
        epochs=settings.epochs or epochs,
        learning_rate=settings.learning_rate or rate,
    )


def prepare_job(
    backbone: Any, settings: PretrainSettings, texts: list[str], device: torch.device
) -> PretrainJob:
    """Create the tokenizer, the tokens and the model, and hold out a part of the texts.

    Raises:
        ConfigError: the backbone's weights cannot be loaded.
        PluginError: its tokenizer cannot be created.
    """
    settings = with_defaults(backbone, settings)
    with plugin_call("backbone", settings.backbone, "making its tokenizer"):
        tokenizer = backbone.tokenizer(texts)
    masking = make_masking(tokenizer)
    if settings.facts_first:
        texts = [short_lines_first(text) for text in texts]
    tokens = encode(tokenizer, texts, settings.max_length, pad_id_of(tokenizer))
    order = np.random.default_rng(settings.seed).permutation(len(texts))
    count = max(1, min(MOST_HELD_OUT, round(HELD_OUT * len(texts))))
    train = tokens.take(order[count:])
    torch.manual_seed(settings.seed)
    model = backbone.masked_language_model(backbone.architecture(tokenizer))
    attach_masking(model, masking, train)
    return PretrainJob(settings, tokenizer, masking, model.to(device), train, tokens.take(order[:count]))


def pretraining_of(backbone: str, options: Mapping[str, Any]) -> PretrainSettings:
    """Return the `PretrainSettings` for the options; raises ConfigError."""
    layer: dict[str, Any] = {}
    for more in settings_layers(options.get("settings")):
        layer = merge(layer, more)
    kinds = {"backbone": dict, "facts_first": bool}
    if wrong := [key for key, value in layer.items() if not isinstance(value, kinds.get(key, ()))]:
        raise ConfigError(
            "pretraining accepts settings of the backbone, such as backbone.layers=2, and facts_first=true; found "
            + wrong[0],
            parameters=("settings",),
        )
    names = ("max_length", "epochs", "batch_size", "learning_rate", "seed", "limit")
    given = {name: options[name] for name in names if options.get(name) is not None}
    _check_numbers(given)
    if text := names_of(options.get("text"), "text"):
        given["text"] = tuple(text)
    chosen = dict(layer.get("backbone", {})) | option_layer(
        {name: options.get(name) for name in ("weights", "random_weights")}
    ).get("backbone", {})
    return PretrainSettings(backbone, chosen, facts_first=layer.get("facts_first", False), **given)


def _check_numbers(given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option that is not a number, or too low."""
    for name, value in given.items():
        whole = name != "learning_rate"
        least = 0 if name == "seed" else 1
        number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not number or not (value >= least if whole else 0 < value < math.inf):
            expected = f"a whole number, at least {least}" if whole else "a number above 0"
            raise ConfigError(f"{name} is {value!r}; expected {expected}", parameters=(name,))
