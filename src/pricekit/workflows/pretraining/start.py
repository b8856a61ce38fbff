"""What pretraining starts with: the texts of the tables, their tokens, and the model that is to fill them in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from pricekit.core.guard import guarded
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError, PricekitError
from pricekit.log import logger
from pricekit.preprocess import bring_facts_first
from pricekit.table import Columns, ReadOptions, iter_table
from pricekit.tokens import Tokens, encode, pad_id_of
from pricekit.workflows.pretraining.masked import Masking, held_out_loss, masking_of, prepare

MIN_TEXTS = 10
HELD_OUT, MOST_HELD_OUT = 0.05, 2000
_FROM_SCRATCH, _PRETRAINED = (10, 1e-3), (3, 1e-4)


@dataclass(frozen=True)
class Pretraining:
    """What to pretrain and how.

    Attributes:
        backbone: its name.
        options: of the backbone.
        text: the text columns.
        max_length: tokens of a text; what is longer is cut.
        facts_first: whether short lines are read first, as the configuration's `facts_first` says of training.
        epochs: passes over the texts; None: 3, or 10 for weights that start from noise.
        batch_size: texts of an optimizer step.
        learning_rate: at its peak; None: 1e-4, or 1e-3 for weights that start from noise.
        seed: of the held-out texts, the order, the masks, and weights that start from noise.
        limit: rows of each table at most.
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
class Prepared:
    """What is trained on what.

    Attributes:
        settings: with nothing left open.
        tokenizer: with a mask token.
        masking: which of its tokens are hidden.
        model: a ForMaskedLM model that gives its loss.
        train: the tokens to train on.
        held_out: those to judge by.
    """

    settings: Pretraining
    tokenizer: Tokenizer
    masking: Masking
    model: Any
    train: Tokens
    held_out: Tokens

    @property
    def pad_id(self) -> int:
        """What pads."""
        return pad_id_of(self.tokenizer)

    def loss(self) -> float:
        """Return the mean loss of hidden tokens of the held-out texts, in nats."""
        return held_out_loss(self.model, self.masking, self.held_out, self.pad_id, self.settings.seed)

    def digest(self) -> str:
        """Return a hash of settings and tokens."""
        found = hashlib.sha256(json.dumps(asdict(self.settings), default=str).encode())
        for part in (self.train, self.held_out):
            found.update(part.ids.tobytes() + part.offsets.tobytes())
        return found.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return the numbers of texts and tokens, and the settings."""
        held_out = len(self.held_out)
        counts = {"texts": len(self.train) + held_out, "held_out": held_out, "tokens": len(self.train.ids)}
        return counts | {"settings": asdict(self.settings)}


def read_texts(
    tables: Sequence[Path], settings: Pretraining, read_options: ReadOptions
) -> tuple[int, list[str]]:
    """Return the number of rows of some tables and their different texts, in order.

    Raises:
        DataError: a table cannot be read, or there are too few texts.
    """
    columns = Columns(tuple(settings.text), None, None)
    rows, texts = 0, dict[str, None]()
    for path in tables:
        for part in iter_table(
            path, columns, limit=settings.limit, read_options=read_options, notices=logger.warning
        ):
            rows += len(part)
            texts |= dict.fromkeys(part.text[part.text.str.strip() != ""])
    if len(texts) < MIN_TEXTS:
        raise DataError(
            f"there are {len(texts):,} different texts in {rows:,} rows; pretraining needs at least {MIN_TEXTS}, and "
            "is worth its time from some thousands. Name other columns with --text, or give more tables"
        )
    logger.info(f"{len(texts):,} different texts in {rows:,} rows")
    return rows, list(texts)


def backbone_of(settings: Pretraining) -> Any:
    """Return the backbone.

    Raises:
        ConfigError: it cannot be pretrained, or takes fewer tokens.
        PluginError: there is none of this name.
    """
    made = registry().create("backbone", settings.backbone, settings.options)
    if not hasattr(made, "masked_language_model"):
        raise ConfigError(
            f"the backbone '{settings.backbone}' cannot be pretrained; these can: {', '.join(_able())}"
        )
    if made.max_length is not None and settings.max_length > made.max_length:
        raise ConfigError(
            f"--max-length is {settings.max_length}, '{settings.backbone}' takes at most {made.max_length}"
        )
    return made


def _able() -> list[str]:
    found = []
    for entry in registry().of_kind("backbone"):
        try:
            made = registry().create("backbone", entry.name)
        except PricekitError:  # one that cannot be made cannot be pretrained
            continue
        if hasattr(made, "masked_language_model"):
            found.append(entry.name)
    return found


def prepared(backbone: Any, settings: Pretraining, texts: list[str], device: torch.device) -> Prepared:
    """Make tokenizer, tokens and model, and hold a part of the texts out.

    Raises:
        ConfigError: the weights of the backbone cannot be loaded.
        PluginError: its tokenizer cannot be made.
    """
    epochs, rate = _FROM_SCRATCH if getattr(backbone, "from_scratch", False) else _PRETRAINED
    settings = replace(
        settings,
        options=registry().resolve("backbone", settings.backbone, settings.options),
        epochs=settings.epochs or epochs,
        learning_rate=settings.learning_rate or rate,
    )
    with guarded("backbone", settings.backbone, "making its tokenizer"):
        tokenizer = backbone.tokenizer(texts)
    masking = masking_of(tokenizer)
    if settings.facts_first:
        texts = [bring_facts_first(text) for text in texts]
    tokens = encode(tokenizer, texts, settings.max_length, pad_id_of(tokenizer))
    order = np.random.default_rng(settings.seed).permutation(len(texts))
    count = max(1, min(MOST_HELD_OUT, round(HELD_OUT * len(texts))))
    train = tokens.take(order[count:])
    torch.manual_seed(settings.seed)
    model = backbone.masked_language_model(backbone.architecture(tokenizer))
    prepare(model, masking, train)
    return Prepared(settings, tokenizer, masking, model.to(device), train, tokens.take(order[:count]))
