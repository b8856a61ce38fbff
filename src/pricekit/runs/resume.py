"""What a resumed run keeps: its settings and tables; an option that differs is an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pricekit.config import RunConfig
from pricekit.config.layers import by_dotted_name, read_saved_config
from pricekit.errors import ConfigError
from pricekit.io.log import logger
from pricekit.io.output import Mode, check_intact, check_output, read_intact
from pricekit.io.record import continued, state_of
from pricekit.options import RESUMABLE, layers_of
from pricekit.runs.folder import SOURCE, require_plugins
from pricekit.runs.split import Source
from pricekit.table import source_name


def check_tables(source: Source, saved: Path) -> None:
    """Raise ConfigError if unpriced tables or teachers are given that differ from those of the run to resume.

    Raises:
        TrainingError: the file with the names of the tables is damaged.
    """
    facts = read_intact(saved.parent, saved.name)
    for parameter, key in (("unpriced", "unpriced"), ("teacher", "teachers")):
        before = [Path(name).name for name in facts.get(key, [])]
        now = [Path(source_name(one)).name for one in getattr(source, key)]
        if now and now != before:
            raise ConfigError(
                f"a resumed run keeps its original {key}: {', '.join(before) or 'none'}; leave out {parameter}, or "
                "train into a new folder",
                parameters=(parameter,),
            )


def check_agreement(saved: Path, options: Mapping[str, Any]) -> None:
    """Raise ConfigError if an option differs from the saved configuration, which a resumed run keeps.

    Args:
        saved: the `config.toml` of a run, or the `cv.toml` of a cross-validation.
        options: as of `config_of`.
    """
    own, differences = by_dotted_name(read_saved_config(saved).model_dump(mode="json")), dict[str, str]()
    for name, value in options.items():
        layers = [] if name in RESUMABLE else list(filter(None, layers_of({name: value})))
        config = read_saved_config(saved, *layers).model_dump(mode="json") if layers else {}
        for key, new in by_dotted_name(config).items():
            if new not in (own.get(key), "auto"):
                differences.setdefault(name, f"{key} is {own.get(key)!r} there and {new!r} here")
    if differences:
        raise ConfigError(
            f"a resumed run keeps its original settings, and some differ: {'; '.join(differences.values())}. Leave out "
            f"{', '.join(differences)}, or train into a new folder",
            parameters=tuple(differences),
            differences=differences,
        )


def to_resume(out: Path, mode: Mode, *kinds: str) -> Path | None:
    """Return the folder to resume: `out`, or its unfinished replacement; None, with a log, if nothing has begun.

    Raises:
        TrainingError: it is damaged, or of another kind.
    """
    if mode != "resume":
        return None
    folder = continued(out)
    state = state_of(folder)
    if state.name == "absent":
        logger.info(f"there is no {kinds[0]} in {out} to resume yet; a new one starts")
        return None
    check_output(folder, state.kind if state.kind in kinds else kinds[0], "resume")
    return folder


def resumed_config(folder: Path, time_budget: float | str | None) -> RunConfig:
    """Return the configuration of the run in a folder, with a new time budget if one is given.

    Raises:
        TrainingError: it is damaged.
        PluginError: a plugin that it was started with is not loaded.
    """
    check_intact(folder, ["config.toml", SOURCE])
    require_plugins(folder)
    return in_budget(folder / "config.toml", time_budget)


def in_budget(file: Path, time_budget: float | str | None) -> RunConfig:
    """Return the configuration in a file, with a new time budget if one is given; raises ConfigError."""
    return read_saved_config(file, *([{"training": {"time_budget": time_budget}}] if time_budget else []))
