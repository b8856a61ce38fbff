"""Small models for the checks of losses, policies and engines; this module imports torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from pricekit.config import HeadConfig
from pricekit.core.contracts import Batch
from pricekit.errors import TrainingError
from pricekit.exporting.graph import export_graph
from pricekit.model.backbones.transformer import SmallTransformer
from pricekit.model.losses import smape
from pricekit.model.network import PriceModel
from pricekit.testing.data import FEATURES, NASTY, VOCABULARY, batch, ordinary_prices, ordinary_texts
from pricekit.testing.runner import Make, fail, shown
from pricekit.tokens import encode, pad_id_of, pad_rows
from pricekit.training.checkpoint import load_checkpoint, save_checkpoint


def seeded(checks: Mapping[str, Callable[[Make], None]]) -> dict[str, Callable[[Make], None]]:
    """Return checks that draw the same random numbers each time, and leave torch's as they were."""
    return {name: partial(_seeded, check) for name, check in checks.items()}


def _seeded(check: Callable[[Make], None], make: Make) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        check(make)


class MeanEncoder(nn.Module):
    """The mean of the embeddings of a text's tokens."""

    members = 1

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.hidden_size = width
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.norm = nn.LayerNorm(width)
        self.layers = [self.embedding, self.norm]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the encoding, float32 (B, width)."""
        mask = attention_mask[:, :, None].float()
        found: Tensor = self.norm((self.embedding(input_ids) * mask).sum(1) / mask.sum(1))
        return found


def small_model(loss: Any = None, encoder: Any = None) -> PriceModel:
    """Return a model without hidden layers; `smape` fitted to ordinary prices where no loss is given."""
    if loss is None:
        loss = smape()
        loss.fit(torch.from_numpy(ordinary_prices()))
    return PriceModel(encoder or MeanEncoder(), HeadConfig(), loss, FEATURES)


def attention_graph() -> bytes:
    """Return the graph of a small transformer whose prices lie far apart."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = SmallTransformer(SmallTransformer.Options(vocab_size=256, width=16, layers=1, heads=2))
        tokenizer = backbone.tokenizer(ordinary_texts())
        model = small_model(encoder=backbone.encoder(backbone.architecture(tokenizer), tokenizer, None))
        with torch.no_grad():
            for parameter in model.heads.parameters():
                parameter.mul_(4)
        return export_bytes(model, batch(4, 9))


def export_bytes(model: PriceModel, example: Batch) -> bytes:
    """Return a model as a graph, as `pricekit export` makes it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export_graph(model, example, path)
        return path.read_bytes()


def stored_into(fresh: nn.Module, module: nn.Module) -> None:
    """Give a new module the weights and buffers of another by way of a checkpoint's file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "module.safetensors"
        save_checkpoint(path, module, None, {})
        try:
            load_checkpoint(path, fresh)
        except TrainingError as error:
            fail(
                f"a new one does not take the weights and buffers of the other: {error.__cause__}",
                "those of the same names and shapes",
                "make them in __init__, whatever is fitted later",
            )


LONGEST, ROOM, ROWS, SHORT = 64, 5, 8, 1000
TOLERANCE = 1e-4
"""Relative: of an encoding as before training, of an exported price as in export."""


@dataclass(frozen=True)
class Built:
    """A new encoder in evaluation mode, and what it was made of.

    Attributes:
        plugin: the backbone.
        tokenizer: trained.
        architecture: as a run keeps it.
        encoder: the module.
        batches: `input_ids` and `attention_mask`, int64 (B, L), rows of many lengths.
        room: by how much these may still be padded.
    """

    plugin: Any
    tokenizer: Tokenizer
    architecture: Any
    encoder: Any
    batches: list[tuple[Tensor, Tensor]]
    room: int

    @torch.no_grad()
    def encoding(self) -> Tensor:
        """Return the encoding of the first batch."""
        found: Tensor = self.encoder(*self.batches[0])
        return found


def training_texts() -> list[str]:
    """Return what tokenizers are trained on: nothing very long, so that it is quick."""
    return [*ordinary_texts(), *(text for text in NASTY if len(text) < SHORT)]


def build(make: Make) -> Built:
    """Make tokenizer and encoder, as training does."""
    plugin = make()
    tokenizer = plugin.tokenizer(training_texts())
    architecture = json.loads(json.dumps(plugin.architecture(tokenizer)))
    longest = min(LONGEST, plugin.max_length or LONGEST)
    room, pad_id = min(ROOM, longest - 1), pad_id_of(tokenizer)
    texts = [*ordinary_texts()[:4], "", "tea", "Item Name: green tea, 12 oz", NASTY[4], *ordinary_texts()[4:]]
    tokens = encode(tokenizer, texts, longest - room, pad_id)
    encoder = plugin.encoder(architecture, tokenizer, tokens)
    if not isinstance(encoder, nn.Module):
        fail(f"encoder returned {shown(encoder)}", "a torch.nn.Module", "derive it from torch.nn.Module")
    starts = range(0, len(tokens) - ROWS, ROWS)
    padded = [pad_rows(tokens, np.arange(start, start + ROWS), pad_id) for start in starts]
    batches = [(torch.from_numpy(ids), torch.from_numpy(mask)) for ids, mask in padded]
    return Built(plugin, tokenizer, architecture, encoder.eval(), batches, room)
