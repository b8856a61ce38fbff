"""Checkpoints: safetensors files of a training in progress, with the JSON state and a checksum in the header; and
resuming after damage, with the newest checkpoint that is intact, and with which the best weights are not lost.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pricekit.errors import TrainingError
from pricekit.io.digests import SEAL, DamagedError, check_seal, seal, tells_damage
from pricekit.io.files import sync, write_atomically, write_text
from pricekit.io.log import logger


@dataclass
class TrainingState:
    """The progress of a training: the JSON values of a checkpoint.

    Attributes:
        epoch: finished epochs.
        steps_in_epoch: optimizer steps of the current epoch.
        step: optimizer steps of all epochs.
        position: steps of the schedule; under a time budget more than `step`.
        best_score: the lowest value of the metric on the validation rows so far.
        best_epoch: the epoch with `best_score`.
        seconds: training time, earlier processes of a resumed run included.
        loss: of the current epoch, summed over rows.
        rows: of the current epoch.
        rate_factor: of the learning rate; below 1 after a spike.
        history: the lines of `metrics.jsonl`.
    """

    epoch: int = 0
    steps_in_epoch: int = 0
    step: int = 0
    position: float = 0.0
    best_score: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    rows: int = 0
    rate_factor: float = 1.0
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class EpochResult:
    """The result of an epoch and its validation.

    Attributes:
        epoch: counted from 1.
        step: optimizer steps so far.
        loss: mean training loss of the epoch's rows.
        valid_score: the value of the metric on the validation rows; None: there are no such rows.
    """

    epoch: int
    step: int
    loss: float
    valid_score: float | None


LAST, BEST = "last.safetensors", "best.safetensors"
EARLIER = re.compile(r"last-([1-9][0-9]*)\.safetensors")
_MODEL, _OPTIMIZER, _EMA = "model.", "optimizer.", "ema."


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder from which training can be resumed, the newest first."""
    matches = {path: EARLIER.fullmatch(path.name) for path in folder.glob("last-*.safetensors")}
    earlier = sorted((int(match[1]), path) for path, match in matches.items() if match)
    last = folder / LAST
    return [*([last] if last.is_file() else []), *(path for _, path in earlier)]


