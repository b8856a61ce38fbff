"""The settings of a run: typed, with defaults and descriptions."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def parse_duration(given: Any) -> Any:
    """Turn `2h`, `90m`, `1h30m` or `45s` into seconds; numbers pass; raises ValueError."""
    if not isinstance(given, str):
        return given
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", given.strip())
    if not found or not any(found.groups()):
        raise ValueError("expected a time such as 2h, 90m, 1h30m or a number of seconds")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds


def check_epochs(given: Any) -> Any:
    """Let whole numbers from 1 and `auto` pass; raises ValueError."""
    if given != "auto" and (type(given) is not int or given < 1):
        raise ValueError("expected a whole number, at least 1, or auto")
    return given


class Section(BaseModel):
    """A section of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", validate_default=True)


class Choice(BaseModel):
    """A plugin by name; every other key is one of its options, checked by the plugin's own model."""

    model_config = ConfigDict(extra="allow")
    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @property
    def options(self) -> dict[str, Any]:
        """The plugin's options as given."""
        return dict(self.model_extra or {})


class ColumnsConfig(Section):
    """Which columns of the table mean what; the defaults are those of the reference data."""

    text: list[str] = Field(["catalog_content"], min_length=1)
    price: str = "price"
    id: str | None = Field(None, description="None: sample_id where there is one, else the row number")


class HeadConfig(Section):
    """The layers between (encoding, features) and the raw output, without the last one of width 1."""

    widths: list[int] = Field([], description="width of each hidden layer; none is a linear head")
    dropout: list[float] = Field([], description="dropout after each hidden layer")
    norm: Literal["none", "batch", "layer"] = "layer"
    activation: Literal["relu", "gelu"] = "gelu"
    feature_bins: int = Field(
        0, ge=0, description="piecewise-linear parts of each feature, beside its standardised value"
    )

    @model_validator(mode="after")
    def _same_length(self) -> HeadConfig:
        if len(self.dropout) != len(self.widths):
            raise ValueError(
                f"head.dropout has {len(self.dropout)} values and head.widths {len(self.widths)}; "
                "expected one dropout for each width"
            )
        return self


AUTO_STEPS = 1000
AUTO_EPOCHS = 10, 40


class TrainingConfig(Section):
    """The numbers of the training loop; steps are optimizer steps."""

    epochs: Annotated[Annotated[int, Field(ge=1)] | Literal["auto"], BeforeValidator(check_epochs)] = Field(
        10,
        description=f"passes over the training rows at most; auto: {AUTO_EPOCHS[0]}, or as many as {AUTO_STEPS:,} "
        f"optimizer steps take, {AUTO_EPOCHS[1]} at most",
    )
    batch_size: int = Field(64, ge=1, description="rows of one forward pass (micro-batch)")
    batch_tokens: int | None = Field(
        None, ge=1, description="tokens of one forward pass, padding included, instead of batch_size"
    )
    gradient_accumulation_steps: int = Field(1, ge=1, description="micro-batches of one optimizer step")
    eval_batch_size: int = Field(256, ge=1, description="rows of one forward pass in validation")
    learning_rate: float = Field(1e-3, gt=0, description="at its peak")
    head_learning_rate: float | None = Field(None, gt=0, description="of the head; None: learning_rate")
    embedding_learning_rate: float | None = Field(
        None, gt=0, description="of the table of token embeddings; None: of its layer"
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="learning rate of each encoder layer, as a share of the one above it"
    )
    weight_decay: float = Field(0.0, ge=0)
    decay_biases_and_norms: bool = Field(False, description="let weight decay reach biases and norms, too")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of linear warmup")
    max_grad_norm: float | None = Field(None, gt=0, description="clip the gradient's norm to this")
    ema_decay: float | None = Field(
        None, gt=0, lt=1, description="validate and keep an exponential moving average of the weights"
    )
    patience: int | None = Field(
        None, ge=1, description="stop after this many epochs without a better validation SMAPE"
    )
    keep: Literal["best", "last"] = Field(
        "best",
        description="weights of the epoch with the lowest validation SMAPE, or of the last one, without patience",
    )
    save_steps: int | None = Field(None, ge=1, description="also write a checkpoint after so many steps")
    save_epochs: int = Field(1, ge=1, description="write a checkpoint after so many epochs")
    time_budget: Annotated[float | None, BeforeValidator(parse_duration)] = Field(
        None,
        gt=0,
        description="seconds, or such as 2h, that the run may take; the schedule is fitted into them",
    )


