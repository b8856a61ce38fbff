"""What a resumed run keeps: its settings and tables; an option that differs is an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pricekit.config import RunConfig
from pricekit.config.layers import by_dotted_name, read_saved_config
from pricekit.errors import ConfigError
from pricekit.io.log import logger
from pricekit.io.record import Mode, check_intact, check_output, continued, read_intact, state_of
from pricekit.options import RESUMABLE, layers_of
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


def saved_config(file: Path, options: Mapping[str, Any], remedy: str = "train again") -> RunConfig:
    """Return the configuration with which something to resume was started, with a new time budget if one is given.

    Args:
        file: the configuration, such as the `config.toml` of a run.
        options: as of `config_of`.
        remedy: what to do if the file is damaged, for the message.

    Raises:
        TrainingError: the file is damaged.
        ConfigError: an option differs from it.
    """
    check_intact(file.parent, [file.name], remedy)
    time_budget = options.get("time_budget")
    config = read_saved_config(file, *([{"training": {"time_budget": time_budget}}] if time_budget else []))
    own, differences = by_dotted_name(read_saved_config(file).model_dump(mode="json")), dict[str, str]()
    for name, value in options.items():
        layers = [] if name in RESUMABLE else list(filter(None, layers_of({name: value})))
        changed = read_saved_config(file, *layers).model_dump(mode="json") if layers else {}
        for key, new in by_dotted_name(changed).items():
            if new not in (own.get(key), "auto"):
                differences.setdefault(name, f"{key} is {own.get(key)!r} there and {new!r} here")
    if differences:
        raise ConfigError(
            f"a resumed run keeps its original settings, and some differ: {'; '.join(differences.values())}. Leave out "
            f"{', '.join(differences)}, or train into a new folder",
            parameters=tuple(differences),
            differences=differences,
        )
    return config


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
