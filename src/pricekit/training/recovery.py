"""Resuming after damage: the newest checkpoint that is intact, and with which the best weights are not lost."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pricekit.errors import TrainingError
from pricekit.support.files import sync, write_text
from pricekit.support.log import logger
from pricekit.training.checkpoint import BEST, LAST, TrainingState, checkpoints, read_state


def recover_checkpoint(folder: Path, run: str) -> None:
    """Make `last.safetensors` the newest checkpoint from which a run ends with the same weights as without damage.

    If the best weights are damaged or missing, that is a checkpoint from the end of the best epoch, which has them, or
    one from before it. A damaged `best.safetensors` is deleted then, and training writes it again.

    Args:
        folder: of the run; without a checkpoint, nothing is done.
        run: the id of the run.

    Raises:
        TrainingError: there are checkpoints, but none can be used; names the damaged files.
    """
    found = checkpoints(folder)
    if not found:
        return
    if found[0].name != LAST:
        found = [folder / LAST, *found]
    best, problems = _best_epoch(folder, run)
    sought = 0  # the best epoch of the newer checkpoints
    for path in found:
        try:
            state = read_state(path, run)
        except TrainingError as error:
            problems.append(str(error).partition(";")[0])
            continue
        if _has_best(state, best) or state["epoch"] < sought:
            _use(folder, path, state, problems)
            return
        sought = max(sought, state["best_epoch"])
    problems = problems or [f"{folder / BEST} is missing"]
    raise TrainingError(
        f"{'; '.join(problems)}. No other checkpoint can replace it: restore the file from a copy, or train again",
        parameters=("overwrite",),
        path=str(folder),
    )


def _best_epoch(folder: Path, run: str) -> tuple[int | None, list[str]]:
    """Return the epoch of the best weights, or None and the reason."""
    try:
        return int(read_state(folder / BEST, run)["epoch"]), []
    except TrainingError as error:
        return None, [str(error).partition(";")[0]] if (folder / BEST).exists() else []


def _has_best(state: dict[str, Any], best: int | None) -> bool:
    """Return whether the best weights of a checkpoint exist, are among its own, or are not yet due."""
    due = state["best_epoch"]
    own = due == state["epoch"] and not state["steps_in_epoch"]
    # Newer best weights are from steps after the checkpoint, which are repeated.
    return not due or own or best == due or (best is not None and best > state["epoch"])


def _use(folder: Path, path: Path, state: dict[str, Any], problems: list[str]) -> None:
    """Delete what is damaged, rename a checkpoint to `last.safetensors`, and log what was found."""
    if problems or path.name != LAST:
        logger.warning(
            f"{'; '.join(problems) or f'{folder / LAST} is missing'}. The run continues from step {state['step']}, "
            f"the checkpoint {path.name}"
        )
    if any(str(folder / BEST) in problem for problem in problems):
        (folder / BEST).unlink(missing_ok=True)
    if path.name != LAST:
        os.replace(path, folder / LAST)
        sync(folder)


METRICS = "metrics.jsonl"


def write_metrics(folder: Path, history: Sequence[dict[str, Any]]) -> None:
    """Write `metrics.jsonl`: a line for each epoch."""
    write_text(folder / METRICS, _lines(history))


def restore_metrics(folder: Path, state: TrainingState) -> None:
    """Write `metrics.jsonl` from the state of the checkpoint that a run continues from; log it if it was damaged."""
    path = folder / METRICS
    try:
        found = path.read_text("utf-8") if path.exists() else ""
    except (OSError, ValueError):
        found = "damaged"
    if not found.startswith(_lines(state.history)):
        logger.warning(f"{path} was altered or damaged; it is written again from the checkpoint")
    if state.history:
        write_metrics(folder, state.history)


def _lines(history: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in history)
