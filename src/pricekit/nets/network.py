"""The network: (encoding, numeric features) -> head -> raw output -> price; the encoding of feature columns."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor, nn

from pricekit.config import HeadConfig, RunConfig
from pricekit.core.calls import plugin_call
from pricekit.core.contracts import Backbone, State
from pricekit.core.loader import registry
from pricekit.features.preprocess import Preprocessor
from pricekit.text.tokens import Tokens

BOUND = 10.0
"""Standardised features are clamped to ±10, which bounds the effect of one absurd cell."""

_NONE = 1e-6
"""Smallest width of a bin, and the standard deviation up to which a feature is constant."""


class NumericEncoding(nn.Module):
    """Standardised signed logs, and a piecewise-linear encoding in `bins` bins.

    The first is sign(x)·log(1 + |x|), standardised: quantities span six decades, and prices follow their ratios. The
    second cuts a feature at its training quantiles e_0 … e_bins and gives clamp((x - e_t) / (e_{t+1} - e_t), 0, 1)
    for each bin, so a head can bend anywhere, as a tree can split anywhere (Gorishniy et al. 2022, arXiv:2203.05556).
    A bin of width 0 is a step. The encoding of a feature that is constant in the training rows is zero. Otherwise it
    would be a second bias of the head, which would learn many times as fast as the first.

    Args:
        features: number of feature columns, K.
        bins: number of bins of the piecewise-linear encoding; 0 omits it.
    """

    mean: Tensor
    std: Tensor
    varies: Tensor
    start: Tensor
    width: Tensor

    def __init__(self, features: int, bins: int) -> None:
        super().__init__()
        self.out_features = features * (1 + bins)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))
        self.register_buffer("varies", torch.ones(features))
        self.register_buffer("start", torch.zeros(features, bins))
        self.register_buffer("width", torch.ones(features, bins))

    def fit(self, features: Tensor) -> None:
        """Fit the constants to the training rows, float32 (N, K)."""
        if not features.shape[1]:
            return
        squashed = _squash(features.double())
        std = squashed.std(0, correction=0)
        self.mean.copy_(squashed.mean(0))
        self.std.copy_(torch.where(std > _NONE, std, torch.ones_like(std)))
        self.varies.copy_(std > _NONE)
        bins = self.start.shape[1]
        if bins:
            edges = torch.quantile(features.double(), torch.linspace(0, 1, bins + 1).double(), dim=0).T
            self.start.copy_(edges[:, :-1])
            self.width.copy_(edges.diff(dim=1).clamp(min=_NONE, max=torch.finfo(torch.float32).max))

    def forward(self, features: Tensor) -> Tensor:
        """Return the encoding, float32 (B, K·(1 + bins))."""
        standardised = ((_squash(features) - self.mean) / self.std).clamp(-BOUND, BOUND) * self.varies
        if not self.start.shape[1]:
            return standardised
        parts = ((features[:, :, None] - self.start) / self.width).clamp(0, 1) - 0.5
        return torch.cat([standardised, (parts * self.varies[:, None]).flatten(1)], 1)


def _squash(features: Tensor) -> Tensor:
    return features.sign() * features.abs().log1p()


_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
_NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


class PriceModel(nn.Module):
    """Encoder, numeric encoding of the features, heads, and the loss with its link.

    The encoding of an encoder with M members is M groups of columns. Each group has its own head and its own loss; the
    prediction is the mean of their raw outputs.

    Args:
        encoder: see `pricekit.core.contracts.Encoder`.
        head: settings of the heads.
        loss: see `pricekit.core.contracts.Loss`.
        features: number of feature columns, K.
        estimate: the column that is a complete estimate of the log price, if there is one.
        names: of the backbone and the loss, by kind, for errors; empty: their exceptions stay as they are.

    Attributes:
        estimate_share: the share s of this estimate e in the price p^(1 - s) · exp(s · e), where p is the network's
            price. It is chosen after training, on validation rows: a mean of two models with different errors is
            often better than each of them, which the loss on training rows cannot show.
    """

    estimate_share = 0.0

    def __init__(
        self,
        encoder: Any,
        head: HeadConfig,
        loss: Any,
        features: int,
        estimate: int | None = None,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.names = dict(names)
        self.estimate = estimate
        self.encoder = encoder
        self.loss = loss
        self.members = int(encoder.members)
        self.numeric = NumericEncoding(features, head.feature_bins)
        width = encoder.hidden_size // self.members + self.numeric.out_features
        self.heads = nn.ModuleList(build_head(width, head) for _ in range(self.members))

    def fit(self, features: Tensor, price: Tensor) -> None:
        """Fit the constants of the features, float32 (N, K), and the link of the loss to the prices, float64 (N,)."""
        self.numeric.fit(features)
        self.loss.fit(price)

    def merged(self) -> PriceModel:
        """Return the model that is exported: with the encoder's `merged` if it has one. It may share parameters."""
        merge = getattr(self.encoder, "merged", None)
        return self if merge is None else copy.deepcopy(self, {id(self.encoder): merge()})

    def encode(self, input_ids: Tensor, attention_mask: Tensor, **prepared: Tensor) -> Tensor:
        """Return the encoding of each text, (B, H); no feature changes it."""
        with self._calling("backbone", "encoding a batch"):
            return cast(Tensor, self.encoder(input_ids, attention_mask, **prepared))

    def raw(self, input_ids: Tensor, attention_mask: Tensor, features: Tensor, **prepared: Tensor) -> Tensor:
        """Return the raw output of each member, float32 (B, M)."""
        return self._raw(self.encode(input_ids, attention_mask, **prepared), features)

    def _raw(self, encoding: Tensor, features: Tensor) -> Tensor:
        numeric = self.numeric(features)
        groups = encoding.chunk(self.members, dim=1)
        heads = zip(groups, self.heads, strict=True)
        raw = torch.cat([head(torch.cat([group, numeric], 1)) for group, head in heads], 1)
        return raw.float()  # a price needs more than bf16's three digits

    def training_loss(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        features: Tensor,
        price: Tensor,
        weight: Tensor | None = None,
        **prepared: Tensor,
    ) -> Tensor:
        """Return the loss of a batch, a scalar: the mean over rows and members, each row times its weight, (B,).

        `prepared` is the result of the encoder's `prepare_batch` for the batch, if it was called.
        """
        raw = self.raw(input_ids, attention_mask, features, **prepared)
        actual = price[:, None].expand_as(raw)
        with self._calling("loss", "computing the loss of a batch"):
            if weight is None:
                return cast(Tensor, self.loss(raw, actual))
            return cast(Tensor, (self.loss.terms(raw, actual) * weight[:, None]).mean())

    def forward(self, input_ids: Tensor, attention_mask: Tensor, features: Tensor) -> Tensor:
        """Return the price of each row, float32 (B,), in the table's currency. The exporter traces this method."""
        return self.price(self.encode(input_ids, attention_mask), features)

    def price(self, encoding: Tensor, features: Tensor) -> Tensor:
        """Return the price of each row, float32 (B,), from the encoding of its text, (B, H)."""
        raw = self._raw(encoding, features)
        with self._calling("loss", "turning raw outputs into prices"):
            price = self.loss.to_price(raw.mean(1))
        if self.estimate is not None and self.estimate_share > 0:
            estimate = features[:, self.estimate] * self.estimate_share
            price = price.pow(1 - self.estimate_share) * estimate.exp()
        return cast(Tensor, price)

    def _calling(self, kind: str, action: str) -> AbstractContextManager[None]:
        """Return a context in which an exception names the plugin of a kind; an export names the model itself."""
        named = kind in self.names and not torch.compiler.is_exporting()
        return plugin_call(kind, self.names[kind], action) if named else nullcontext()


