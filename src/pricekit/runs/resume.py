"""Resuming and replacing runs: the folder to write, and whether what the user asks for agrees with the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pricekit.config.layers import read_saved_config
from pricekit.errors import ConfigError, TrainingError, check_intact
from pricekit.options import RESUMABLE, layers_of
from pricekit.runs.split import Source
from pricekit.support.log import logger
from pricekit.support.staging import can_stage, continued, staging_of
from pricekit.table import source_name


def has_begun(folder: Path, begun: bool, kind: str) -> bool:
    """Return whether there is something to resume; otherwise log that a new one starts."""
    if not begun:
        logger.info(f"there is no {kind} in {folder} to resume yet; a new one starts")
    return begun


def working_folder(
    out: Path, begun: Callable[[Path], bool], finished: str, *, resume: bool, overwrite: bool
) -> Path:
    """Return the folder to train in: `out`, or beside it if a finished run stays until the new one is complete.

    Args:
        out: the folder of a run or of a cross-validation.
        begun: tells whether a folder contains something to resume or to replace.
        finished: name of the last file that is written.
        resume: continue what has begun.
        overwrite: replace what is there.

    Raises:
        TrainingError: an unfinished replacement of `out` is neither to be resumed nor to be overwritten.
    """
    if resume:
        return continued(out, begun)
    staging = staging_of(out)
    if overwrite:
        return staging if begun(out) and (out / finished).is_file() and can_stage(out) else out
    if begun(staging):
        raise TrainingError(
            f"there is an unfinished replacement of {out} in {staging}; resume it, or overwrite it",
            parameters=("resume", "overwrite", "out"),
            path=str(out),
        )
    return out


def check_tables(source: Source, saved: Path) -> None:
    """Raise ConfigError if unpriced tables or teachers are given that differ from those of the run to resume.

    Raises:
        TrainingError: the file with the names of the tables is damaged.
    """
    check_intact(saved.parent, [saved.name], "start again")
    try:
        facts = dict(json.loads(saved.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:  # of a run without digests
        raise TrainingError(f"{saved} is damaged ({error}); start again", path=str(saved)) from None
    for parameter, key, given in (
        ("unpriced", "unpriced", source.unpriced),
        ("teacher", "teachers", source.teachers),
    ):
        before = [Path(name).name for name in facts.get(key, [])]
        if given and [Path(source_name(one)).name for one in given] != before:
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
    own, differences = _flat(read_saved_config(saved)), dict[str, str]()
    for name, value in options.items():
        if name in RESUMABLE or not (_is_given(value) or (name, value) == ("refit", False)):
            continue
        asked = _flat(read_saved_config(saved, *layers_of({name: value})))
        for key, new in asked.items():
            if new not in (own.get(key), "auto"):
                differences.setdefault(name, f"{key} is {own.get(key)!r} there and {new!r} here")
    if differences:
        raise ConfigError(
            f"a resumed run keeps its original settings, and some differ: {'; '.join(differences.values())}. Leave out "
            f"{', '.join(differences)}, or train into a new folder",
            parameters=tuple(differences),
            differences=differences,
        )


def _is_given(value: Any) -> bool:
    """Return whether an option was given: it is not None, False or empty."""
    return not (value is None or value is False or (isinstance(value, list | tuple) and not value))


def _flat(config: Any) -> dict[str, Any]:
    """Return the values of a configuration by dotted name."""
    found: dict[str, Any] = {}

    def collect(values: Mapping[str, Any], prefix: str) -> None:
        for name, value in values.items():
            if isinstance(value, Mapping):
                collect(value, f"{prefix}{name}.")
            else:
                found[prefix + name] = value

    collect(config.model_dump(mode="json"), "")
    return found