@dataclass(frozen=True)
class Parts:
    """The objects whose states a checkpoint stores.

    Attributes:
        model: with its parameters and buffers.
        optimizer: of its parameters; None stores none.
        ema: the moving average of the weights; None stores none.
        scaler: of the loss; None stores none.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer | None = None
    ema: nn.Module | None = None
    scaler: torch.amp.GradScaler | None = None


def save_checkpoint(
    path: Path, parts: Parts, state: Mapping[str, Any], *, run: str = "", keep: int = 1
) -> None:
    """Write a checkpoint atomically.

    Args:
        path: of the file.
        parts: their states are written.
        state: JSON values.
        run: the id of the run.
        keep: the number of checkpoints to keep: the earlier ones get the names of `checkpoints`.

    Raises:
        TrainingError: the file cannot be written; earlier files stay unchanged.
        TypeError: a value in the optimizer's state is of a type that a checkpoint does not store.
    """
    optimizer, scaler = parts.optimizer, parts.scaler
    tensors = _prefixed(_MODEL, parts.model) | ({} if parts.ema is None else _prefixed(_EMA, parts.ema))
    record: dict[str, Any] = {
        "state": dict(state),
        "scaler": scaler.state_dict() if scaler else {},
        "run": run,
        "name": path.name,
    }
    if optimizer is not None:
        numbers = record["optimizer"] = {}
        for index, values in optimizer.state_dict()["state"].items():
            for key, value in values.items():
                if isinstance(value, Tensor) and value.layout == torch.strided:
                    tensors[f"{_OPTIMIZER}{index}.{key}"] = value.contiguous()
                elif isinstance(value, (str, int, float, type(None))):
                    numbers[f"{index}.{key}"] = value
                else:
                    raise TypeError(
                        f"its state '{key}' is {_kind_of(value)}; expected dense tensors, numbers and strings, which a "
                        "checkpoint stores"
                    )
        record["groups"] = [_numbers(group) for group in optimizer.param_groups]
    try:
        with write_atomically(path) as temporary:
            save_file(tensors, temporary, metadata={"pricekit": json.dumps(record), **SEAL})
            seal(temporary)
            if keep > 1:
                sync(temporary)
                _make_room(path, keep)
    except (OSError, SafetensorError) as error:
        number = re.search(r"\(os error (\d+)\)", str(error))  # safetensors reports a full disk in a text
        cause = error if number is None else OSError(int(number[1]), os.strerror(int(number[1])))
        reason = getattr(cause, "strerror", None) or cause
        raise _failure(
            path,
            f"the checkpoint {path} cannot be written: {reason}. Earlier checkpoints are kept: free space on that disk "
            "and resume, or train into a folder on another disk",
            "resume",
            "out",
        ) from cause


def _failure(path: Path, problem: str, *parameters: str) -> TrainingError:
    """Return the error about a checkpoint or the folder of a run, with the parameters that fix it."""
    return TrainingError(problem, parameters=parameters, path=str(path))


def _make_room(path: Path, keep: int) -> None:
    """Rename each earlier checkpoint to the next number; the oldest is replaced."""
    names = [path, *(path.with_name(f"last-{number}.safetensors") for number in range(1, keep))]
    for newer, older in reversed(list(pairwise(names))):
        if newer.exists():
            os.replace(newer, older)


def load_checkpoint(path: Path, parts: Parts, *, run: str = "") -> dict[str, Any]:
    """Load a file of `save_checkpoint` into the objects of its parts and return its JSON values.

    Raises:
        TrainingError: the file is missing, damaged or of another run, or its tensors do not match the objects.
    """
    try:
        record = _read_record(path, run)
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        parts.model.load_state_dict(_under(tensors, _MODEL))
        if parts.ema is not None:
            parts.ema.load_state_dict(_under(tensors, _EMA))
        optimizer, scaler = parts.optimizer, parts.scaler
        if scaler is not None and scaler.is_enabled() and record["scaler"]:
            scaler.load_state_dict(record["scaler"])
        if optimizer is not None:
            moments: dict[int, dict[str, Any]] = {}
            for name, value in [*_under(tensors, _OPTIMIZER).items(), *record["optimizer"].items()]:
                index, _, key = name.partition(".")
                moments.setdefault(int(index), {})[key] = value
            groups = zip(optimizer.state_dict()["param_groups"], record["groups"], strict=True)
            optimizer.load_state_dict({"state": moments, "param_groups": [g | saved for g, saved in groups]})
        return dict(record["state"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, OSError) and not tells_damage(error):
            raise
        raise _failure(
            path,
            f"the checkpoint {path} is damaged or from another configuration: {error}; train into a new folder",
            "out",
        ) from error


def read_state(path: Path, run: str = "") -> dict[str, Any]:
    """Check a file of `save_checkpoint` and return its JSON values.

    Args:
        path: of the file.
        run: the id of the run that it must belong to; "": of any.

    Raises:
        TrainingError: the file is missing, damaged, of another run or another kind of checkpoint.
        OSError: the system cannot read the file now, which says nothing about it.
    """
    return dict(_read_record(path, run)["state"])


def _read_record(path: Path, run: str) -> dict[str, Any]:
    """Check a file of `save_checkpoint` and return its header; errors as of `read_state`."""
    try:
        sealed = check_seal(path)
        with safe_open(path, framework="pt") as file:
            record = json.loads((file.metadata() or {})["pricekit"])
        if not isinstance(record, dict) or not isinstance(record.get("state"), dict):
            raise ValueError("it has no training state")
    except FileNotFoundError:
        raise _failure(path, f"there is no checkpoint {path}; train into a new folder", "out") from None
    except (DamagedError, SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and not tells_damage(error):
            raise
        reason = str(error) if isinstance(error, DamagedError) else f"{path} is damaged ({error})"
        raise _failure(path, f"{reason}; restore it from a copy, or train again", "overwrite") from error
    name = EARLIER.sub(LAST, path.name)
    if run and (not sealed or record.get("run") != run or record.get("name") != name):
        raise _failure(
            path,
            f"{path} is a file of another run, or another checkpoint of this one; restore it from a copy, or train "
            "again",
            "overwrite",
        )
    return record


def _prefixed(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    return {prefix + name: t.detach().contiguous() for name, t in module.state_dict().items()}


def _numbers(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of a parameter group. The learning rate is omitted, because the schedule sets it."""
    plain = (int, float, str, list, tuple)
    return {
        key: value for key, value in group.items() if key not in ("params", "lr") and isinstance(value, plain)
    }


def _kind_of(value: object) -> str:
    return "a sparse tensor" if isinstance(value, Tensor) else f"of the type {type(value).__name__}"


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


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
    paths = checkpoints(folder)
    if not paths:
        return
    if paths[0].name != LAST:
        paths = [folder / LAST, *paths]
    best, problems = None, list[str]()
    try:
        best = int(read_state(folder / BEST, run)["epoch"])
    except TrainingError as error:
        problems = [str(error).partition(";")[0]] if (folder / BEST).exists() else []
    sought = 0  # the best epoch of the newer checkpoints
    for path in paths:
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
    raise _failure(
        folder,
        f"{'; '.join(problems)}. No other checkpoint can replace it: restore the file from a copy, or train again",
        "overwrite",
    )


def _has_best(state: dict[str, Any], best: int | None) -> bool:
    """Return whether the best weights of a checkpoint exist, are among its own, or are not yet due."""
    due = state["best_epoch"]
    own = due == state["epoch"] and not state["steps_in_epoch"]
    # Newer best weights are from steps after the checkpoint, which are repeated.
    return not due or own or best == due or (best is not None and best > state["epoch"])


def _use(folder: Path, path: Path, state: dict[str, Any], problems: list[str]) -> None:
    """Delete what is damaged, rename a checkpoint to `last.safetensors`, and log both."""
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
        lines = path.read_text("utf-8") if path.exists() else ""
    except (OSError, ValueError):
        lines = "damaged"
    if not lines.startswith(_lines(state.history)):
        logger.warning(f"{path} was altered or damaged; it is written again from the checkpoint")
    if state.history:
        write_metrics(folder, state.history)


def _lines(history: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in history)
