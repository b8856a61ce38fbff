"""Small models for the checks of losses, policies and engines. Imports torch."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from pricekit.config import HeadConfig, RunConfig
from pricekit.core.contracts import Batch, Encoder
from pricekit.core.loader import registry
from pricekit.core.registry import options_model
from pricekit.errors import ConfigError, TrainingError
from pricekit.export.graph import export_graph
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel
from pricekit.testing.data import FEATURES, VOCABULARY, batch, ordinary_prices, ordinary_texts
from pricekit.testing.runner import fail
from pricekit.text.tokens import encode
from pricekit.training.checkpoint import Parts, load_checkpoint, save_checkpoint


class MeanEncoder(Encoder, nn.Module):
    """The mean of the token embeddings."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.hidden_size = width
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.norm = nn.LayerNorm(width)
        self.layers = [self.embedding, self.norm]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the encoding, float32 (B, width)."""
        mask = attention_mask[:, :, None].float()
        encoding: Tensor = self.norm((self.embedding(input_ids) * mask).sum(1) / mask.sum(1))
        return encoding


def small_model(loss: Any = None, encoder: Any = None) -> PriceModel:
    """Return a model without hidden layers; the default loss is `smape`, fitted to ordinary prices."""
    if loss is None:
        loss = smape()
        loss.fit(torch.from_numpy(ordinary_prices()))
    return PriceModel(encoder or MeanEncoder(), HeadConfig(), loss, FEATURES)


_SMALL = {
    "vocab_size": 300,
    "buckets": 64,
    "embedding": 8,
    "width": 16,
    "layers": 1,
    "heads": 2,
    "members": 2,
}
"""Sizes of the options of backbones, as far as they have them."""


def small_encoder(config: RunConfig) -> Encoder:
    """Return a new encoder of a configuration's backbone, small if its options allow.

    It is a `MeanEncoder` instead of one that starts with pretrained weights, which may need a download.
    """
    name, options = config.backbone.name, config.backbone.options
    known = options_model(registry().get("backbone", name).load())
    sizes = {option: size for option, size in _SMALL.items() if known and option in known.model_fields}
    try:
        backbone = registry().create("backbone", name, {**options, **sizes})
    except ConfigError:
        backbone = registry().create("backbone", name, options)
    if backbone.weights_source is not None:
        return MeanEncoder()
    tokenizer = backbone.tokenizer(ordinary_texts())
    encoder: Encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, None)
    return encoder


def small_graph(name: str = "transformer") -> bytes:
    """Return the graph of a small encoder of a backbone; its prices of 1,000 rows are from 0.005 to 2,000,000."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plugin = registry().get("backbone", name).load()
        known = plugin.Options.model_fields
        sizes = {option: size for option, size in (_SMALL | {"vocab_size": 256}).items() if option in known}
        backbone = registry().create("backbone", name, sizes)
        tokenizer = backbone.tokenizer(ordinary_texts())
        tokens = encode(tokenizer, ordinary_texts(), 64, 0)
        loss = smape()
        model = small_model(
            loss, backbone.encoder(backbone.architecture(tokenizer), tokenizer, tokens)
        ).eval()
        with torch.no_grad():
            raw = model.raw(**{name: torch.from_numpy(array) for name, array in batch(1000, 12).items()})
            low, high = math.log(0.005), math.log(2e6)
            loss.link.std.copy_((high - low) / (raw.max() - raw.min()))
            loss.link.mean.copy_(low - loss.link.std * raw.min())
        return export_bytes(model, batch(4, 9))


def export_bytes(model: PriceModel, example: Batch) -> bytes:
    """Export a model as `pricekit export` does; return the graph."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export_graph(model, example, path)
        return path.read_bytes()


def stored_into(fresh: nn.Module, module: nn.Module) -> None:
    """Copy weights and buffers from `module` to `fresh` through a checkpoint file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "module.safetensors"
        save_checkpoint(path, Parts(module), {})
        try:
            load_checkpoint(path, Parts(fresh))
        except TrainingError as error:
            fail(
                f"a new instance cannot load the weights and buffers: {error.__cause__}",
                "the same names and shapes",
                "create all of them in __init__, also those that are fitted later",
            )
