"""Masked-language pretraining: from texts, with or without prices, to weights for training.

`pretrain` is the whole workflow: it reads the texts, prepares tokens and a model, trains with transformers' Trainer and
publishes a folder. `masked_tokens.py` masks tokens, and measures the loss of predicting them.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from tokenizers import AddedToken, Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from pricekit import __version__
from pricekit.config import SpeedConfig, TrainingConfig, merge
from pricekit.core.calls import plugin_call
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError, PricekitError, TrainingError
from pricekit.features.preprocess import short_lines_first
from pricekit.io.causes import lacks_memory
from pricekit.io.digests import write_listed
from pricekit.io.files import read_json, sync, temporary_path, write_json, write_text
from pricekit.io.interrupts import defer_interrupts
from pricekit.io.log import logger
from pricekit.io.progress import Advance, progress
from pricekit.io.record import Mode, advance_to, check_output, read_intact
from pricekit.nets.encoder import FLOAT32_ONLY
from pricekit.nets.pretrained import PRETRAINED, quiet_transformers
from pricekit.options import names_of, option_layer, settings_layers
from pricekit.runs.folder import Folder, to_resume, writing
from pricekit.runs.prepare import check_length
from pricekit.table import DEFAULT_READ_OPTIONS, Columns, ReadOptions, TableSource, iter_table, source_name
from pricekit.text.tokens import Tokens, batches_by_length, encode, pad_id_of, pad_rows
from pricekit.training.batches import epoch_batches
from pricekit.training.machine import choose_precision
from pricekit.training.parallel import Processes

SELECTED, MASKED, REPLACED = 0.15, 0.8, 0.1
_MASKS = ("[MASK]", "<mask>")
_ROWS = 64


@dataclass(frozen=True)
class Masking:
    """The masking for a tokenizer.

    Attributes:
        mask_id: id of the mask token.
        ordinary: bool (V,), tokens that may be masked: all except special tokens and padding.
    """

    mask_id: int
    ordinary: Tensor

    def apply(self, input_ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Mask tokens of a batch, at least one in each text that has an ordinary token.

        Args:
            input_ids: int64 (B, L).
            generator: of the random draws; None uses torch's generator of the device.

        Returns:
            The batch with masked tokens, int64 (B, L), and the selected tokens, bool (B, L).
        """

        def draw() -> Tensor:
            return torch.rand(input_ids.shape, generator=generator, device=input_ids.device)

        ordinary = self.ordinary.to(input_ids.device)
        eligible, replacements = ordinary[input_ids], ordinary.nonzero()[:, 0]
        score = draw().masked_fill(~eligible, 1.0)
        selected = ((score < SELECTED) | (score == score.amin(1, keepdim=True))) & eligible
        action, other = draw(), replacements[(draw() * len(replacements)).long()]
        masked = torch.where(selected & (action < MASKED + REPLACED), other, input_ids)
        return torch.where(selected & (action < MASKED), self.mask_id, masked), selected


def make_masking(tokenizer: Tokenizer) -> Masking:
    """Return the masking for a tokenizer; adds a mask token with a new id if it has none."""
    known = [token for token in _MASKS if tokenizer.token_to_id(token) is not None]
    if not known:
        tokenizer.add_special_tokens([AddedToken(_MASKS[0], special=True)])
    mask_id = tokenizer.get_vocab()[(known or _MASKS)[0]]
    added = tokenizer.get_added_tokens_decoder().items()
    special = [mask_id, pad_id_of(tokenizer), *(number for number, token in added if token.special)]
    ordinary = torch.ones(max(tokenizer.get_vocab().values()) + 1, dtype=torch.bool)
    ordinary[special] = False
    return Masking(mask_id, ordinary)


