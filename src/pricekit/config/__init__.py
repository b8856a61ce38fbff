"""Settings of a run: their types and defaults, the layers they come from, their JSON schema."""

from pricekit.config.layers import Layer, build_config, merge, parse_override, read_saved_config, read_toml
from pricekit.config.settings import (
    Choice,
    HeadConfig,
    RunConfig,
    Search,
    Section,
    SpeedConfig,
    TrainingConfig,
    parse_duration,
)

__all__ = [
    "Choice",
    "HeadConfig",
    "Layer",
    "RunConfig",
    "Search",
    "Section",
    "SpeedConfig",
    "TrainingConfig",
    "build_config",
    "merge",
    "parse_duration",
    "parse_override",
    "read_saved_config",
    "read_toml",
]
