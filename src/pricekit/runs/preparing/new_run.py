"""A new run, whose folder is written after every plugin has processed a batch.

An older run in the folder is deleted only then.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path

from pricekit.features.fit import Sample
from pricekit.formats import FORMAT
from pricekit.preprocess import without_price
from pricekit.runs.checks import check_feature_leaks, check_plugins
from pricekit.runs.folder.contents import write_out_of_fold, write_split
from pricekit.runs.folder.names import BACKBONE, SOURCE, STARTED
from pricekit.runs.folder.overwrite import check_replaceable, clear_run
from pricekit.runs.folder.states import is_replaceable, is_started
from pricekit.runs.inputs import TRAIN, VALID, InputFiles
from pricekit.runs.preparing.fitted import Fitted, continue_parts, fit_parts, without_slow_features
from pricekit.runs.preparing.job import inputs_of, job_of, new_model, rows_of
from pricekit.runs.pseudo_labels import write_pseudo_labelled
from pricekit.runs.refit import TAKEN_OVER, FirstPass, known_columns, take_over
from pricekit.runs.setup import Setup
from pricekit.runs.source import Source, Split
from pricekit.runs.warm.seen import Seen, write_seen
from pricekit.runs.warm.start import WarmStart, seen_of
from pricekit.support.digests import list_files
from pricekit.support.files import is_free, write_atomically, write_text
from pricekit.support.progress import progress
from pricekit.training.checkpoint import BEST, checkpoints
from pricekit.training.session import Job


def prepare_new_run(
    out: Path,
    source: Source,
    setup: Setup,
    split: Split,
    first: FirstPass | None,
    warm: WarmStart | None,
    files: InputFiles,
    *,
    overwrite: bool,
    seconds: float | None = None,
) -> Job:
    """Fit the preprocessor, build the model, check every plugin on a batch, then write the folder with its `files`.

    `seconds` limits the time for features that learn from prices, unless the run continues another one, `warm`.

    Raises:
        TrainingError: `out` is not empty.
        PluginError, ConfigError: a plugin or its settings are invalid; the folder is unchanged.
        DataError: a feature reads a column that leaks the price.
    """
    check_free(out, overwrite)
    config, rows = setup.config, rows_of(split, first)
    with progress("preparing", 5, shown=config.speed.progress) as advance:
        advance(0, "tokenizer and features")
        known = known_columns(out.parent, split) if first else {}
        if warm is None:
            sample = Sample.of(rows)
            if seconds is not None and first is None:
                setup = without_slow_features(setup, sample, seconds)
                config = setup.config
            fitted = fit_parts(setup, sample, known, files.cache)
        else:
            fitted = continue_parts(warm, split, known)
        preprocessor = fitted.preprocessor
        check_feature_leaks(preprocessor.features, without_price(rows, preprocessor.columns), split.leaks)
        advance(2, "inputs of the training rows")
        train = inputs_of(fitted, rows, files, TRAIN)
        fitted = fitted.complete(train.inputs)
        if warm is not None:
            train = replace(train, new=warm.seen.rows_of(rows.text) < 0)
        advance(1, "inputs of the validation rows")
        valid = None if first else inputs_of(fitted, split.valid, files, VALID)
        advance(1, "model")
        model = new_model(setup, fitted, train, warm)
        job = job_of(setup, fitted, model, train, valid, secrets.token_hex(16))
        check_plugins(job)
    parts = [(rows, train), *([] if valid is None else [(split.valid, valid)])]
    seen = seen_of(warm, fitted.preprocessor, fitted.out_of_fold, parts)
    _write_run(out, source, job.run, setup, split, fitted, first, seen, files)
    return job


def check_free(out: Path, overwrite: bool) -> None:
    """Raise TrainingError unless a new run can be written to a folder."""
    if is_free(out):
        return
    own = is_replaceable(out)
    untrained = own and not any([*checkpoints(out), (out / BEST).exists(), (out / "run.json").exists()])
    resumable = not overwrite and is_started(out)
    check_replaceable(out, "run", own=own, overwrite=overwrite or untrained, resumable=resumable)


def _write_run(
    out: Path,
    source: Source,
    run: str,
    setup: Setup,
    split: Split,
    fitted: Fitted,
    first: FirstPass | None,
    seen: Seen,
    files: InputFiles,
) -> None:
    """Write the files of a new run; `BACKBONE` is the last, and marks the run as started."""
    clear_run(out)
    out.mkdir(parents=True, exist_ok=True)
    files.publish()
    facts = {"format": FORMAT} | source.facts(split)
    facts |= {"run": run, "plugins": [entry.facts() for entry in setup.entries]}
    facts |= {} if first is None else first.to_json()
    facts |= {} if fitted.init is None else {"init": fitted.init}
    write_text(out / SOURCE, json.dumps(facts, indent=2) + "\n")
    if first is not None:
        take_over(out, first)
    write_text(out / "config.toml", setup.config.to_toml())
    write_seen(out, seen)
    if split.pseudo_labelled is not None:
        write_pseudo_labelled(out, split.pseudo_labelled)
    write_split(out, split, setup.config.seed, fitted.preprocessor.columns.price)
    for name, text in fitted.preprocessor.files().items():
        write_text(out / name, text)
    assets = fitted.preprocessor.features.assets()
    for name, content in assets.items():
        with write_atomically(out / name) as temporary:
            temporary.write_bytes(content)
    if fitted.out_of_fold:
        write_out_of_fold(out, fitted.out_of_fold)
    architecture = json.dumps(fitted.architecture, indent=1) + "\n"
    listed = (*STARTED, *(TAKEN_OVER if first else ()), *assets)
    list_files(out, listed, {BACKBONE: architecture})
    write_text(out / BACKBONE, architecture)
