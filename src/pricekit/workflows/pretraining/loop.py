"""The training loop of pretraining: transformers' Trainer, with checkpoints to resume from."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from pricekit.config import SpeedConfig, TrainingConfig
from pricekit.errors import TrainingError
from pricekit.model.encoder import FLOAT32_ONLY
from pricekit.model.inference import is_out_of_memory
from pricekit.support.files import temporary_path
from pricekit.support.progress import Advance
from pricekit.tokens import Tokens, pad_rows
from pricekit.training.batches import epoch_batches
from pricekit.training.machine import choose_precision
from pricekit.training.parallel import Processes
from pricekit.workflows.pretraining.start import PretrainJob, PretrainSettings

SAVE_SECONDS = 600.0
_WINDOW = 50
_WARMUP = 0.06
_NOTE_STEPS = 20
_PROBE_BYTES = 1 << 20


class BatchOrder:
    """The batches of each epoch, with texts of similar length. They depend only on the seed and the epoch."""

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        self.lengths = lengths
        self.training = TrainingConfig(batch_size=batch_size)
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Create the batches of an epoch; all epochs have the same number."""
        self.batches = epoch_batches(self.lengths, self.training, _WINDOW, self.seed, epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter([rows.tolist() for rows in self.batches])


class RowNumbers(Dataset[int]):
    """A dataset of row numbers: the loader collates them into batches."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> int:
        return row


class PretrainCallback(TrainerCallback):
    """Advances the progress bar, saves checkpoints, and stops after the step in which an interrupt arrived."""

    def __init__(self, advance: Advance, interrupted: threading.Event) -> None:
        self.advance = advance
        self.interrupted = interrupted
        self.saved = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the step."""
        self.advance(1)
        control.should_training_stop |= self.interrupted.is_set()
        control.should_save |= self.interrupted.is_set() or time.monotonic() - self.saved > SAVE_SECONDS

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save a checkpoint, except after the last epoch, whose weights are published."""
        control.should_save |= not self.interrupted.is_set() and state.global_step < state.max_steps

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remember when the checkpoint was saved."""
        self.saved = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Show the loss of the latest steps."""
        if "loss" in kwargs["logs"]:
            self.advance(0, f"loss {kwargs['logs']['loss']:.2f}")


class _Trainer(Trainer):
    """The Trainer with pricekit's loader and errors."""

    own_loader: DataLoader[int]

    def get_train_dataloader(self) -> Any:
        """Return the batches; each of several processes gets its part."""
        return self.accelerator.prepare(self.own_loader)

    def _save_checkpoint(self, *args: Any) -> None:
        with explain_write_errors(Path(str(self.args.output_dir))):
            super()._save_checkpoint(*args)


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Raise TrainingError when weights cannot be written, such as on a full disk, whatever error the library raises.

    Args:
        folder: of the checkpoints.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        cause = _refused(folder) if isinstance(error, RuntimeError) else None
        resumable = last_checkpoint(folder) is not None
        advice = "resume from the last checkpoint" if resumable else "pretrain again"
        raise TrainingError(
            f"{folder} cannot be written: {cause.strerror if cause else error}. Free space on that disk and {advice}",
            parameters=("resume",) if resumable else (),
            path=str(folder),
        ) from (cause or error)


def _refused(folder: Path) -> OSError | None:
    """Return the system's error if a file cannot be written to a folder: torch.save does not name it."""
    file = temporary_path(folder / "probe")
    try:
        with file.open("wb") as stream:
            stream.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return error
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)
    return None


def last_checkpoint(work: Path) -> Path | None:
    """Return the last complete checkpoint; None if there is none."""
    complete = [
        path.parent for path in work.glob("checkpoint-*/trainer_state.json")
    ]  # Trainer writes it last
    return max(complete, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def count_steps(tokens: Tokens, settings: PretrainSettings) -> int:
    """Return the number of optimizer steps of all epochs."""
    return (settings.epochs or 1) * len(BatchOrder(tokens.lengths, settings.batch_size, settings.seed))


def fit_masked(job: PretrainJob, work: Path, checkpoint: Path | None, callback: PretrainCallback) -> bool:
    """Train the model; after an interrupt, stop with a checkpoint.

    AdamW with weight decay 0.01 except on biases and norms; linear warmup over 6% of the steps, then linear decay to
    zero.

    Args:
        job: model, tokens and settings.
        work: the folder of the checkpoints.
        checkpoint: the checkpoint to resume from; None starts from the beginning.
        callback: follows the steps.

    Returns:
        Whether all steps are done.
    """
    trainer = _Trainer(model=job.model, args=_arguments(job, work), callbacks=[callback])
    trainer.remove_callback(PrinterCallback)
    trainer.own_loader = _loader(job)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return bool(trainer.state.global_step >= trainer.state.max_steps)


def _loader(job: PretrainJob) -> DataLoader[int]:
    def collate(rows: list[int]) -> dict[str, Tensor]:
        ids, mask = map(torch.from_numpy, pad_rows(job.train, np.array(rows), job.pad_id))
        return {"input_ids": ids, "attention_mask": mask}

    order: Any = BatchOrder(job.train.lengths, job.settings.batch_size, job.settings.seed)
    return DataLoader(RowNumbers(len(job.train)), batch_sampler=order, collate_fn=collate)


def _arguments(job: PretrainJob, work: Path) -> TrainingArguments:
    settings, device = job.settings, Processes().device
    halved = job.model.config.model_type not in FLOAT32_ONLY
    precision = choose_precision(SpeedConfig(), device) if halved else "fp32"
    return TrainingArguments(
        output_dir=str(work),
        num_train_epochs=settings.epochs or 1,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate or 0.0,
        weight_decay=0.01,
        warmup_steps=_WARMUP,
        lr_scheduler_type="linear",
        seed=settings.seed,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        use_cpu=device.type == "cpu",
        remove_unused_columns=False,
        logging_steps=_NOTE_STEPS,
        save_strategy="no",  # PretrainCallback decides
        save_total_limit=1,
        disable_tqdm=True,
        report_to="none",
    )
