"""Pretraining: from texts, with or without prices, to a folder of weights for training."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pricekit import __version__
from pricekit.errors import ConfigError, TrainingError
from pricekit.model.inference import is_out_of_memory
from pricekit.model.pretrained import PRETRAINED, quiet_transformers
from pricekit.runs.folder import check_replaceable
from pricekit.runs.resume import has_begun
from pricekit.support.digests import LISTING, listing_of
from pricekit.support.files import is_free, others, publish_folder, write_text
from pricekit.support.locks import owned
from pricekit.support.log import logger
from pricekit.support.progress import progress
from pricekit.table import DEFAULT_READ_OPTIONS, ReadOptions, TableSource, source_name
from pricekit.training.parallel import Processes
from pricekit.training.signals import defer_interrupts
from pricekit.workflows.pretraining.loop import (
    PretrainCallback,
    count_steps,
    explain_write_errors,
    fit_masked,
    last_checkpoint,
)
from pricekit.workflows.pretraining.start import (
    PretrainJob,
    PretrainSettings,
    create_backbone,
    prepare_job,
    read_texts,
    with_defaults,
)

_START = "start.json"
_SAVED = ("config.json", "model.safetensors")
_FILES = (*_SAVED, "tokenizer.json", PRETRAINED, LISTING)


def pretrain(
    tables: Sequence[TableSource],
    settings: PretrainSettings,
    out: Path,
    *,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    resume: bool = False,
    overwrite: bool = False,
    shown: bool = True,
) -> dict[str, Any]:
    """Train the encoder of a backbone to predict masked tokens.

    Args:
        tables: files or frames; equal texts count once.
        settings: the backbone and the training.
        out: a new or empty folder; it is written atomically.
        read_options: how to read the tables; options that are not set are detected.
        resume: continue from the last checkpoint; start if there is none, and do nothing if `out` is finished.
        overwrite: replace the weights in `out`, and delete checkpoints of an unfinished pretraining.
        shown: show progress bars.

    Returns:
        The content of `pretrain.json`: tables, counts, settings, loss before and after in nats, seconds.

    Raises:
        DataError: a table cannot be read, or there are too few texts.
        ConfigError, PluginError: a setting is invalid, or the backbone cannot be pretrained.
        TrainingError: `out` exists or is being written, training failed, or the checkpoint belongs to another
            pretraining.
        KeyboardInterrupt: training was interrupted; a checkpoint was saved.
    """
    with owned(out, "pretraining", TrainingError):
        return _pretrain(tables, settings, out, read_options, resume=resume, overwrite=overwrite, shown=shown)


def _pretrain(
    tables: Sequence[TableSource],
    settings: PretrainSettings,
    out: Path,
    read_options: ReadOptions,
    *,
    resume: bool,
    overwrite: bool,
    shown: bool,
) -> dict[str, Any]:
    """Pretrain into a folder that no other process writes."""
    started, work, processes = time.perf_counter(), _checkpoint_folder(out), Processes()
    backbone = create_backbone(settings)  # fails before the tables are read
    if resume and (finished := _finished(out, work, with_defaults(backbone, settings))) is not None:
        logger.info(f"the pretraining {out} is finished already")
        shutil.rmtree(work, ignore_errors=True)
        return finished
    resume = resume and has_begun(out, is_unfinished(out), "pretraining")
    _check_free(out, work, resume=resume, overwrite=overwrite or resume)
    if processes.count > 1:
        raise ConfigError("pretraining uses one process; start it without a launcher such as torchrun")
    with progress("preparing", 2, shown=shown) as advance:
        rows, texts = read_texts(tables, settings, read_options)
        advance(1, "tokenising")
        job = prepare_job(backbone, settings, texts, processes.device)
        advance(1)
    facts = {"tables": [source_name(table) for table in tables], "rows": rows} | job.facts()
    facts |= {"pricekit": __version__, "loss_before": _loss_before(job, work, resume=resume, shown=shown)}
    _fit(job, work, shown=shown)
    facts |= {"loss_after": job.loss(shown=shown), "seconds": round(time.perf_counter() - started, 1)}
    _log_result(facts)
    publish_folder(out, _files(job, work, facts))
    shutil.rmtree(work, ignore_errors=True)
    return facts


def is_unfinished(out: Path) -> bool:
    """Return whether an unfinished pretraining of `out` can be resumed."""
    return last_checkpoint(_checkpoint_folder(out)) is not None


def _finished(out: Path, work: Path, settings: PretrainSettings) -> dict[str, Any] | None:
    """Return the content of `pretrain.json` if `out` is finished with these settings and is not being replaced.

    A pretraining that was killed after its last step has left its own checkpoints, which begin with the same loss.
    """
    facts, start = _read(out / PRETRAINED), _read(work / _START)
    same = facts.get("settings") == json.loads(json.dumps(asdict(settings)))
    return facts if same and start.get("loss_before") in (None, facts.get("loss_before")) else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _checkpoint_folder(out: Path) -> Path:
    return out.absolute().with_name(f".{out.absolute().name}.pretrain")


def _check_free(out: Path, work: Path, *, resume: bool, overwrite: bool) -> None:
    if not is_free(out):
        own, foreign = (out / PRETRAINED).is_file(), others(out, _FILES) if out.is_dir() else []
        check_replaceable(out, "pretraining", own=own, overwrite=overwrite, foreign=foreign)
    if last_checkpoint(work) is not None and not resume and not overwrite:
        raise TrainingError(
            f"there is an unfinished pretraining of {out}; resume it, or overwrite it",
            parameters=("resume", "overwrite"),
            path=str(out),
        )


def _loss_before(job: PretrainJob, work: Path, *, resume: bool, shown: bool) -> float:
    """Return the held-out loss before the first step; a resumed pretraining has stored it."""
    if not resume:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        stored = {"digest": job.digest(), "loss_before": job.loss(shown=shown)}
        write_text(work / _START, json.dumps(stored) + "\n")
    stored = json.loads((work / _START).read_text("utf-8"))
    if stored["digest"] != job.digest():
        raise TrainingError(
            "the texts or the settings differ from those of the unfinished pretraining; resume it with the same ones, "
            "or overwrite it",
            parameters=("resume", "overwrite"),
        )
    return float(stored["loss_before"])


def _fit(job: PretrainJob, work: Path, *, shown: bool) -> None:
    """Train from the last checkpoint or from the beginning; an interrupt saves a checkpoint."""
    found = last_checkpoint(work)
    done = int(found.name.rpartition("-")[2]) if found else 0
    total = count_steps(job.train, job.settings)
    with (
        quiet_transformers(),
        defer_interrupts() as interrupted,
        progress("pretraining", total, done, shown=shown) as advance,
    ):
        try:
            finished = fit_masked(job, work, found, PretrainCallback(advance, interrupted))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(
                f"out of memory with {job.settings.batch_size} texts of up to {job.settings.max_length} tokens; use a "
                "smaller batch size or maximum length",
                parameters=("batch_size", "max_length"),
            ) from None
    if not finished:
        raise KeyboardInterrupt


def _log_result(facts: dict[str, Any]) -> None:
    before, after = facts["loss_before"], facts["loss_after"]
    if not math.isfinite(after):
        raise TrainingError(
            "the loss is no longer finite; use a smaller learning rate, and overwrite this pretraining",
            parameters=("learning_rate", "overwrite"),
        )
    logger.info(
        f"loss of masked tokens, {facts['held_out']:,} held-out texts: {before:.3f} before, {after:.3f} after "
        f"(perplexity {math.exp(before):,.1f} and {math.exp(after):,.1f}), {facts['seconds']:.0f} s"
    )
    if after >= before:
        logger.warning(
            "the loss did not decrease: these weights are no better than the initial ones. Try another learning rate "
            "or more epochs."
        )


def _files(job: PretrainJob, work: Path, facts: dict[str, Any]) -> dict[str, bytes]:
    """Return the contents of the published files by name."""
    saved = work / "model"
    with quiet_transformers(), explain_write_errors(work):
        job.model.save_pretrained(saved)
    files = {name: (saved / name).read_bytes() for name in _SAVED}
    files["tokenizer.json"] = job.tokenizer.to_str(pretty=True).encode()
    files[PRETRAINED] = (json.dumps(facts, indent=2) + "\n").encode()
    return files | {LISTING: listing_of(files)}
