"""The settings of a run: typed, with defaults and descriptions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from pricekit.metrics import METRICS


@dataclass(frozen=True)
class Search:
    """The range in which `tune` searches a setting. A setting without one keeps its value.

    It has one of three forms: an interval, some values, or a factor for numbers whose scale depends on the policy.

    Attributes:
        low: the least value; an int for a setting of whole numbers.
        high: the greatest value.
        log: search the logarithm; the least value is above 0.
        choices: the values: numbers, texts or booleans.
        times: at least 1: search the logarithm from the setting's own value divided by this number to its product.

    Example:
        >>> from typing import Annotated
        >>> from pydantic import BaseModel, Field
        >>> class Options(BaseModel):
        ...     rounds: Annotated[int, Search(100, 1000, log=True)] = Field(300, ge=1)
        ...     rate: Annotated[float, Search(times=3.0)] = Field(0.01, gt=0)
        >>> searched(Options)["rate"].ends(0.01)
        (0.0033333333333333335, 0.03)
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()
    times: float | None = None

    def __post_init__(self) -> None:
        interval = self.low is not None or self.high is not None
        if [interval, bool(self.choices), self.times is not None].count(True) != 1:
            raise ValueError("a Search has either low and high, or choices, or times")
        if interval and (self.low is None or self.high is None or not self.low < self.high):
            raise ValueError(f"a Search needs low < high; found {self.low} and {self.high}")
        if self.log and (self.low is None or self.low <= 0):
            raise ValueError("a Search with log needs low above 0")
        if self.times is not None and not (math.isfinite(self.times) and self.times > 1):
            raise ValueError(f"times is {self.times}; expected a number above 1")

    def __str__(self) -> str:
        """Return the range in a few characters, such as "100 to 1000, log"."""
        if self.choices:
            return ", ".join(map(str, self.choices))
        if self.times is not None:
            return f"1/{self.times:g} to {self.times:g} times"
        return f"{self.low:g} to {self.high:g}{', log' * self.log}"

    @property
    def logarithmic(self) -> bool:
        """Whether the logarithm is searched."""
        return self.log or self.times is not None

    def fits(self, value: Any) -> bool:
        """Return whether a setting that has this value can be searched; one that is disabled or `auto` cannot."""
        if self.choices:
            return value is None or isinstance(value, bool | int | float | str)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return value > 0 or not self.logarithmic

    def ends(self, value: Any) -> tuple[Any, ...]:
        """Return the choices, or the least and the greatest value; the setting's own value is one, or in between.

        Least and greatest are ints if the setting's own value is an int.
        """
        if self.choices:
            return self.choices if value in self.choices else (*self.choices, value)
        if self.times is not None:
            low, high = value / self.times, value * self.times
        else:
            assert self.low is not None
            assert self.high is not None
            low, high = min(self.low, value), max(self.high, value)
        return (math.ceil(low), math.floor(high)) if isinstance(value, int) else (float(low), float(high))


def searched(model: type[BaseModel]) -> dict[str, Search]:
    """Return the range of each field of a model that declares one."""
    return {
        name: mark
        for name, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Search)
    }


def parse_duration(value: Any) -> Any:
    """Convert `2h`, `90m`, `1h30m` or `45s` to seconds; keep numbers; raises ValueError."""
    if not isinstance(value, str):
        return value
    number = r"(\d+(?:\.\d+)?)"
    match = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", value.strip())
    if not match or not any(match.groups()):
        raise ValueError("expected a time such as 2h, 90m, 1h30m or a number of seconds")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds


def parse_latency(value: Any) -> Any:
    """Convert `5ms`, `200us` or `0.1s` to seconds; keep numbers; raises ValueError."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s)?", value.strip())
    if not match:
        raise ValueError("expected a time such as 5ms, 200us or a number of seconds")
    return float(match[1]) * {"us": 1e-6, "ms": 1e-3}.get(match[2], 1.0)


def count_or_auto(value: Any) -> Any:
    """Return a whole number of at least 1, or `auto`; raises ValueError for others."""
    if value != "auto" and (type(value) is not int or value < 1):
        raise ValueError("expected a whole number, at least 1, or auto")
    return value


class Section(BaseModel):
    """A section of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False, defer_build=True)


