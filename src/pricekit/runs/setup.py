"""What the configuration alone determines: plugins, processes, precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pricekit.config import RunConfig
from pricekit.core.contracts import Backbone, Policy
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.errors import ConfigError
from pricekit.model.build import ModelPlugins
from pricekit.runs.folder import plugins_of
from pricekit.training.machine import choose_precision
from pricekit.training.processes import Processes


@dataclass(frozen=True)
class Setup:
    """What the configuration alone determines, created once per run.

    Attributes:
        config: of the run.
        plugins: backbone and loss.
        policy: gives the optimizer and the schedule.
        entries: of all plugins of the run, features included.
        processes: the processes that train together.
        precision: of matrix products: fp32, bf16 or fp16.
    """

    config: RunConfig
    plugins: ModelPlugins
    policy: Policy
    entries: list[Entry]
    processes: Processes
    precision: str

    @classmethod
    def create(cls, config: RunConfig) -> Setup:
        """Create the plugins and choose the precision; raises PluginError, ConfigError."""
        torch.manual_seed(config.seed)  # a plugin may draw random numbers when it is created
        processes = Processes()
        setup = cls(
            config=config,
            plugins=ModelPlugins.create(config),
            policy=registry().create("policy", config.policy.name, config.policy.options),
            entries=plugins_of(config),
            processes=processes,
            precision=choose_precision(config.speed, processes.device),
        )
        _check_length(config, setup.plugins.backbone)
        return setup


def _check_length(config: RunConfig, backbone: Backbone) -> None:
    longest = backbone.max_length
    if longest is not None and config.max_length > longest:
        raise ConfigError(
            f"max_length is {config.max_length}, but the backbone '{config.backbone.name}' takes at most {longest}",
            parameters=("max_length",),
            found=config.max_length,
            longest=longest,
        )
