"""How far a training is, and the result of an epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class TrainingState:
    """How far a training is: the JSON values of a checkpoint.

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
    """What validation found after an epoch.

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
