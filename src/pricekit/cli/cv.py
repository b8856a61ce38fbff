"""`pricekit cv`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.options import (
    FOLDER,
    TABLE,
    config_of,
    epochs_option,
    model_options,
    read_options_of,
    table_options,
)
from pricekit.cli.plugin_options import again
from pricekit.cli.terminal import begin, show_result
from pricekit.cli.train import allow_leak_option, resume_line, resumed_config, stamp, teacher_options

if TYPE_CHECKING:
    from pricekit.config import RunConfig

FOLDS = 5


@click.command(short_help="Cross-validate: train on parts of a table and score each on the rest.")
@click.argument("table", type=TABLE)
@click.option("--out", type=FOLDER, required=True, help="Folder of the cross-validation.")
@click.option("--folds", type=int, metavar="N", help=f"Parts of the table.  [default: {FOLDS}]")
@model_options
@table_options(price=True)
@epochs_option
@click.option(
    "--time-budget", metavar="TIME", help="Such as 2h or 90m, for each fold: fit the schedule into it."
)
@click.option("--resume", is_flag=True, help="Go on with what is in --out.")
@click.option("--overwrite", is_flag=True, help="Replace the cross-validation in --out.")
@teacher_options
@allow_leak_option
def cv(
    table: Path,
    out: Path,
    folds: int | None,
    unpriced: tuple[Path, ...],
    teacher: tuple[Path, ...],
    resume: bool,
    overwrite: bool,
    allow_leak: bool,
    **flags: Any,
) -> None:
    """Price every row of TABLE once, with weights that were trained on other rows.

    \b
    pricekit cv products.csv --out cv
    pricekit evaluate cv
    pricekit errors cv

    The rows are cut into folds of alike prices, rows with nearly equal texts in one fold. For each fold a run is
    trained on the others, its last weights kept, so that the fold that scores it chooses nothing. The screen shows
    mean and standard deviation over the folds, then the errors by price, length of the text and category. A
    --teacher is a folder of pricekit cv with the same folds: each fold is taught by the run that has not seen it.
    """
    begin(f"reading {table}", "pricekit.workflows.cross_validation")
    from pricekit.cli.show_scores import show_scores
    from pricekit.runs.source import Source
    from pricekit.training.processes import Processes
    from pricekit.workflows.cross_validation import CONFIG, cross_validate

    source = Source(table, read_options=read_options_of(flags), unpriced=unpriced, teachers=teacher)
    flags |= {"overwrite": overwrite, "unpriced": unpriced, "teacher": teacher} if resume else {}
    config = _saved_config(out, folds, flags) if resume else config_of(flags, {"training": {"keep": "last"}})
    given = {"resume": resume, "overwrite": overwrite, "allow_leak": allow_leak}
    before = stamp(out / CONFIG)
    try:
        scores = cross_validate(source, config, out, FOLDS if folds is None else folds, **given)
    except KeyboardInterrupt:
        if resume or stamp(out / CONFIG) not in (None, before):  # which is written when all else is there
            show_result(
                "continue with: "
                + resume_line("cv", source, out, flags, allow_leak=allow_leak, resume=resume)
            )
        raise
    show_scores(scores)
    Processes().end()
    show_result(
        f"the rows with their predictions are in {out}; next: pricekit errors {shlex.quote(str(out))}{again()}",
        out=str(out),
    )


def _saved_config(out: Path, folds: int | None, flags: dict[str, Any]) -> RunConfig:
    from pricekit.errors import ConfigError, TrainingError
    from pricekit.workflows.cross_validation import CONFIG, is_cv

    if not is_cv(out):
        raise TrainingError(f"there is no cross-validation in {out} to resume; start it without --resume")
    if folds is not None:
        raise ConfigError(f"--resume goes on with the folds in {out}; leave out --folds")
    return resumed_config(out / CONFIG, flags)