class Choice(BaseModel):
    """A plugin by name; every other key is one of its options, checked by the plugin's own model."""

    model_config = ConfigDict(extra="allow")
    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """The plugin's options as given."""
        return dict(self.model_extra or {})


class ColumnsConfig(Section):
    """The columns with text, price and id; the defaults match the reference data."""

    text: list[str] = Field(
        ["catalog_content"],
        min_length=1,
        description="text columns; several become labelled lines of one text; default: those of the model; in training "
        "catalog_content, or else what check suggests",
    )
    price: str = Field(
        "price",
        description="column of known prices; default: that of the model; in training price, or else what check "
        "suggests",
    )
    id: str | None = Field(
        None,
        description="column that identifies each row; default: sample_id if it exists, otherwise row numbers",
    )
    vectors: list[str] | None = Field(
        None,
        description="columns of vectors, such as embeddings, which the features vectors and trees read; default: those "
        "that check suggests, unless text names columns",
    )
    weight: str | None = Field(
        None,
        description="column of row weights, at least 0; in training for the loss, trees and intervals, too",
    )
    group: str | None = Field(
        None, description="column whose equal values stay on one side of a split, such as a shop"
    )
    time: str | None = Field(
        None,
        description="column of dates, times or numbers: earlier rows are trained on, later ones validated on",
    )


class HeadConfig(Section):
    """The hidden layers between (encoding, features) and the raw output; the last layer of width 1 is not listed."""

    widths: list[Annotated[int, Field(ge=1)]] = Field(
        [], description="width of each hidden layer; empty: a linear head"
    )
    dropout: list[float] = Field([], description="dropout after each hidden layer")
    norm: Literal["none", "batch", "layer"] = Field(
        "layer", description="normalisation of each hidden layer, before its activation"
    )
    activation: Literal["relu", "gelu"] = Field("gelu", description="activation of each hidden layer")
    feature_bins: Annotated[int, Search(choices=(0, 4, 8, 16))] = Field(
        0,
        ge=0,
        description="piecewise-linear segments of each feature, in addition to its standardised value",
    )

    @model_validator(mode="after")
    def _same_length(self) -> HeadConfig:
        if len(self.dropout) != len(self.widths):
            raise ValueError(
                f"head.dropout has {len(self.dropout)} values and head.widths {len(self.widths)}; "
                "expected one dropout per width"
            )
        return self


OF_POLICY = "default: as the policy says"
"""The end of the description of a setting that is also an option, whose own default hardly ever counts."""

AUTO_STEPS = 1000
AUTO_EPOCHS = 10, 40
NEVER = 1_000_000
"""The `save_epochs` of a training that is never resumed."""

AUTO_FOLDS, FEW_ROWS = 5, range(400, 1501)
"""With a number of training rows in FEW_ROWS, there are AUTO_FOLDS folds; tables with fewer rows are mostly trials."""