class SpeedConfig(Section):
    """How the machine is used: nothing here is meant to change what is learned."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "auto", description="of matrix products; auto: bf16 where the device has it, else fp16 on a GPU"
    )
    tf32: bool = Field(True, description="let a GPU round the inputs of float32 products to TF32")
    matmul_precision: Literal["highest", "high", "medium"] = Field(
        "high", description="torch.set_float32_matmul_precision; counts where tf32 is on"
    )
    cudnn_benchmark: bool = Field(True, description="let cuDNN try its kernels and keep the fastest")
    gradient_checkpointing: bool = Field(False, description="compute activations twice to save memory")
    compile: bool = Field(False, description="torch.compile the encoder")
    pad_to_multiple_of: int | None = Field(
        None, ge=1, description="lengths that batches are padded to; None: their own, with compile 64"
    )
    sort_window: int = Field(
        50, ge=1, description="batches of a shuffled window that is sorted by length; 1: random order"
    )
    workers: int = Field(0, ge=0, description="processes that make batches; 0: the training process")
    prefetch_factor: int = Field(2, ge=1, description="batches that each worker makes ahead")
    persistent_workers: bool = Field(True, description="keep the workers between epochs")
    pin_memory: bool = Field(True, description="copy batches to a GPU from page-locked memory")
    non_blocking: bool = Field(True, description="let copies to a GPU overlap with its work")
    zero_grad_set_to_none: bool = Field(True, description="drop gradients instead of writing zeros")
    cache: str | None = Field(
        None, description="folder that keeps tokens and features between runs, by content"
    )
    progress: bool = Field(True, description="show progress bars")

    @property
    def length_multiple(self) -> int:
        """What the lengths of batches are rounded up to; compiled code is made anew for each length."""
        return self.pad_to_multiple_of or (64 if self.compile else 1)


class RunConfig(Section):
    """Everything that a run needs to be repeated."""

    policy: Choice = Choice(name="quick")
    backbone: Choice = Choice(name="bag")
    features: list[str] = Field(["optimized22"], description="feature plugins by name, in order")
    feature_options: dict[str, dict[str, Any]] = Field({}, description="options of features, by name")
    loss: Choice = Choice(name="smape")
    columns: ColumnsConfig = ColumnsConfig()
    head: HeadConfig = HeadConfig()
    training: TrainingConfig = TrainingConfig()
    speed: SpeedConfig = SpeedConfig()
    max_length: int = Field(256, ge=1, description="tokens of a text; what is longer is cut")
    facts_first: bool = Field(
        False, description="read short lines of a text, such as its quantity, directly after the first line"
    )
    validation_fraction: float = Field(0.15, gt=0, lt=1)
    limit: int | None = Field(None, ge=1, description="read only the first rows of the table")
    seed: int = Field(0, ge=0, lt=1 << 32)

    @model_validator(mode="after")
    def _batch_norm_has_batches(self) -> RunConfig:
        if self.head.norm == "batch" and self.training.batch_size == 1:
            raise ValueError(
                "head.norm is 'batch', which cannot train on training.batch_size 1; use 2 or more"
            )
        tokens = self.training.batch_tokens
        if self.head.norm == "batch" and tokens is not None and tokens < 2 * self.max_length:
            raise ValueError(
                f"head.norm is 'batch', which needs two rows in a batch, but training.batch_tokens {tokens} may hold "
                f"only one of max_length {self.max_length}; use {2 * self.max_length} or more"
            )
        return self

    def for_rows(self, rows: int) -> RunConfig:
        """Return the configuration with the number of epochs that `auto` means for so many training rows.

        Where batches are cut by `batch_tokens`, texts count as long as `max_length`.
        """
        training = self.training
        if training.epochs != "auto":
            return self
        batch = training.batch_size
        if training.batch_tokens is not None:
            batch = max(1, training.batch_tokens // self.max_length)
        steps = -(-rows // (batch * training.gradient_accumulation_steps))
        least, most = AUTO_EPOCHS
        epochs = max(least, min(most, -(-AUTO_STEPS // steps)))
        return self.model_copy(update={"training": training.model_copy(update={"epochs": epochs})})

    def to_toml(self) -> str:
        """Return the configuration as TOML; `build_config([read_toml(path)])` gives it back."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))
