"""Checkpoints: safetensors files of a training in progress, with the JSON state in the header."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pricekit.errors import TrainingError
from pricekit.support.files import write_atomically


@dataclass
class TrainingState:
    """The progress of a training: the JSON values of a checkpoint.

    Attributes:
        epoch: finished epochs.
        steps_in_epoch: optimizer steps of the current epoch.
        step: optimizer steps of all epochs.
        position: steps of the schedule; under a time budget more than `step`.
        best_smape: lowest validation SMAPE so far.
        best_epoch: the epoch with `best_smape`.
        seconds: training time, earlier processes of a resumed run included.
        loss: of the current epoch, summed over rows.
        rows: of the current epoch.
    """

    epoch: int = 0
    steps_in_epoch: int = 0
    step: int = 0
    position: float = 0.0
    best_smape: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    rows: int = 0


@dataclass(frozen=True)
class EpochResult:
    """The result of an epoch and its validation.

    Attributes:
        epoch: counted from 1.
        step: optimizer steps so far.
        loss: mean training loss of the epoch's rows.
        valid_smape: SMAPE on the validation rows, 0 to 200 percent.
    """

    epoch: int
    step: int
    loss: float
    valid_smape: float


LAST, BEST = "last.safetensors", "best.safetensors"
_MODEL, _OPTIMIZER, _EMA = "model.", "optimizer.", "ema."


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    state: Mapping[str, Any],
    ema: nn.Module | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Write a checkpoint atomically.

    Args:
        path: of the file.
        model: its parameters and buffers are written.
        optimizer: its state is written if it is given.
        state: JSON values.
        ema: moving average of the weights, written if it is given.
        scaler: the loss scaler, written if it is given.

    Raises:
        TrainingError: the file cannot be written; an earlier file stays unchanged.
    """
    tensors = _prefixed(_MODEL, model) | (_prefixed(_EMA, ema) if ema is not None else {})
    record: dict[str, Any] = {"state": dict(state), "scaler": scaler.state_dict() if scaler else {}}
    if optimizer is not None:
        moments, numbers = _flatten(optimizer.state_dict()["state"])
        tensors |= moments
        record["optimizer"] = numbers
        record["groups"] = [_numbers(group) for group in optimizer.param_groups]
    try:
        with write_atomically(path) as temporary:
            save_file(tensors, temporary, metadata={"pricekit": json.dumps(record)})
    except (OSError, SafetensorError) as error:
        cause = _system_error(error)
        reason = getattr(cause, "strerror", None) or cause
        raise TrainingError(
            f"the checkpoint {path} cannot be written: {reason}. Earlier checkpoints are kept: free space on that disk "
            "and resume, or train into a folder on another disk",
            parameters=("resume", "out"),
            path=str(path),
        ) from cause


def _system_error(error: Exception) -> Exception:
    """Convert safetensors' text error for a full disk to an OSError; return any other error unchanged."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return error if found is None else OSError(int(found[1]), os.strerror(int(found[1])))


def load_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    ema: nn.Module | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> dict[str, Any]:
    """Load a file of `save_checkpoint` into the given objects and return its JSON values.

    Raises:
        TrainingError: the file is missing or damaged, or its tensors do not match the objects.
    """
    try:
        with safe_open(path, framework="pt") as file:
            record = json.loads(file.metadata()["pricekit"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        model.load_state_dict(_under(tensors, _MODEL))
        if ema is not None:
            ema.load_state_dict(_under(tensors, _EMA))
        if scaler is not None and scaler.is_enabled() and record["scaler"]:
            scaler.load_state_dict(record["scaler"])
        if optimizer is not None:
            state = _unflatten(_under(tensors, _OPTIMIZER), record["optimizer"])
            groups = zip(optimizer.state_dict()["param_groups"], record["groups"], strict=True)
            optimizer.load_state_dict({"state": state, "param_groups": [g | saved for g, saved in groups]})
        return dict(record["state"])
    except FileNotFoundError:
        raise TrainingError(
            f"there is no checkpoint {path}; train into a new folder", parameters=("out",), path=str(path)
        ) from None
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise TrainingError(
            f"the checkpoint {path} is damaged or from another configuration: {error}; train into a new folder",
            parameters=("out",),
            path=str(path),
        ) from error


def _prefixed(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    return {prefix + name: t.detach().contiguous() for name, t in module.state_dict().items()}


def _numbers(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of a parameter group. The learning rate is omitted, because the schedule sets it."""
    kept = {key: value for key, value in group.items() if key not in ("params", "lr")}
    return {key: value for key, value in kept.items() if isinstance(value, int | float | str | list | tuple)}


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _flatten(state: Mapping[int, Mapping[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for index, values in state.items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{_OPTIMIZER}{index}.{key}"] = value.contiguous()
            else:
                numbers[f"{index}.{key}"] = value
    return tensors, numbers


def _unflatten(tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for name, value in [*tensors.items(), *numbers.items()]:
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    return state