class TrainingConfig(Section):
    """The numbers of the training loop; steps are optimizer steps."""

    epochs: Annotated[Annotated[int, Field(ge=1)] | Literal["auto"], BeforeValidator(count_or_auto)] = Field(
        10,
        description=f"maximum number of epochs, or auto: enough for {AUTO_STEPS:,} optimizer steps, at least "
        f"{AUTO_EPOCHS[0]}, at most {AUTO_EPOCHS[1]}; {OF_POLICY}",
    )
    batch_size: int = Field(64, ge=1, description="rows per forward pass (micro-batch)")
    batch_tokens: int | None = Field(
        None, ge=1, description="tokens per forward pass, including padding; replaces batch_size"
    )
    gradient_accumulation_steps: int = Field(1, ge=1, description="micro-batches per optimizer step")
    eval_batch_size: int = Field(256, ge=1, description="rows per forward pass in validation")
    learning_rate: Annotated[float, Search(times=2)] = Field(1e-3, gt=0, description="peak learning rate")
    head_learning_rate: float | None = Field(
        None, gt=0, description="learning rate of the head; None: learning_rate"
    )
    embedding_learning_rate: Annotated[float | None, Search(times=2)] = Field(
        None, gt=0, description="learning rate of the token embeddings; None: that of their layer"
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="learning rate of each encoder layer as a fraction of the layer above it"
    )
    weight_decay: float = Field(
        0.0, ge=0, description=f"share of the learning rate by which a step shrinks the weights; {OF_POLICY}"
    )
    decay_biases_and_norms: bool = Field(False, description="also apply weight decay to biases and norms")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of linear warmup")
    max_grad_norm: float | None = Field(None, gt=0, description="maximum norm of the gradient")
    ema_decay: float | None = Field(
        None, gt=0, lt=1, description="validate and keep an exponential moving average of the weights"
    )
    patience: int | None = Field(
        None, ge=1, description="stop after this many epochs without a better validation score"
    )
    keep: Literal["best", "last"] = Field(
        "best",
        description="weights of the epoch with the best validation score, or of the last epoch (ignores patience)",
    )
    refit: bool = Field(
        False,
        description="train once more on all rows, those of the validation included, for as many epochs as were best; "
        f"metrics and intervals stay those of the first pass; {OF_POLICY}",
    )
    folds: Annotated[Annotated[int, Field(ge=1)] | Literal["auto"], BeforeValidator(count_or_auto)] = Field(
        1,
        description="before a refit, number of trainings that hold out other rows in turn, so that all rows validate "
        f"and calibrate; 1: a part of the rows; auto: {AUTO_FOLDS} with {FEW_ROWS[0]:,} to {FEW_ROWS[-1]:,} training "
        f"rows, otherwise 1; {OF_POLICY}",
    )
    save_steps: int | None = Field(None, ge=1, description="steps between additional checkpoints")
    save_epochs: int = Field(1, ge=1, description="epochs between checkpoints")
    keep_checkpoints: int = Field(
        2,
        ge=1,
        description="checkpoints to resume from that an unfinished run keeps: the last one and earlier ones",
    )
    retry_after_spike: bool = Field(
        False,
        description="return once to the last checkpoint, at half the learning rate, if a loss or gradient is infinite",
    )
    time_budget: Annotated[float | None, BeforeValidator(parse_duration)] = Field(
        None,
        gt=0,
        description="time limit in seconds, or as in 2h or 90m, into which the schedule fits: of a run, of each fold "
        "of a cross-validation, or of a whole search, by default 1h",
    )