class PriceAndEmbedding(nn.Module):
    """A model that also returns the encoding of each text, for a graph with both outputs.

    Args:
        model: the model.
    """

    def __init__(self, model: PriceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return prices, float32 (B,), and encodings, float32 (B, H). The exporter traces this method."""
        encoding = self.model.encode(input_ids, attention_mask).float()
        return self.model.price(encoding, features), encoding


def build_head(inputs: int, config: HeadConfig) -> nn.Sequential:
    """Return a head: Linear, norm, activation and dropout for each width, then a Linear to 1."""
    layers: list[nn.Module] = []
    for width, dropout in zip(config.widths, config.dropout, strict=True):
        layers.append(nn.Linear(inputs, width))
        if config.norm != "none":
            layers.append(_NORMS[config.norm](width))
        layers += [_ACTIVATIONS[config.activation](), nn.Dropout(dropout)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


@dataclass(frozen=True)
class ModelPlugins:
    """The plugins that a network is built from, each created once.

    Attributes:
        backbone: makes the tokenizer and the encoder.
        loss: a new `torch.nn.Module`; a copy of it becomes a part of the network.
    """

    backbone: Backbone
    loss: Any

    @classmethod
    def create(cls, config: RunConfig) -> ModelPlugins:
        """Create them from a configuration; raises PluginError, ConfigError."""
        backbone, loss = config.backbone, config.loss
        return cls(
            registry().create("backbone", backbone.name, backbone.options),
            registry().create("loss", loss.name, loss.options),
        )


def build_model(
    plugins: ModelPlugins,
    config: RunConfig,
    preprocessor: Preprocessor,
    architecture: State,
    tokens: Tokens | None,
) -> PriceModel:
    """Build a network.

    Args:
        plugins: of the configuration; a copy of the loss becomes a part of the network.
        config: of the run.
        preprocessor: provides the tokenizer and the number of features.
        architecture: the values that the backbone stored to rebuild its encoder.
        tokens: of the training rows, for a new encoder; None where saved weights are loaded afterwards.

    Raises:
        PluginError: the backbone failed.
    """
    with plugin_call("backbone", config.backbone.name, "making its encoder"):
        encoder = plugins.backbone.encoder(architecture, preprocessor.tokenizer, tokens)
    features = preprocessor.features
    loss = copy.deepcopy(plugins.loss)  # a second pass begins with the loss as it was created
    names = {"backbone": config.backbone.name, "loss": config.loss.name}
    return PriceModel(encoder, config.head, loss, len(features.names), features.log_price, names)
