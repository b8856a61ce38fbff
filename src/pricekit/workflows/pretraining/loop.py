"""The loop of pretraining: that of transformers' Trainer, with checkpoints to go on from."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from pricekit.progress import Advance
from pricekit.tokens import Tokens, pad
from pricekit.training.batches import epoch_batches
from pricekit.training.machine import choose_precision, is_out_of_memory
from pricekit.training.processes import Processes
from pricekit.workflows.pretraining.start import Prepared, Pretraining

SAVE_SECONDS = 600.0
_WINDOW = 50
_WARMUP = 0.06
_NOTE_STEPS = 20


class Order:
    """The batches of each epoch, of texts of alike length: a function of seed and epoch alone."""

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        self.lengths = lengths
        self.training = TrainingConfig(batch_size=batch_size)
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Make the batches of an epoch, which all have equally many."""
        self.batches = epoch_batches(self.lengths, self.training, _WINDOW, self.seed, epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter([rows.tolist() for rows in self.batches])


class Rows(Dataset[int]):
    """The numbers of the texts."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> int:
        return row


class Watch(TrainerCallback):
    """Moves the bar on, saves now and then, and stops after the step in which an interrupt came."""

    def __init__(self, advance: Advance, asked: threading.Event) -> None:
        self.advance = advance
        self.asked = asked
        self.saved = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the step."""
        self.advance(1)
        control.should_training_stop |= self.asked.is_set()
        control.should_save |= self.asked.is_set() or time.monotonic() - self.saved > SAVE_SECONDS

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save what an epoch has taught, but for the last one's, which is published."""
        control.should_save |= not self.asked.is_set() and state.global_step < state.max_steps

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the time."""
        self.saved = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Show the loss of the last steps."""
        if "loss" in kwargs["logs"]:
            self.advance(0, f"loss {kwargs['logs']['loss']:.2f}")


class _Trainer(Trainer):
    """The Trainer, with batches of its own."""

    own_loader: DataLoader[int]

    def get_train_dataloader(self) -> Any:
        """Return the batches, those of one process where there are several."""
        return self.accelerator.prepare(self.own_loader)

    def _save_checkpoint(self, *args: Any) -> None:
        with told_if_unwritten(Path(str(self.args.output_dir))):
            super()._save_checkpoint(*args)


@contextmanager
def told_if_unwritten(folder: Path) -> Iterator[None]:
    """Turn what a full disk makes of writing weights into a TrainingError; torch and safetensors have errors of theirs.

    Args:
        folder: of the checkpoints.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        kept = "and go on with --resume" if last_checkpoint(folder) else "and pretrain again"
        raise TrainingError(f"{folder} cannot be written: {error}. Make room on that disk {kept}") from error


def last_checkpoint(work: Path) -> Path | None:
    """Return the last complete checkpoint, None where there is none."""
    whole = [path.parent for path in work.glob("checkpoint-*/trainer_state.json")]  # written last
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def steps_in(tokens: Tokens, settings: Pretraining) -> int:
    """Return the optimizer steps of all epochs."""
    return (settings.epochs or 1) * len(Order(tokens.lengths, settings.batch_size, settings.seed))


def fit_masked(start: Prepared, work: Path, checkpoint: Path | None, watch: Watch) -> bool:
    """Train the model; where `watch` is asked to, it ends early, after a checkpoint.

    AdamW with weight decay 0.01 but on biases and norms, 6% of the steps linear warmup, then linearly to zero.

    Args:
        start: model, tokens and settings.
        work: folder of the checkpoints.
        checkpoint: where to go on; None: at the start.
        watch: follows the steps.

    Returns:
        Whether it came to its end.
    """
    trainer = _Trainer(model=start.model, args=_arguments(start.settings, work), callbacks=[watch])
    trainer.remove_callback(PrinterCallback)
    trainer.own_loader = _loader(start)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return bool(trainer.state.global_step >= trainer.state.max_steps)


def _loader(start: Prepared) -> DataLoader[int]:
    def collated(rows: list[int]) -> dict[str, Tensor]:
        ids, mask = map(torch.from_numpy, pad(start.train, np.array(rows), start.pad_id))
        return {"input_ids": ids, "attention_mask": mask}

    order: Any = Order(start.train.lengths, start.settings.batch_size, start.settings.seed)
    return DataLoader(Rows(len(start.train)), batch_sampler=order, collate_fn=collated)


def _arguments(settings: Pretraining, work: Path) -> TrainingArguments:
    device = Processes().device
    precision = choose_precision(SpeedConfig(), device)
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
        save_strategy="no",  # Watch says when
        save_total_limit=1,
        disable_tqdm=True,
        report_to="none",
    )