def attach_masking(model: Any, masking: Masking, tokens: Tokens) -> None:
    """Let a ForMaskedLM model of transformers mask its input: `model(input_ids, attention_mask)["loss"]`.

    Embeddings are added for tokens that the model does not have. A new head starts with the frequencies of the
    tokens.

    Args:
        model: changed in place.
        masking: of its tokenizer.
        tokens: of the training texts.
    """
    size = len(masking.ordinary)
    if size > model.config.vocab_size:
        model.resize_token_embeddings(size, mean_resizing=False)
    bias = model.get_output_embeddings().bias
    if not bias.any():
        count = torch.from_numpy(np.bincount(tokens.ids, minlength=len(bias)))
        with torch.no_grad():
            bias.copy_(((count + 1) / (count + 1).sum()).log())

    def forward(self: Any, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        masked, selected = masking.apply(input_ids)
        total = total_loss(self, masked, attention_mask, input_ids, selected)
        return {"loss": total / selected.sum().clamp(min=1)}

    model.forward = MethodType(forward, model)


def total_loss(
    model: Any, masked: Tensor, attention_mask: Tensor, input_ids: Tensor, selected: Tensor
) -> Tensor:
    """Return the summed cross-entropy of the selected tokens, in nats: a scalar.

    Args:
        model: a ForMaskedLM model of transformers.
        masked: int64 (B, L), the batch with masked tokens.
        attention_mask: int64 (B, L).
        input_ids: int64 (B, L), the original batch.
        selected: bool (B, L), the tokens to predict.
    """
    states = model.base_model(input_ids=masked, attention_mask=attention_mask).last_hidden_state
    head = model.cls if hasattr(model, "cls") else model.lm_head  # BERT and DeBERTa; RoBERTa
    return cross_entropy(head(states[selected]).float(), input_ids[selected], reduction="sum")


MIN_TEXTS = 10
HELD_OUT, MOST_HELD_OUT = 0.05, 2000
_FROM_SCRATCH, _PRETRAINED = (10, 1e-3), (3, 1e-4)
"""Epochs and learning rate."""

SAVE_SECONDS = 600.0
_WINDOW = 50
_WARMUP = 0.06
_NOTE_STEPS = 20
_PROBE_BYTES = 1 << 20

_START, _CHECKPOINTS = "start.json", "checkpoints"
_SAVED = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class PretrainSettings:
    """The backbone to pretrain, and the settings of the pretraining.

    Attributes:
        backbone: name of the backbone.
        options: of the backbone.
        text: the text columns.
        max_length: maximum number of tokens per text; longer texts are truncated.
        facts_first: move short lines to the front, as the setting `facts_first` does in training.
        epochs: number of epochs; None is 3, or 10 for randomly initialised weights.
        batch_size: number of texts per optimizer step.
        learning_rate: peak of the schedule; None is 1e-4, or 1e-3 for randomly initialised weights.
        seed: of the held-out texts, their order, the masks, and random weights.
        limit: number of rows to read from each table; None reads all.
    """

    backbone: str
    options: dict[str, Any] = field(default_factory=dict)
    text: tuple[str, ...] = Columns().text
    max_length: int = 128
    facts_first: bool = False
    epochs: int | None = None
    batch_size: int = 32
    learning_rate: float | None = None
    seed: int = 0
    limit: int | None = None


def pretraining_of(options: Mapping[str, Any]) -> PretrainSettings:
    """Return the `PretrainSettings` for the options; raises ConfigError."""
    layer: dict[str, Any] = {}
    for more in settings_layers(options.get("settings")):
        layer = merge(layer, more)
    kinds = {"backbone": dict, "facts_first": bool}
    if wrong := [key for key, value in layer.items() if not isinstance(value, kinds.get(key, ()))]:
        raise ConfigError(
            "pretraining accepts settings of the backbone, such as backbone.layers=2, and facts_first=true; found "
            + wrong[0],
            parameters=("settings",),
        )
    weights = option_layer({name: options[name] for name in ("weights", "random_weights")})
    return PretrainSettings(
        options["backbone"],
        dict(layer.get("backbone", {})) | weights.get("backbone", {}),
        tuple(names_of(options["text"], "text")) or PretrainSettings.text,
        options["max_length"] or PretrainSettings.max_length,
        layer.get("facts_first", False),
        options["epochs"],
        options["batch_size"] or PretrainSettings.batch_size,
        options["learning_rate"],
        options["seed"] or PretrainSettings.seed,
        options["limit"],
    )


def pretrain(
    tables: Sequence[TableSource],
    settings: PretrainSettings,
    out: Path,
    mode: Mode = "new",
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> dict[str, Any]:
    """Train the encoder of a backbone to predict masked tokens.

    Args:
        tables: files or frames; equal texts count once.
        settings: the backbone and the training.
        out: the folder.
        mode: as for `pricekit.runs.train.train`; nothing is done if a finished pretraining is resumed.
        read_options: how to read the tables; options that are not set are detected.

    Returns:
        The content of `pretrain.json`: tables, counts, settings, loss before and after in nats, seconds.

    Raises:
        DataError: a table cannot be read, or there are too few texts.
        ConfigError, PluginError: a setting is invalid, or the backbone cannot be pretrained.
        TrainingError: `out` exists or is being written, training failed, or the checkpoint belongs to another
            pretraining.
        KeyboardInterrupt: training was interrupted; a checkpoint was saved.
    """
    started, backbone = time.perf_counter(), create_backbone(settings)  # fails before the tables are read
    settings = with_defaults(backbone, settings)
    if Processes().count > 1:
        raise ConfigError("pretraining uses one process; start it without a launcher such as torchrun")
    to_resume(out, mode, "pretraining")
    with writing(out, "pretraining", mode, shown=True) as folder:
        work = folder.path
        if folder.state.name == "finished":
            facts = read_intact(work, PRETRAINED)
            if facts["settings"] != json.loads(json.dumps(asdict(settings))):
                check_output(out, "pretraining", "new")  # refuses
            logger.info(f"the pretraining {out} is finished already")
            _delete_work(work)  # a killed process may have left it
            return facts
        with progress("preparing", 2) as advance:
            rows, texts = read_texts(tables, settings, read_options)
            advance(1, "tokenising")
            job = prepare_job(backbone, settings, texts, Processes().device)
            advance(1)
        facts = {"tables": list(map(source_name, tables)), "rows": rows} | job.facts()
        facts |= {"pricekit": __version__, "loss_before": _loss_before(job, folder)}
        _fit(job, work)
        facts |= {"loss_after": job.loss(), "seconds": round(time.perf_counter() - started, 1)}
        _log_result(facts)
        _publish(job, work, facts)
        return facts


def _loss_before(job: PretrainJob, folder: Folder) -> float:
    """Return the held-out loss before the first step; a resumed pretraining has stored it."""
    start = folder.path / _START
    if not folder.resumed:
        folder.begin()
        write_json(start, {"digest": job.digest(), "loss_before": job.loss()})
    stored = read_json(start)
    if stored["digest"] != job.digest():
        raise TrainingError(
            "the texts or the settings differ from those of the unfinished pretraining; resume it with the same ones, "
            "or overwrite it",
            parameters=("resume", "overwrite"),
        )
    return float(stored["loss_before"])


def _fit(job: PretrainJob, work: Path) -> None:
    """Train from the last checkpoint or from the beginning; an interrupt saves a checkpoint.

    AdamW with weight decay 0.01 except on biases and norms; linear warmup over 6% of the steps, then linear decay to
    zero.
    """
    settings, checkpoint = job.settings, last_checkpoint(work)
    order: Any = BatchOrder(job.train.lengths, settings.batch_size, settings.seed)
    rows: Any = range(len(job.train))

    def collate(rows: list[int]) -> dict[str, Tensor]:
        ids, mask = map(torch.from_numpy, pad_rows(job.train, np.array(rows), job.pad_id))
        return {"input_ids": ids, "attention_mask": mask}

    with (
        quiet_transformers(),
        defer_interrupts() as interrupted,
        progress("pretraining", (settings.epochs or 1) * len(order), _step_of(checkpoint)) as advance,
    ):
        try:
            callback = PretrainCallback(advance, interrupted)
            trainer = _Trainer(model=job.model, args=_arguments(job, work), callbacks=[callback])
            trainer.remove_callback(PrinterCallback)
            trainer.own_loader = DataLoader(rows, batch_sampler=order, collate_fn=collate)
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            raise TrainingError(
                f"out of memory with {settings.batch_size} texts of up to {settings.max_length} tokens; use a "
                "smaller batch size or maximum length",
                parameters=("batch_size", "max_length"),
            ) from None
    if trainer.state.global_step < trainer.state.max_steps:
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


def _publish(job: PretrainJob, work: Path, facts: dict[str, Any]) -> None:
    """Write the weights and what describes them, and delete what only the training needed."""
    with quiet_transformers(), explain_write_errors(work):
        job.model.save_pretrained(work)
        for name in _SAVED:
            sync(work / name)
    write_text(work / "tokenizer.json", job.tokenizer.to_str(pretty=True))
    write_listed(work, PRETRAINED, facts, [*_SAVED, "tokenizer.json"])
    advance_to(work, "finished")
    _delete_work(work)


def _delete_work(work: Path) -> None:
    """Delete what only the training needs."""
    (work / _START).unlink(missing_ok=True)
    shutil.rmtree(work / _CHECKPOINTS, ignore_errors=True)


@dataclass(frozen=True)
class PretrainJob:
    """A model with its training and held-out tokens.

    Attributes:
        settings: with all defaults filled in.
        tokenizer: with a mask token.
        masking: of the tokenizer.
        model: a ForMaskedLM model that returns its loss.
        train: tokens to train on.
        held_out: tokens to measure the loss on.
    """

    settings: PretrainSettings
    tokenizer: Tokenizer
    masking: Masking
    model: Any
    train: Tokens
    held_out: Tokens

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return pad_id_of(self.tokenizer)

    def loss(self) -> float:
        """Return the mean cross-entropy of masked tokens of the held-out texts, in nats; calls mask the same tokens."""
        model, tokens = self.model, self.held_out
        generator = torch.Generator().manual_seed(self.settings.seed)
        total, count = 0.0, 0
        was, device = model.training, next(model.parameters()).device
        model.eval()
        with torch.inference_mode(), progress("measuring the held-out loss", len(tokens)) as advance:
            for rows in batches_by_length(tokens.lengths, np.arange(len(tokens)), _ROWS):
                ids, mask = map(torch.from_numpy, pad_rows(tokens, rows, self.pad_id))
                masked, selected = self.masking.apply(ids, generator)
                batch = (tensor.to(device) for tensor in (masked, mask, ids, selected))
                total += float(total_loss(model, *batch))
                count += int(selected.sum())
                advance(len(rows))
        model.train(was)
        return total / max(count, 1)

    def digest(self) -> str:
        """Return a hash of the settings and tokens."""
        whole = hashlib.sha256(json.dumps(asdict(self.settings), default=str).encode())
        for part in (self.train, self.held_out):
            whole.update(part.ids.tobytes() + part.offsets.tobytes())
        return whole.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return the counts of texts and tokens, and the settings."""
        held_out = len(self.held_out)
        counts = {"texts": len(self.train) + held_out, "held_out": held_out, "tokens": len(self.train.ids)}
        return counts | {"settings": asdict(self.settings)}


def read_texts(
    tables: Sequence[TableSource], settings: PretrainSettings, read_options: ReadOptions
) -> tuple[int, list[str]]:
    """Return the number of rows of the tables, and their distinct texts in order.

    Raises:
        DataError: a table cannot be read, or there are too few distinct texts.
    """
    columns = Columns(settings.text, None, None)
    rows, texts = 0, dict[str, None]()
    for table in tables:
        for part in iter_table(table, columns, limit=settings.limit, read_options=read_options):
            rows += len(part)
            texts |= dict.fromkeys(part.text[part.text.str.strip() != ""])
    if len(texts) < MIN_TEXTS:
        raise DataError(
            f"there are {len(texts):,} distinct texts in {rows:,} rows; pretraining needs at least {MIN_TEXTS}, and "
            "pays off from several thousand. Choose other text columns, or add tables",
            parameters=("text",),
            texts=len(texts),
            rows=rows,
        )
    logger.info(f"{len(texts):,} distinct texts in {rows:,} rows")
    return rows, list(texts)


def create_backbone(settings: PretrainSettings) -> Any:
    """Create the backbone.

    Raises:
        ConfigError: it cannot be pretrained, or accepts fewer tokens.
        PluginError: there is no backbone of this name.
    """
    made = registry().create("backbone", settings.backbone, settings.options)
    if not hasattr(made, "masked_language_model"):
        able = _pretrainable()
        raise ConfigError(
            f"the backbone '{settings.backbone}' cannot be pretrained; these can: {', '.join(able)}",
            parameters=("backbone",),
            backbone=settings.backbone,
            candidates=able,
        )
    check_length(made, settings.backbone, settings.max_length)
    return made


def _pretrainable() -> list[str]:
    """Return the names of the backbones that can be pretrained."""
    names = []
    for entry in registry().of_kind("backbone"):
        try:
            made = registry().create("backbone", entry.name)
        except PricekitError:  # a backbone that cannot be created cannot be pretrained
            continue
        if hasattr(made, "masked_language_model"):
            names.append(entry.name)
    return names


def with_defaults(backbone: Any, settings: PretrainSettings) -> PretrainSettings:
    """Return the settings with a value for each one that is not given."""
    epochs, rate = _FROM_SCRATCH if getattr(backbone, "from_scratch", False) else _PRETRAINED
    return replace(
        settings,
        options=registry().resolve("backbone", settings.backbone, settings.options),
        epochs=settings.epochs or epochs,
        learning_rate=settings.learning_rate or rate,
    )


def prepare_job(
    backbone: Any, settings: PretrainSettings, texts: list[str], device: torch.device
) -> PretrainJob:
    """Create the tokenizer, the tokens and the model, and hold out a part of the texts.

    Raises:
        ConfigError: the backbone's weights cannot be loaded.
        PluginError: its tokenizer cannot be created.
    """
    with plugin_call("backbone", settings.backbone, "making its tokenizer"):
        tokenizer = backbone.tokenizer(texts)
    masking = make_masking(tokenizer)
    if settings.facts_first:
        texts = [short_lines_first(text) for text in texts]
    tokens = encode(tokenizer, texts, settings.max_length, pad_id_of(tokenizer))
    order = np.random.default_rng(settings.seed).permutation(len(texts))
    count = max(1, min(MOST_HELD_OUT, round(HELD_OUT * len(texts))))
    train = tokens.take(order[count:])
    torch.manual_seed(settings.seed)
    model = backbone.masked_language_model(backbone.architecture(tokenizer))
    attach_masking(model, masking, train)
    return PretrainJob(settings, tokenizer, masking, model.to(device), train, tokens.take(order[:count]))


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
        work = Path(str(self.args.output_dir)).parent
        with explain_write_errors(work):
            super()._save_checkpoint(*args)
            advance_to(work, "unfinished")


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Raise TrainingError when weights cannot be written, such as on a full disk, whatever error the library raises.

    Args:
        folder: of the pretraining.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if lacks_memory(error):
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
    written_last = work.glob(f"{_CHECKPOINTS}/checkpoint-*/trainer_state.json")
    return max((file.parent for file in written_last), key=_step_of, default=None)


def _step_of(checkpoint: Path | None) -> int:
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0


def _arguments(job: PretrainJob, work: Path) -> TrainingArguments:
    settings, device = job.settings, Processes().device
    halved = job.model.config.model_type not in FLOAT32_ONLY
    precision = choose_precision(SpeedConfig(), device) if halved else "fp32"
    return TrainingArguments(
        output_dir=str(work / _CHECKPOINTS),  # of which transformers deletes the oldest
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
