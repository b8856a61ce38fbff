"""The training loops that pricekit is compared with: same weights, same rows, same effective batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from pricekit.config import build_config
from pricekit.errors import ConfigError
from pricekit.nets.network import PriceModel
from pricekit.training.batches import plan_epoch
from pricekit.training.loop import prepare_encoder
from pricekit.training.optimizers import sparse_embeddings
from pricekit.training.step import Objective
from speed.timing import Run, synchronize
from speed.workload import LEARNING_RATE, Workload, fresh_model


def seed_loop(workload: Workload, precision: str, device: torch.device) -> Run:
    """The published systems' loop: it tokenises each text when it fetches it, and pads it to the full length.

    Random order, one batch after the other, plain AdamW, the loss read after each batch; fp16 with a
    scaler on a GPU, float32 on a CPU.
    """
    del precision
    model = prepared_model(workload, compiled=False).to(device)
    training = workload.config.training
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=training.weight_decay)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    objective = Objective(model, "fp16" if device.type == "cuda" else "fp32", device)
    loader = DataLoader(TokenisedWhenFetched(workload), batch_size=training.batch_size, shuffle=True)

    def run() -> None:
        model.train()
        optimizer.zero_grad()
        for number, batch in enumerate(loader, 1):
            loss = objective({name: tensor.to(device) for name, tensor in batch.items()})
            scaler.scale(loss / training.gradient_accumulation_steps).backward()
            loss.item()
            if number % training.gradient_accumulation_steps == 0 or number == len(loader):
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()

    return run


class TokenisedWhenFetched(Dataset[dict[str, Tensor]]):
    """One text at a time, tokenised and padded to the full length."""

    def __init__(self, workload: Workload) -> None:
        self.texts = workload.preprocessor.texts(workload.table)
        self.features = workload.examples.inputs.features
        self.price = workload.examples.price.astype(np.float32)
        pad_id, length = workload.preprocessor.pad_id, workload.config.max_length
        self.tokenizer = Tokenizer.from_str(workload.preprocessor.tokenizer.to_str())
        self.tokenizer.enable_truncation(length)
        token = self.tokenizer.id_to_token(pad_id)
        self.tokenizer.enable_padding(pad_id=pad_id, pad_token=token, length=length)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        """Return one row."""
        found = self.tokenizer.encode(self.texts[row])
        return {
            "input_ids": torch.tensor(found.ids),
            "attention_mask": torch.tensor(found.attention_mask),
            "features": torch.from_numpy(self.features[row]),
            "price": torch.tensor(self.price[row]),
        }


def bare_loop(workload: Workload, precision: str, device: torch.device) -> Run:
    """Forward, backward and fused AdamW over pricekit's own batches, prepared in advance: torch alone."""
    model = prepared_model(workload, compiled=True).to(device)
    training = workload.config.training
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, weight_decay=training.weight_decay, fused=True
    )
    objective = Objective(model, precision, device)
    steps = [
        [_batch(workload, rows, device, workload.config.speed.length_multiple) for rows in step]
        for step in plan_epoch(workload.examples, workload.config, 0)
    ]

    def run() -> None:
        model.train()
        for step in steps:
            for batch in step:
                (objective(batch) / len(step)).backward()
            if training.max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), training.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()

    return run


def prepared_model(workload: Workload, *, compiled: bool) -> PriceModel:
    """Return a new model with the workload's weights, with gradient checkpointing where pricekit uses it."""
    config = workload.config
    if not compiled:
        config = build_config([config.model_dump(), {"speed": {"compile": False}}])
    model = fresh_model(workload)
    prepare_encoder(model, config)
    return model


def hf_trainer(workload: Workload, precision: str, device: torch.device, *, grouped: bool) -> Run:
    """Hugging Face's Trainer: texts tokenised in advance, each batch padded to its longest text.

    Only its epoch is timed, not the work of `Trainer.train` before the first step.
    """
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_callback import PrinterCallback

    class Watch(TrainerCallback):
        """Measures the seconds of the epoch."""

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            synchronize()
            self.began = time.perf_counter()

        def on_epoch_end(self, *_: Any, **__: Any) -> None:
            synchronize()
            self.seconds = time.perf_counter() - self.began

    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:  # Trainer requires a folder, but writes nothing
        trainer = Trainer(
            model=ForTrainer(prepared_model(workload, compiled=False)),
            args=_arguments(workload, precision, device, folder, grouped=grouped),
            train_dataset=TokenisedBefore(workload),
            data_collator=lambda items: _collated(workload, items),
            callbacks=[watch],
        )
    trainer.remove_callback(PrinterCallback)

    def run() -> float:
        trainer.train()
        return watch.seconds

    return run


def _arguments(
    workload: Workload, precision: str, device: torch.device, folder: str, *, grouped: bool
) -> Any:
    from transformers import TrainingArguments

    training = workload.config.training
    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=training.batch_size,
        gradient_accumulation_steps=training.gradient_accumulation_steps,
        num_train_epochs=1,
        learning_rate=LEARNING_RATE,
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm or 0.0,
        train_sampling_strategy="group_by_length" if grouped else "random",
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        use_cpu=device.type == "cpu",
        remove_unused_columns=False,
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
    )


class ForTrainer(nn.Module):
    """The model with the interface that Trainer expects."""

    def __init__(self, model: PriceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        """Return the loss."""
        return {"loss": self.model.training_loss(**batch)}


class TokenisedBefore(Dataset[dict[str, Any]]):
    """Row numbers, with the tokens from which Trainer takes the lengths."""

    def __init__(self, workload: Workload) -> None:
        tokens = workload.examples.inputs.tokens
        pairs = zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True)
        self.ids = [tokens.ids[start:end].tolist() for start, end in pairs]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return one row."""
        return {"input_ids": self.ids[row], "row": row}


def check_peers(workload: Workload, peers: Sequence[str]) -> None:
    """Raise ConfigError if a peer cannot train the workload's model."""
    counted = [name for name in peers if name != "bare"]
    if counted and workload.config.training.batch_tokens is not None:
        raise ConfigError(
            f"the peer '{counted[0]}' needs a fixed number of rows per batch, but training.batch_tokens is set; "
            "remove one of them"
        )
    if peers and sparse_embeddings(workload.model):
        raise ConfigError(
            f"the backbone '{workload.config.backbone.name}' has embeddings with sparse gradients, which the AdamW of "
            f"the peer '{peers[0]}' does not support; choose another backbone, such as distilroberta with random "
            "weights, or remove the peer"
        )


def _collated(workload: Workload, items: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    return _batch(workload, np.array([item["row"] for item in items]), torch.device("cpu"))


def _batch(
    workload: Workload, rows: np.ndarray, device: torch.device, multiple_of: int = 1
) -> dict[str, Tensor]:
    config = workload.config
    arrays = dict(workload.examples.inputs.batch(rows, multiple_of, config.max_length))
    arrays["price"] = workload.examples.price[rows].astype(np.float32)
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


PEERS: dict[str, tuple[str, Callable[[Workload, str, torch.device], Run]]] = {
    "seed": ("the published systems' loop", seed_loop),
    "hf": ("HF Trainer, random order", lambda w, p, d: hf_trainer(w, p, d, grouped=False)),
    "hf-grouped": ("HF Trainer, group_by_length", lambda w, p, d: hf_trainer(w, p, d, grouped=True)),
    "bare": ("torch alone, same batches", bare_loop),
}
"""The description and the factory of each peer. All share loss, model and rows."""
