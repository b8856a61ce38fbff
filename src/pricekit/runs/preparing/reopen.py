"""A run that was started before, opened to train on: with the same rows, features and architecture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pricekit.errors import TrainingError
from pricekit.model.network import build_model
from pricekit.runs.folder.contents import read_architecture, read_out_of_fold, read_preprocessor
from pricekit.runs.folder.states import read_source, run_id
from pricekit.runs.inputs import TRAIN, VALID, InputFiles
from pricekit.runs.preparing.fitted import Fitted
from pricekit.runs.preparing.job import inputs_of, job_of, new_model, rows_of
from pricekit.runs.refit import FirstPass
from pricekit.runs.setup import Setup
from pricekit.runs.source import Split
from pricekit.runs.warm.seen import read_seen
from pricekit.runs.warm.start import WarmStart
from pricekit.support.progress import progress
from pricekit.training.checkpoint import LAST
from pricekit.training.session import Job


def reopen_run(
    out: Path,
    setup: Setup,
    split: Split,
    first: FirstPass | None,
    warm: WarmStart | None,
    files: InputFiles,
) -> Job:
    """Open an unfinished run.

    The weights come from its checkpoint afterwards; without a checkpoint the model is new.

    Raises:
        TrainingError: the rows differ from those that the run was started with.
    """
    check_same_rows(out, split)
    config, rows = setup.config, rows_of(split, first)
    seen = None if config.init is None else read_seen(out)
    own = split.own
    held_out = seen.columns_of(split.valid.text) if seen is not None and own and not first else {}
    fitted = Fitted(read_preprocessor(out), read_architecture(out), read_out_of_fold(out), held_out)
    with progress("preparing", 2, shown=config.speed.progress) as advance:
        advance(0, "inputs of the training rows")
        train = inputs_of(fitted, rows, files, TRAIN)
        if seen is not None:
            train = replace(train, new=~seen.earlier_rows(rows.text))
        advance(1, "inputs of the validation rows")
        valid = None if first else inputs_of(fitted, split.valid, files, VALID)
    if (out / LAST).exists():
        model = build_model(setup.plugins, config, fitted.preprocessor, fitted.architecture, None)
    else:
        model = new_model(setup, fitted, train, warm)
    return job_of(setup, fitted, model, train, valid, run_id(out))


def check_same_rows(out: Path, split: Split) -> None:
    """Raise TrainingError if the rows differ from those that a run was started with."""
    if read_source(out)["digest"] != split.digest():
        raise TrainingError(
            f"the rows differ from those that {out} was started with; use the same tables and the same options for "
            "reading them, or train into a new folder",
            parameters=("table", "valid", "encoding", "decimal", "out"),
            path=str(out),
        )
