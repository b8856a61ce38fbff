"""Defaults from the current folder: the project file, the latest run and the latest bundle."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pricekit.cli.common import Result, again, call, read_flags
from pricekit.cli.terminal import begin, show_result
from pricekit.io.files import RECORD
from pricekit.io.log import logger
from pricekit.io.record import continued, state_of
from pricekit.io.staging import target_of
from pricekit.io.storage import Location, location_of
from pricekit.training.launched import launched_count

PROJECT_FILE = Path("pricekit.toml")
RUNS, BUNDLES = Path("runs"), Path("bundles")
_WRITTEN_AT_START = ("members.toml", "tune.toml", "config.toml")


def with_project(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the flags of a command as arguments of its function; the project file supplies those that were not given.

    Args:
        flags: of a command that reads a table. Commands that train have a `config`, which receives the settings of the
            file.

    Raises:
        ConfigError: the project file is invalid.
        click.UsageError: neither an argument nor the file names a table.
    """
    if not PROJECT_FILE.is_file():
        return _with_table(flags, None)
    logger.info(f"using {PROJECT_FILE}")  # before pydantic is imported
    from pricekit.config import merge, read_toml
    from pricekit.config.project import read_project

    project = read_project()
    flags = _with_table(flags, project.table)
    if project.table is not None and _same(flags["table"], project.table):
        flags |= {name: value for name, value in project.read_options.items() if not flags.get(name)}
    if "config" in flags:
        file = {} if flags["config"] is None else read_toml(Path(flags["config"]))
        return flags | {"config": merge(project.settings, file)}
    columns = project.settings.get("columns", {})
    return flags | {
        name: columns[name] for name in ("text", "price", "id") if name in columns and not flags.get(name)
    }


def _same(named: str | Location, table: Location) -> bool:
    location = location_of(named, "table") if isinstance(named, str) else named
    if isinstance(location, Path) and isinstance(table, Path):
        return location.resolve() == table.resolve()
    return location == table


def _with_table(flags: dict[str, Any], table: Location | None) -> dict[str, Any]:
    if flags["table"] is None and table is None:
        raise click.UsageError(
            f"Missing argument 'TABLE'. Name a table, or write its path into {PROJECT_FILE}: "
            f"pricekit check TABLE --write {PROJECT_FILE}"
        )
    return flags | {"table": flags["table"] or table}


def begin_training(flags: dict[str, Any]) -> dict[str, Any]:
    """Print the first line of a command that trains, and import what reads a table.

    Returns:
        The arguments of the command's function, with the defaults of the project file.
    """
    flags = with_project(flags)
    begin(f"reading {flags['table']}", "pricekit.runs.chosen_columns")
    return flags


def run_training(function: Callable[..., Result], flags: dict[str, Any], config: str | None) -> Result:
    """Call a function that trains. If it is interrupted, print the command that continues it.

    What is continued has its own settings, so those of the project file are left out then.

    Args:
        function: of pricekit.
        flags: as of `begin_training`; with `out`.
        config: the file of --config.
    """
    state = state_of(Path(flags["out"]))
    if flags["resume"] and (state.begun or state.replacement):
        flags["config"] = config
    try:
        return call(function, flags)
    except KeyboardInterrupt:
        begun = state_of(Path(flags["out"])) != state  # with --overwrite, the old folder may be unfinished
        if flags["resume"] or (begun and state_of(continued(Path(flags["out"]))).name == "unfinished"):
            show_result(f"continue with: {_resume_command(flags)}")
        raise


def _resume_command(flags: dict[str, Any]) -> str:
    words = [str(flags["table"]), "--out", str(flags["out"]), "--resume"]
    if flags.get("valid"):
        words += ["--valid", str(flags["valid"])]
    if flags["resume"] and flags["time_budget"]:  # the time budget of the first start is in the configuration
        words += ["--time-budget", flags["time_budget"]]
    words += read_flags(flags) + ["--allow-leak"] * flags["allow_leak"]
    here = os.environ.get("LOCAL_WORLD_SIZE", "1")
    launcher = ["torchrun", "--nproc_per_node", here, "-m"] if launched_count() > 1 else []
    return shlex.join([*launcher, "pricekit", str(click.get_current_context().info_name), *words]) + again()


def next_run(flags: dict[str, Any]) -> Path:
    """Return the first of runs/POLICY-1, runs/POLICY-2, ... that does not exist."""
    if launched_count() > 1:  # each of several processes would choose its own
        raise click.UsageError("Missing option '--out': processes that train together need one folder.")
    from pricekit.config.resolve import policy_of
    from pricekit.options import layers_of

    return next_folder(policy_of(layers_of(flags)).name)


def next_folder(name: str) -> Path:
    """Return the first of runs/NAME-1, runs/NAME-2, ... that does not exist."""
    number = 1
    while (RUNS / f"{name}-{number}").exists():
        number += 1
    return RUNS / f"{name}-{number}"


def latest_run() -> Path:
    """Return the most recently finished run in `runs`, and log its name; raises click.UsageError."""
    return _latest(RUNS, ("run", "ensemble"), ("finished",), "RUN", "train one with pricekit train")


def latest_bundle() -> Path:
    """Return the most recently written bundle in `bundles`, and log its name; raises click.UsageError."""
    return _latest(BUNDLES, ("bundle",), ("finished",), "MODEL", "export one with pricekit export")


def interrupted_run() -> Path:
    """Return the newest run in `runs`, finished or not, and log its name; raises click.UsageError."""
    states = ("unfinished", "finished")
    return _latest(RUNS, ("run", "ensemble"), states, "--out", "train one with pricekit train")


def interrupted_search() -> Path:
    """Return the newest search in `runs`, finished or not, and log its name; raises click.UsageError."""
    return _latest(RUNS, ("search",), ("unfinished", "finished"), "--out", "start one with pricekit tune")


def _latest(
    folder: Path, kinds: tuple[str, ...], states: tuple[str, ...], argument: str, remedy: str
) -> Path:
    """Return the newest folder of some kinds and states, and log its name; raises click.UsageError if there is none."""
    times = dict[Path, float]()
    for file in folder.glob(f"*/{RECORD}"):
        state, began = state_of(file.parent), "unfinished" in states
        shown = target_of(file.parent) if began else file.parent  # it may have a replacement
        if state.kind in kinds and state.name in states and not shown.name.startswith("."):
            settings = [file.with_name(name) for name in _WRITTEN_AT_START] if began else []
            time = next(each for each in (*settings, file) if each.exists()).stat().st_mtime
            times[shown] = max(times.get(shown, 0.0), time)
    if not times:
        raise click.UsageError(f"Missing {argument}, and {folder}/ has none. Name one, or {remedy}.")
    latest = max(times, key=times.__getitem__)
    logger.info(f"using {latest}, the latest in {folder}/")
    return latest
