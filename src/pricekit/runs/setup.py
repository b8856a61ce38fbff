"""The parts of a run that depend only on the configuration: plugins, processes, precision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from pricekit.config import RunConfig
from pricekit.config.layers import read_saved_config
from pricekit.core.contracts import Backbone, Policy
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.errors import ConfigError, TrainingError, check_intact
from pricekit.model.network import ModelPlugins
from pricekit.runs.folder.contents import require_plugins
from pricekit.runs.folder.states import is_run, is_started
from pricekit.training.machine import choose_precision
from pricekit.training.parallel.processes import Processes


@dataclass(frozen=True)
class Setup:
    """The parts of a run that depend only on the configuration, created once per run.

    Attributes:
        config: of the run.
        plugins: backbone and loss.
        policy: provides the optimizer and the schedule.
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
        registry().require_trackers(config.track)
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
            f"max_length is {config.max_length}, but the backbone '{config.backbone.name}' accepts at most {longest}",
            parameters=("max_length",),
            found=config.max_length,
            longest=longest,
        )


def resumed_config(folder: Path, time_budget: float | str | None) -> RunConfig:
    """Return the configuration of the run in a folder, with a new time budget if one is given.

    Raises:
        TrainingError: there is no run to resume.
        PluginError: a plugin that it was started with is not loaded.
    """
    if not is_run(folder):
        raise TrainingError(
            f"there is no run in {folder} to resume; train without resume", parameters=("resume",)
        )
    if not is_started(folder):
        raise TrainingError(
            f"the run in {folder} was interrupted before its first step; train without resume",
            parameters=("resume",),
        )
    check_intact(folder, ["config.toml"])
    require_plugins(folder)
    return in_budget(folder / "config.toml", time_budget)


def in_budget(file: Path, time_budget: float | str | None) -> RunConfig:
    """Return the configuration in a file, with a new time budget if one is given; raises ConfigError."""
    return read_saved_config(file, *([{"training": {"time_budget": time_budget}}] if time_budget else []))


def plugins_of(config: RunConfig) -> list[Entry]:
    """Return the registry entries of all plugins that a configuration names; raises PluginError."""
    chosen = [("feature", name) for name in config.features]
    chosen += [("backbone", config.backbone.name), ("loss", config.loss.name), ("policy", config.policy.name)]
    return [registry().get(kind, name) for kind, name in chosen]
