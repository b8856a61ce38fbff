"""The training loop: flat, one optimizer step after the other."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pricekit.config import TrainingConfig
from pricekit.core.contracts import Policy
from pricekit.errors import TrainingError
from pricekit.files import write_text
from pricekit.metrics import smape
from pricekit.screen import Advance, progress, say
from pricekit.training.batches import accumulated, epoch_batches
from pricekit.training.checkpoint import BEST, LAST, load_checkpoint, save_checkpoint
from pricekit.training.engine import predict, to_tensors
from pricekit.training.examples import Examples
from pricekit.training.model import PriceModel

_DIVERGED = (
    "the loss or a predicted price is not finite; lower training.learning_rate, or set "
    "training.max_grad_norm=1.0. The checkpoints of the earlier epochs are kept"
)


@dataclass
class TrainingState:
    """Where training stands: what a checkpoint holds beside tensors."""

    epoch: int = 0
    step: int = 0
    best_smape: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0


def fit(
    model: PriceModel,
    policy: Policy,
    config: TrainingConfig,
    train: Examples,
    valid: Examples,
    folder: Path,
    *,
    seed: int,
    resume: bool = False,
) -> TrainingState:
    """Train until the last epoch or until patience runs out; leaves the best weights in the model.

    After each epoch `folder` holds `last.safetensors` (to resume from), `best.safetensors` (lowest
    validation SMAPE) and one more line in `metrics.jsonl`. With `resume` it goes on after the last
    epoch that was finished.

    Raises:
        TrainingError: the loss is not finite, or there is nothing to resume from.
    """
    optimizer = policy.optimizer(model, config)
    base_rates = [group["lr"] for group in optimizer.param_groups]
    steps_per_epoch = math.ceil(
        len(epoch_batches(train.inputs.tokens.lengths, config.batch_size, seed, 0))
        / config.gradient_accumulation_steps
    )
    warmup_steps = round(config.warmup_epochs * steps_per_epoch)
    total_steps = config.epochs * steps_per_epoch
    at = TrainingState()
    last, best = folder / LAST, folder / BEST
    if resume:
        at = TrainingState(**load_checkpoint(last, model, optimizer))
    else:
        save_checkpoint(last, model, optimizer, asdict(at))

    while at.epoch < config.epochs and not _out_of_patience(at, config):
        started = time.perf_counter()
        # Dropout of an epoch depends on the seed and the epoch alone, so that a resumed run repeats it.
        torch.manual_seed(seed * 1_000_003 + at.epoch)
        batches = epoch_batches(train.inputs.tokens.lengths, config.batch_size, seed, at.epoch)
        total_loss, seen = 0.0, 0
        model.train()
        with progress(f"epoch {at.epoch + 1}/{config.epochs}", len(train.price)) as advance:
            for group in accumulated(batches, config.gradient_accumulation_steps):
                for rate, parameters in zip(base_rates, optimizer.param_groups, strict=True):
                    parameters["lr"] = rate * policy.schedule(at.step, warmup_steps, total_steps)
                total_loss += _step(model, optimizer, config, train, group)
                at.step += 1
                seen += sum(map(len, group))
                _show(advance, group, total_loss / seen, seen, time.perf_counter() - started)
        train_seconds = time.perf_counter() - started
        prices = predict(model, valid.inputs, config.eval_batch_size)
        if not np.isfinite(prices).all():
            raise TrainingError(_DIVERGED)
        found = smape(prices, valid.price)
        at.epoch += 1
        at.seconds += time.perf_counter() - started
        if found < at.best_smape:
            at.best_smape, at.best_epoch = found, at.epoch
            save_checkpoint(best, model, None, asdict(at))
        record = {
            "epoch": at.epoch,
            "step": at.step,
            "loss": total_loss / seen,
            "valid_smape": found,
            "learning_rate": optimizer.param_groups[0]["lr"],
            "rows_per_second": seen / train_seconds,
            "seconds": at.seconds,
        }
        _append_line(folder / "metrics.jsonl", record, first=at.epoch == 1)
        # Last: a run killed before this line repeats the epoch, and overwrites its line.
        save_checkpoint(last, model, optimizer, asdict(at))
        say(
            f"epoch {at.epoch:>3}  loss {total_loss / seen:.4f}  validation SMAPE {found:.2f}"
            f"{'  best' if at.best_epoch == at.epoch else ''}  {seen / train_seconds:,.0f} rows/s"
        )
    load_checkpoint(best, model)
    return at


def _step(
    model: PriceModel,
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    train: Examples,
    group: tuple[np.ndarray, ...],
) -> float:
    """Take one optimizer step over a group of batches; return the sum of their rows' losses."""
    rows_of_step = sum(map(len, group))
    total = 0.0
    for rows in group:
        price = torch.from_numpy(train.price[rows].astype(np.float32))
        # Weighted by rows, so that a last, smaller batch or group counts for what it is.
        loss = model.training_loss(**to_tensors(train.inputs.batch(rows)), price=price)
        (loss * (len(rows) / rows_of_step)).backward()  # type: ignore[no-untyped-call]
        total += loss.item() * len(rows)
    if not math.isfinite(total):
        raise TrainingError(_DIVERGED)
    if config.max_grad_norm is not None:
        clip_gradients([p.grad for p in model.parameters() if p.grad is not None], config.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def clip_gradients(gradients: list[Tensor], max_norm: float) -> None:
    """Scale dense and sparse gradients together so that their joint norm is at most `max_norm`."""
    dense = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    norm = torch.nn.utils.get_total_norm(dense)
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)


def _out_of_patience(at: TrainingState, config: TrainingConfig) -> bool:
    return config.patience is not None and at.epoch - at.best_epoch >= config.patience


def _show(advance: Advance, group: tuple[np.ndarray, ...], loss: float, seen: int, seconds: float) -> None:
    advance(sum(map(len, group)), f"loss {loss:.4f}  {seen / max(seconds, 1e-9):,.0f} rows/s")


def _append_line(path: Path, record: dict[str, Any], *, first: bool) -> None:
    """Add one JSON line; lines of an epoch that is being repeated after a kill are dropped."""
    kept = []
    if path.exists() and not first:
        lines = path.read_text("utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["epoch"] < record["epoch"]]
    write_text(path, "\n".join([*kept, json.dumps(record)]) + "\n")
