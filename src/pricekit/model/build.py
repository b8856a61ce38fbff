"""Building the network of a run from its plugins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pricekit.config import RunConfig
from pricekit.core.calls import plugin_call
from pricekit.core.contracts import Backbone, State
from pricekit.core.loader import registry
from pricekit.model.network import PriceModel
from pricekit.preprocess import Inputs, Preprocessor


@dataclass(frozen=True)
class ModelPlugins:
    """The plugins that a network is built from, each created once.

    Attributes:
        backbone: makes the tokenizer and the encoder.
        loss: a new `torch.nn.Module`, which becomes a part of the network.
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
    train: Inputs | None,
) -> PriceModel:
    """Build a network.

    Args:
        plugins: of the configuration; the loss becomes a part of the network.
        config: of the run.
        preprocessor: gives the tokenizer and the number of features.
        architecture: what the backbone stored to build its encoder again.
        train: inputs of the training rows, for a new encoder; None where saved weights are loaded afterwards.

    Raises:
        PluginError: the backbone failed.
    """
    with plugin_call("backbone", config.backbone.name, "making its encoder"):
        tokens = train.tokens if train else None
        encoder = plugins.backbone.encoder(architecture, preprocessor.tokenizer, tokens)
    return PriceModel(encoder, config.head, plugins.loss, len(preprocessor.features.names))
