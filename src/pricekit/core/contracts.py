"""What a plugin of each kind must provide.

Shapes: N rows of a table, B rows of a batch, L tokens, H hidden size, K features, M members.

A plugin is a class. Where it has options it carries a pydantic model named `Options` and is made
as `Plugin(options)`; without one it is made as `Plugin()`. `--set loss.gamma=1.5` is checked
against that model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import torch
    from tokenizers import Tokenizer

    from pricekit.config import TrainingConfig
    from pricekit.table import Table
    from pricekit.tokens import Tokens

State = dict[str, Any]
"""Fitted state: plain JSON values only."""


class Feature(Protocol):
    """One or more numeric columns computed from a table; imports no torch.

    Row by row or in batches the result is the same to the bit. The table has no price, neither as such
    nor among `frame`'s columns, and must not be changed. `frame` holds the file's columns as read: those of
    a CSV or JSON file are text.
    """

    names: tuple[str, ...]
    """The names of the K columns."""

    uses_price: bool
    """Optional. True: `fit` is called as `fit(table, price)`, the prices float64 (N,).

    So that a training row's own price is in none of its columns, pricekit fits such a feature on parts of
    the training rows and computes the columns of each part with what the others taught.
    """

    def fit(self, table: Table) -> State:
        """Return the state learned from the training rows."""

    def transform(self, table: Table, state: State) -> np.ndarray:
        """Return the columns as finite float32, (N, K)."""


class Backbone(Protocol):
    """A tokenizer and an encoder."""

    max_length: int | None
    """The most tokens that the encoder takes; None where there is no limit."""

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Return a tokenizer, loaded or trained on the training texts.

        Its padding, where it is set, tells the id that batches are padded with; otherwise that is 0.
        pricekit itself pads, and truncates to the run's `max_length`.
        """

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return what, beside the options, it takes to build the encoder: called once, kept in the run.

        What a folder of pretrained weights says of its sizes belongs here, so that a run opens on a
        machine where that folder is absent.
        """

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> Encoder:
        """Return a new encoder.

        `tokens` are those of the training rows, for what is fitted rather than learned (idf weights), and
        tell a new encoder to load its pretrained weights. They are None when a saved encoder is opened
        again: nothing but `architecture` may be read, all weights and buffers are loaded afterwards.
        """


class Encoder(Protocol):
    """A `torch.nn.Module`: `(input_ids, attention_mask) -> (B, H)`; both inputs are int64 (B, L).

    Whatever it learns or fits is a parameter or a buffer: a saved encoder is made anew and given those, and a deep
    copy stands by itself.
    """

    hidden_size: int
    """H, all members together."""

    members: int
    """M groups of H / M, each with a head of its own, averaged in the raw output; usually 1."""

    layers: Sequence[torch.nn.Module]
    """Optional. From the input up, the embeddings first: what `training.layer_decay` counts."""

    embedding: torch.nn.Module
    """Optional. The table of token embeddings: what `training.embedding_learning_rate` is for."""

    gradient_checkpointing_enable: Callable[[], None]
    """Optional. Makes the layers compute their activations again in the backward pass, to save memory."""

    prepare_batch: Callable[..., dict[str, torch.Tensor]]
    """Optional. `(input_ids, attention_mask, generator)` to tensors that a training batch needs and that no parameter
    changes, such as dropout masks and indices; `generator` makes the random numbers. On a CPU another thread calls it
    ahead of time, training uses one torch thread, and the tensors reach `__call__` by name. Without them `__call__`
    calls `prepare_batch` itself."""

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the encoding, float32 (B, H). Positions whose mask is 0 must not change it.

        In evaluation mode it is traced by `torch.onnx.export` with batch and length dynamic.
        """


class Loss(Protocol):
    """A `torch.nn.Module` that holds the training objective and its link from raw output to price.

    What `fit` learns is kept in buffers, so that it travels with the model's weights.
    """

    def fit(self, price: torch.Tensor) -> None:
        """Learn what the link needs from the training prices, float64 (N,)."""

    def forward(self, raw: torch.Tensor, price: torch.Tensor) -> torch.Tensor:
        """Return the mean loss, a scalar, for raw outputs and true prices of one shape, (B, M).

        It is the mean over rows and members of what each raw output costs by itself, lowest where `to_price`
        gives the true price: so a batch may be cut into micro-batches and dealt to processes.
        """

    def to_price(self, raw: torch.Tensor) -> torch.Tensor:
        """Return prices in the table's currency, (B,) for (B,): finite, positive, rising with the raw output.

        Traced into the graph.
        """


class Policy(Protocol):
    """How to train: numbers and defaults for the other kinds, optimizer, schedule."""

    defaults: Mapping[str, Any]
    """A part of the run's configuration: backbone, features, loss, head, max_length, training, speed."""

    notes: str
    """Optional. What its user should know, for `pricekit plugins show`."""

    def optimizer(
        self, model: torch.nn.Module, training: TrainingConfig, *, fused: bool
    ) -> torch.optim.Optimizer:
        """Return the optimizer over the model's parameters.

        Each group has an `lr`, which the schedule scales. `step()` is called without a closure. Gradients
        of an `nn.Embedding(sparse=True)`, as in `bag`, are sparse: torch's SparseAdam and Adagrad take them,
        and `pricekit.optim.adagrad.RowwiseAdagrad` takes both kinds. `pricekit.optim.adamw.adamw` is
        what the built-in policies use.

        Args:
            model: all of its trainable parameters are to be in a group.
            training: the run's numbers.
            fused: use a fused implementation, for optimizers that have one; True in training.
        """

    def schedule(self, step: float, warmup_steps: int, total_steps: int) -> float:
        """Return what the learning rate is multiplied by at a step of the schedule, counted from 0.

        A factor from 0 to 1: it rises over `warmup_steps` and is lowest at `total_steps`, which a short run may
        reach inside its warmup. Under a time budget a step of the optimizer may be more or less than one of the
        schedule, so `step` need not be whole.
        """


Batch = Mapping[str, "np.ndarray"]
"""`input_ids`, `attention_mask`: int64 (B, L); `features`: float32 (B, K)."""

PriceBatch = Callable[[Batch], "np.ndarray"]
"""Returns the price of each row, float32 (B,): a bundle's graph in an engine, or a run's model in torch."""


@dataclass(frozen=True)
class Graph:
    """A bundle's graph and what an engine may want to know of it.

    Attributes:
        model: the contents of `model.onnx`: `input_ids`, `attention_mask`, `features` -> `price`. All weights
            are inside, and loaded as bytes it can name no other file.
        max_length: the longest L that it is called with.
        features: K.
        cache: a folder of this bundle, for what an engine compiles; made by who writes into it.
        precision: of its weights: fp32, fp16 or int8.
    """

    model: bytes
    max_length: int
    features: int
    cache: Path
    precision: str = "fp32"


class Engine(Protocol):
    """What executes a bundle's graph; imports no torch."""

    length_multiple: int
    """What L is rounded up to, for engines slow at others or at each new shape; usually 1. Read after `load`."""

    streams: int
    """Optional. How many batches it prices at a time, called from as many threads; 1 where it is absent."""

    batch_tokens: int
    """Optional. The most tokens of a batch, padding included, until "auto" has measured; 2,048 where it is absent."""

    def load(self, graph: Graph) -> PriceBatch:
        """Return what prices batches of any size and length.

        Raises:
            PluginError: a library or a device is missing; says which. `auto` then goes on without.
            BundleError: the graph itself cannot be loaded.
        """