class SpeedConfig(Section):
    """How training uses the machine; these settings are not meant to change the result."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "auto",
        description="precision of matrix products; auto: bf16 if the device supports it, else fp16 on a GPU",
    )
    tf32: bool = Field(True, description="allow a GPU to round the inputs of float32 products to TF32")
    matmul_precision: Literal["highest", "high", "medium"] = Field(
        "high", description="value for torch.set_float32_matmul_precision if tf32 is on"
    )
    cudnn_benchmark: bool = Field(True, description="let cuDNN benchmark its kernels and use the fastest")
    gradient_checkpointing: bool = Field(
        False, description="recompute activations in the backward pass to save memory"
    )
    compile: bool = Field(False, description="torch.compile the encoder")
    pad_to_multiple_of: int | None = Field(
        None,
        ge=1,
        description="round the length of batches up to a multiple of this; None: 1, with compile 64",
    )
    sort_window: int = Field(
        50, ge=1, description="batches per shuffled window, whose rows are sorted by length; 1: random order"
    )
    workers: int = Field(0, ge=0, description="processes that prepare batches; 0: the training process")
    prefetch_factor: int = Field(2, ge=1, description="batches that each worker prepares in advance")
    persistent_workers: bool = Field(True, description="keep the workers between epochs")
    pin_memory: bool = Field(True, description="copy batches to a GPU from page-locked memory")
    non_blocking: bool = Field(True, description="overlap copies to a GPU with computation")
    zero_grad_set_to_none: bool = Field(True, description="set gradients to None instead of zero")
    progress: bool = Field(True, description="show progress bars")

    @property
    def length_multiple(self) -> int:
        """Multiple that batch lengths are rounded up to; compiled code is specific to a length."""
        return self.pad_to_multiple_of or (64 if self.compile else 1)


MAX_LENGTH = 100_000
"""Tokens: the highest `max_length`."""


if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[tuple(METRICS)]


MemberName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
"""The name of a member of an ensemble, which is also the name of its folder."""


class RunConfig(Section):
    """All settings of a run, or of the runs of an ensemble; they make it reproducible.

    Unknown settings and values out of range raise pydantic's ValidationError.

    Example:
        >>> from pricekit import RunConfig
        >>> config = RunConfig(training={"epochs": 20, "time_budget": "2h"})
        >>> config.training.epochs, config.training.time_budget, config.loss.name
        (20, 7200.0, 'smape')
    """

    policy: Choice = Field(
        Choice(name="quick"), description="training policy, which sets the defaults of other settings"
    )
    backbone: Choice = Field(Choice(name="bag"), description=f"tokenizer and encoder; {OF_POLICY}")
    features: list[str] = Field(
        ["optimized22"], description=f"feature plugins by name, in order; {OF_POLICY}"
    )
    feature_options: dict[str, dict[str, Any]] = Field({}, description="options of features by name")
    loss: Choice = Field(
        Choice(name="smape"),
        description="training objective; default: that of the metric, or as the policy says",
    )
    metric: MetricName = Field(
        "smape",
        description="metric to minimise on the validation rows, such as mae or rmsle; it also brings its natural loss, "
        "unless a loss is named",
    )
    columns: ColumnsConfig = ColumnsConfig()
    head: HeadConfig = HeadConfig()
    training: TrainingConfig = TrainingConfig()
    speed: SpeedConfig = SpeedConfig()
    max_length: int = Field(
        256,
        ge=1,
        le=MAX_LENGTH,
        description=f"maximum number of tokens per text; longer texts are truncated; {OF_POLICY}",
    )
    facts_first: bool = Field(
        False, description="move short lines of a text, such as its quantity, directly after the first line"
    )
    validation_fraction: float = Field(
        0.15,
        gt=0,
        lt=1,
        description="share of the rows that are held out for validation; in a search, also of those set aside for the "
        "final scores",
    )
    limit: int | None = Field(None, ge=1, description="number of rows to read, from the first one")
    init: str | None = Field(
        None,
        description="finished run, or an ensemble that was trained as one, to continue from: its tokenizer, its "
        "weights and its settings are kept, and it learns from the rows of the table, new ones and, best, the earlier "
        "ones, too",
    )
    seed: int = Field(0, ge=0, lt=1 << 32, description="random seed of split, weights and order")
    track: list[str] = Field(
        [],
        description="trackers that observe the training, such as mlflow or tensorboard, each from its package",
    )
    max_latency: Annotated[float | None, BeforeValidator(parse_latency)] = Field(
        None,
        gt=0,
        description="time to price one row alone, in seconds or as in 5ms, in torch on this machine; an ensemble "
        "consists of the members that are best within it",
    )
    members: dict[MemberName, dict[str, Any]] = Field(
        {}, description="train an ensemble: for each member, by name, the settings in which it differs"
    )

    @model_validator(mode="after")
    def _batch_norm_has_batches(self) -> RunConfig:
        if self.head.norm == "batch" and self.training.batch_size == 1:
            raise ValueError("head.norm 'batch' cannot train with training.batch_size 1; use 2 or more")
        tokens = self.training.batch_tokens
        if self.head.norm == "batch" and tokens is not None and tokens < 2 * self.max_length:
            raise ValueError(
                f"head.norm 'batch' needs two rows per batch, but training.batch_tokens {tokens} may hold "
                f"only one of max_length {self.max_length}; use {2 * self.max_length} or more"
            )
        return self

    def for_rows(self, rows: int) -> RunConfig:
        """Return the configuration with `auto` epochs and folds replaced by their number for this many training rows.

        With `batch_tokens`, each text counts as `max_length` tokens.
        """
        training = self.training
        if training.folds == "auto":
            return self.with_training(folds=AUTO_FOLDS if rows in FEW_ROWS else 1).for_rows(rows)
        if training.epochs != "auto":
            return self
        batch = training.batch_size
        if training.batch_tokens is not None:
            batch = max(1, training.batch_tokens // self.max_length)
        steps = -(-rows // (batch * training.gradient_accumulation_steps))
        least, most = AUTO_EPOCHS
        epochs = max(least, min(most, -(-AUTO_STEPS // steps)))
        return self.with_training(epochs=epochs)

    def with_training(self, **settings: Any) -> RunConfig:
        """Return the configuration with other settings of the training, which are not validated."""
        return self.model_copy(update={"training": self.training.model_copy(update=settings)})

    def to_toml(self) -> str:
        """Return the configuration as TOML; `build_config([read_toml(path)])` reads it back."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))
