"""`pricekit train`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.options import (
    FOLDER,
    TABLE,
    config_of,
    epochs_option,
    flag_layer,
    model_options,
    read_flags,
    read_options_of,
    table_options,
)
from pricekit.cli.plugin_options import again
from pricekit.cli.terminal import begin, show_result

if TYPE_CHECKING:
    from pricekit.config import RunConfig
    from pricekit.runs.source import Source


allow_leak_option = click.option(
    "--allow-leak", is_flag=True, help="Train on columns or texts that give the price away, too."
)


def teacher_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --unpriced and --teacher."""
    teacher = click.option(
        "--teacher",
        "teacher",
        type=FOLDER,
        multiple=True,
        help="Model that prices the rows of --unpriced; of several, the mean of the logs.",
    )
    unpriced = click.option(
        "--unpriced",
        type=TABLE,
        multiple=True,
        help="Table whose rows without a price are trained on, too, such as those to predict.",
    )
    return unpriced(teacher(command))


@click.command(short_help="Train a model on a table of texts and prices.")
@click.argument("table", type=TABLE)
@click.option("--out", type=FOLDER, required=True, help="Folder of the run.")
@model_options
@table_options(price=True)
@click.option("--valid", type=TABLE, help="Table to validate on, instead of a part of TABLE.")
@epochs_option
@click.option(
    "--time-budget",
    metavar="TIME",
    help="Such as 2h or 90m: fit the schedule into it and end inside it, best weights kept.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out from its last checkpoint.")
@click.option("--overwrite", is_flag=True, help="Replace the run in --out.")
@teacher_options
@allow_leak_option
@click.option("--dry-run", is_flag=True, help="Read the table, print configuration and split, and stop.")
def train(
    table: Path,
    out: Path,
    valid: Path | None,
    unpriced: tuple[Path, ...],
    teacher: tuple[Path, ...],
    resume: bool,
    overwrite: bool,
    allow_leak: bool,
    dry_run: bool,
    **flags: Any,
) -> None:
    """Train a model on TABLE (CSV, TSV, Parquet or JSON lines) into the folder of a run.

    \b
    pricekit train products.csv --out run
    pricekit train shop.parquet --text title,description --price eur --id sku --out run
    pricekit train products.csv --out run --set training.epochs=20 --set backbone.members=5
    pricekit train products.csv --out student --unpriced new.csv --teacher run

    The screen shows each epoch's validation SMAPE (0 to 200 percent, lower is better). The run keeps
    its configuration, split, metrics, checkpoints, and the rows that could not be used.
    """
    begin(f"reading {table}", "pricekit.runs.train")
    from pricekit.log import logger
    from pricekit.runs.folder import BACKBONE
    from pricekit.runs.pseudo_labels import add_pseudo_labels
    from pricekit.runs.source import Source, load_split
    from pricekit.runs.train import train
    from pricekit.training.processes import Processes

    source = Source(table, valid, read_options_of(flags), unpriced, teacher)
    flags |= {"overwrite": overwrite, "unpriced": unpriced, "teacher": teacher} if resume else {}
    config = _saved_config(out, flags) if resume else config_of(flags)
    before = stamp(out / BACKBONE)
    if dry_run:
        split = load_split(source, config, allow_leak=allow_leak, checked=resume)
        split = add_pseudo_labels(source, split, config, out if resume else None)
        logger.info(
            f"{len(split.train):,} rows to train on, {len(split.valid):,} to validate on; nothing was trained"
        )
        click.echo(config.for_rows(len(split.train)).to_toml(), nl=False)
        return
    try:
        facts = train(source, config, out, resume=resume, overwrite=overwrite, allow_leak=allow_leak)
    except KeyboardInterrupt:
        if resume or stamp(out / BACKBONE) not in (None, before):  # which is written when all else is there
            show_result(
                "continue with: "
                + resume_line("train", source, out, flags, allow_leak=allow_leak, resume=resume)
            )
        raise
    Processes().end()
    metrics = facts["metrics"]
    show_result(
        f"validation SMAPE {metrics['smape']:.2f} (a constant price: {facts['constant_smape']:.2f}), median error "
        f"{metrics['mdape']:.1f}%, best epoch {facts['best_epoch']}, {facts['seconds']:.0f} s",
        metrics=metrics,
        best_epoch=facts["best_epoch"],
        seconds=facts["seconds"],
    )
    show_result(
        f"the run is in {out}; next: pricekit export {shlex.quote(str(out))} --out BUNDLE{again()}",
        run=str(out),
    )


def stamp(file: Path) -> tuple[int, int] | None:
    """Return what tells a file from one that takes its place, None where there is none."""
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.is_file() else None


def resume_line(
    command: str, source: Source, out: Path, flags: dict[str, Any], *, allow_leak: bool, resume: bool
) -> str:
    """Return the command that goes on with what was interrupted, which had been resumed itself or not."""
    given = [str(source.table), "--out", str(out), "--resume"]
    if source.valid:
        given += ["--valid", str(source.valid)]
    if resume and flags["time_budget"]:  # the first one's is in the configuration
        given += ["--time-budget", flags["time_budget"]]
    given += read_flags(source.read_options) + ["--allow-leak"] * allow_leak
    return shlex.join(["pricekit", command, *given]) + again()


def _saved_config(out: Path, flags: dict[str, Any]) -> RunConfig:
    from pricekit.errors import TrainingError
    from pricekit.runs.folder import is_run, require_plugins
    from pricekit.runs.prepare import is_started

    if not is_run(out):
        raise TrainingError(f"there is no run in {out} to resume; train without --resume")
    if not is_started(out):
        raise TrainingError(f"the run in {out} was cut off before it had begun; train without --resume")
    config = resumed_config(out / "config.toml", flags)
    require_plugins(out)
    return config


def resumed_config(file: Path, flags: dict[str, Any]) -> RunConfig:
    """Return the configuration to go on with, which a file holds; raises ConfigError for flags that would change it."""
    from pricekit.config import read_saved_config
    from pricekit.errors import ConfigError

    others = ("settings", "config", "overwrite", "unpriced", "teacher")
    if flag_layer(flags | {"time_budget": None}) or any(flags[name] for name in others):
        raise ConfigError(
            f"--resume continues with the settings in {file}; of the settings, only --time-budget may be given"
        )
    layer = {"training": {"time_budget": flags["time_budget"]}} if flags["time_budget"] else {}
    return read_saved_config(file, layer)
