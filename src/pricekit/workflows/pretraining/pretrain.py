"""From texts, priced or not, to a folder of weights that `pricekit train --weights` takes."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pricekit import __version__
from pricekit.errors import ConfigError, TrainingError
from pricekit.files import is_free, publish_folder, write_text
from pricekit.log import logger
from pricekit.model.backbones.weights import quiet_transformers
from pricekit.progress import progress
from pricekit.table import AS_FOUND, ReadOptions
from pricekit.training.interrupt import defer_interrupts
from pricekit.training.machine import is_out_of_memory
from pricekit.training.processes import Processes
from pricekit.workflows.pretraining.loop import (
    Watch,
    fit_masked,
    last_checkpoint,
    steps_in,
    told_if_unwritten,
)
from pricekit.workflows.pretraining.start import Prepared, Pretraining, backbone_of, prepared, read_texts

FACTS = "pretrain.json"
_START = "start.json"


def pretrain(
    tables: Sequence[Path],
    settings: Pretraining,
    out: Path,
    *,
    read_options: ReadOptions = AS_FOUND,
    resume: bool = False,
    overwrite: bool = False,
    shown: bool = True,
) -> dict[str, Any]:
    """Train a backbone's encoder to fill in masked tokens; returns what `pretrain.json` says.

    The folder is published whole: config.json, tokenizer.json, model.safetensors, pretrain.json. Until then
    checkpoints are kept in a hidden folder beside it.

    Args:
        tables: files of texts; equal texts count once.
        settings: what to pretrain and how.
        out: a new or empty folder.
        read_options: how the tables are read, where they do not show it.
        resume: go on from the last checkpoint.
        overwrite: replace the weights in `out`, and forget an unfinished pretraining of them.
        shown: show the progress bar.

    Raises:
        DataError: a table cannot be read, or there are too few texts.
        ConfigError, PluginError: a setting is wrong, or the backbone cannot be pretrained.
        TrainingError: `out` is taken, training failed, or what is to be resumed is another pretraining.
        KeyboardInterrupt: after a checkpoint.
    """
    began = time.perf_counter()
    work = _work_of(out)
    _check_free(out, work, resume=resume, overwrite=overwrite)
    processes = Processes()
    if processes.count > 1:
        raise ConfigError("pretraining runs in one process; start it without accelerate launch")
    backbone = backbone_of(settings)
    rows, texts = read_texts(tables, settings, read_options)
    start = prepared(backbone, settings, texts, processes.device)
    facts = {"tables": [path.name for path in tables], "rows": rows} | start.facts()
    facts |= {"pricekit": __version__, "loss_before": _loss_before(start, work, resume=resume)}
    _fit(start, work, shown=shown)
    facts |= {"loss_after": start.loss(), "seconds": round(time.perf_counter() - began, 1)}
    _say_result(facts)
    publish_folder(out, _files(start, work, facts))
    shutil.rmtree(work, ignore_errors=True)
    return facts


def is_unfinished(out: Path) -> bool:
    """Say whether there is a checkpoint of a pretraining of `out` to go on from."""
    return last_checkpoint(_work_of(out)) is not None


def _work_of(out: Path) -> Path:
    return out.absolute().with_name(f".{out.absolute().name}.pretrain")


def _check_free(out: Path, work: Path, *, resume: bool, overwrite: bool) -> None:
    if not is_free(out):
        if not (out / FACTS).is_file():
            raise TrainingError(
                f"{out} exists already and is not a folder that pretrain wrote, so it is not overwritten; name another"
            )
        if not overwrite:
            raise TrainingError(f"{out} exists already; replace it with --overwrite, or name another folder")
    unfinished = last_checkpoint(work) is not None
    if resume and not unfinished:
        raise TrainingError(f"there is no unfinished pretraining of {out} to resume; leave out --resume")
    if unfinished and not resume and not overwrite:
        raise TrainingError(
            f"there is an unfinished pretraining of {out}; go on with it with --resume, or start anew with --overwrite"
        )


def _loss_before(start: Prepared, work: Path, *, resume: bool) -> float:
    """Return the held-out loss before the first step, which a pretraining that is resumed has kept."""
    if not resume:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        write_text(work / _START, json.dumps({"digest": start.digest(), "loss_before": start.loss()}) + "\n")
    kept = json.loads((work / _START).read_text("utf-8"))
    if kept["digest"] != start.digest():
        raise TrainingError(
            "the texts or the settings are not those that this pretraining was started with; give the same command "
            "with --resume, or start anew with --overwrite"
        )
    return float(kept["loss_before"])


def _fit(start: Prepared, work: Path, *, shown: bool) -> None:
    """Train from the last checkpoint, or from the start; an interrupt leaves a checkpoint."""
    found = last_checkpoint(work)
    done = int(found.name.rpartition("-")[2]) if found else 0
    total = steps_in(start.train, start.settings)
    with (
        quiet_transformers(),
        defer_interrupts(enabled=True) as asked,
        progress("pretraining", total, done, shown=shown) as advance,
    ):
        try:
            finished = fit_masked(start, work, found, Watch(advance, asked))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(
                f"out of memory with {start.settings.batch_size} texts of up to {start.settings.max_length} tokens; "
                "use a smaller --batch-size or --max-length"
            ) from None
    if not finished:
        raise KeyboardInterrupt


def _say_result(facts: dict[str, Any]) -> None:
    before, after = facts["loss_before"], facts["loss_after"]
    if not math.isfinite(after):
        raise TrainingError("the loss is no longer a number; use a smaller --learning-rate, and --overwrite")
    logger.info(
        f"loss of masked tokens, {facts['held_out']:,} held-out texts: {before:.3f} before, {after:.3f} after "
        f"(perplexity {math.exp(before):,.1f} and {math.exp(after):,.1f}), {facts['seconds']:.0f} s"
    )
    if after >= before:
        logger.warning(
            "the loss did not fall: these weights are no better than those it began with. Try another --learning-rate, "
            "or more --epochs."
        )


def _files(start: Prepared, work: Path, facts: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of the folder by name."""
    saved = work / "model"
    with quiet_transformers(), told_if_unwritten(work):
        start.model.save_pretrained(saved)
    files = {name: (saved / name).read_bytes() for name in ("config.json", "model.safetensors")}
    files["tokenizer.json"] = start.tokenizer.to_str(pretty=True).encode()
    return files | {FACTS: (json.dumps(facts, indent=2) + "\n").encode()}
