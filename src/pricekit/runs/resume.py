"""What a resumed run goes on with: the configuration that it was started with."""

from __future__ import annotations

from pathlib import Path

from pricekit.config import RunConfig, build_config, read_toml
from pricekit.errors import TrainingError
from pricekit.runs.folder import is_run, require_plugins
from pricekit.runs.prepare import is_started


def resumed_config(folder: Path, time_budget: float | str | None) -> RunConfig:
    """Return the configuration of the run in a folder, in a new time budget where one is given.

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
    require_plugins(folder)
    return in_budget(folder / "config.toml", time_budget)


def in_budget(file: Path, time_budget: float | str | None) -> RunConfig:
    """Return the configuration in a file, in a new time budget where one is given; raises ConfigError."""
    return build_config([read_toml(file), {"training": {"time_budget": time_budget}} if time_budget else {}])
