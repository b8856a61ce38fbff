"""The interface of each plugin kind.

Shapes: N rows of a table, B rows of a batch, L tokens, H hidden size, K features, M members.

A plugin is a class. With options it has a pydantic model named `Options` and is created as
`Plugin(options)`; without options it is created as `Plugin()`. The setting `loss.gamma=1.5` is validated by that
model.
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
    from pricekit.text.tokens import Tokens

State = dict[str, Any]
"""Fitted state: plain JSON values, and assets.

A value of the dict itself, not one inside of it, may be `bytes`: an asset, which runs and bundles store as a file of
its own.
"""


class Feature(Protocol):
    """One or more numeric columns computed from a table; imports no torch.

    The result is bit-identical row by row and in batches. The table contains no price, neither as an attribute
    nor in `frame`, and must not be modified. `frame` holds the file's columns as read: the columns of a CSV or
    JSON file are text.

    Example:
        >>> import pricekit as pk
        >>> class Characters:
        ...     names = ("characters",)
        ...     def fit(self, table):
        ...         return {}
        ...     def transform(self, table, state):
        ...         return table.text.str.len().to_numpy("float32")[:, None]
        >>> Characters().transform(pk.read_table(pk.make_catalog(5)), {}).shape
        (5, 1)
    """

    names: tuple[str, ...]
    """The names of the K columns."""

    uses_price: bool
    """Optional. If True, pricekit calls `fit(table, price)` with prices of float64 (N,).

    To keep each training row's own price out of its columns, pricekit fits such a feature out of fold: it computes
    the columns of each part of the training rows with the state fitted on the other parts.
    """

    holds_training_rows: bool
    """Optional. True if the state contains texts, words of texts, or prices of single training rows.

    The manifest and the model card of each bundle, and `pricekit bundle inspect`, then say so. A policy with such a
    feature is one that users choose, never the default.
    """

    reads_files: bool
    """Optional. True if the columns depend on more than the table, the options and the state, such as pictures that the
    table names.

    Such a feature is never taken from a cache, because the files may have changed.
    """

    log_price: str
    """Optional. The name of the column that is a complete estimate of the log price.

    The validation rows then decide how much of the price is this estimate, and how much is the network's price. Of
    several such features the first one counts.
    """

    update: Callable[[Table, np.ndarray, State], State]
    """Optional, for features that use prices: return the state after it has learned from more rows, too.

    A warm start on new rows alone calls it with these rows, their prices and the state; without it the state stays.
    """

    def fit(self, table: Table) -> State:
        """Return the state learned from the training rows.

        Large binary data, such as the graph of an encoder, are *assets*: values of type `bytes`, at most 16, with
        names such as "encoder.onnx". `transform` gets the same bytes. An asset whose name ends with ".onnx" must be an
        ONNX graph that a bundle may contain.
        """

    def transform(self, table: Table, state: State) -> np.ndarray:
        """Return the columns as finite float32, (N, K)."""


@dataclass(frozen=True)
class WeightsSource:
    """Where pretrained weights come from.

    Attributes:
        name: an id on a hub, an address or a few words; no path of this machine.
        licence: its SPDX id, such as `Apache-2.0`; "" if it is unknown.

    Example:
        >>> WeightsSource("microsoft/deberta-v3-base", "MIT").licence
        'MIT'
    """

    name: str
    licence: str = ""


class Backbone(Protocol):
    """A tokenizer and an encoder.

    Example:
        >>> from pricekit.nets.bag import Bag
        >>> bag = Bag(Bag.Options(vocab_size=300, width=8, members=2))
        >>> tokenizer = bag.tokenizer(["green tea", "black tea"])
        >>> encoder = bag.encoder(bag.architecture(tokenizer), tokenizer, None)
        >>> encoder.members
        2
    """

    max_length: int | None
    """The maximum number of tokens that the encoder accepts; None: no limit."""

    weights_source: WeightsSource | None
    """Optional. Where the weights come from with which training starts; None: they are random at first. The inventory
    of each bundle states it. Without this attribute, it says that source and licence are unknown."""

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Return a tokenizer, loaded or trained on the training texts.

        Its padding id, 0 by default, pads the batches. pricekit itself pads, and truncates to the run's `max_length`.
        """

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return what the encoder needs in addition to the options; called once, stored in the run.

        Sizes read from a folder of pretrained weights belong here, so that a run opens on a machine without that
        folder.
        """

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> Encoder:
        """Return a new encoder.

        `tokens` are the tokens of the training rows, for values that are fitted and not learned (idf weights); a new
        encoder loads its pretrained weights. `tokens` is None when a saved encoder is reopened: read only
        `architecture` then, because all weights and buffers are loaded afterwards.
        """


class Encoder(Protocol):
    """A `torch.nn.Module`: `(input_ids, attention_mask) -> (B, H)`; both inputs are int64 (B, L).

    Everything that it learns or fits is a parameter or a buffer: a saved encoder is rebuilt and then loads them, and
    a deep copy is independent.

    Example:
        >>> import torch
        >>> class Mean(torch.nn.Module):
        ...     hidden_size, members = 8, 1
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.embedding = torch.nn.Embedding(300, 8)
        ...     def forward(self, input_ids, attention_mask):
        ...         mask = attention_mask.float().unsqueeze(-1)
        ...         return (self.embedding(input_ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        >>> tokens = torch.ones(2, 5, dtype=torch.int64)
        >>> Mean()(tokens, tokens).shape
        torch.Size([2, 8])
    """

    hidden_size: int
    """H, of all members together."""

    members: int
    """M groups of size H / M, each with its own head; the raw outputs are averaged. Usually 1."""

    layers: Sequence[torch.nn.Module]
    """Optional. The layers from the input up, embeddings first, for `training.layer_decay`."""

    embedding: torch.nn.Module
    """Optional. The token embeddings, for `training.embedding_learning_rate`."""

    gradient_checkpointing_enable: Callable[[], None]
    """Optional. Makes the layers recompute their activations in the backward pass, to save memory."""

    merged: Callable[[], Encoder]
    """Optional. Returns an encoder with the same encoding that is simpler to compute, such as one whose adapters are
    merged into its weights; this one stays as it is. It is the one that is exported."""

    extend: Callable[[Tokens], None]
    """Optional. Fits the values of terms that earlier training texts lacked, such as idf weights, and keeps the others.

    A warm start calls it with the tokens of its training rows, after the weights of the earlier run are loaded.
    """

    prepare_batch: Callable[..., dict[str, torch.Tensor]]
    """Optional. `(input_ids, attention_mask, generator)` to tensors that a training batch needs and that no parameter
    changes, such as dropout masks and indices; `generator` makes the random numbers. On a CPU another thread calls it
    ahead of time, training uses one torch thread, and the tensors reach `__call__` by name. Without them `__call__`
    calls `prepare_batch` itself."""

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the encoding, float32 (B, H). Positions whose mask is 0 must not change it.

        `torch.onnx.export` traces it in evaluation mode with dynamic batch and length.
        """


class Loss(Protocol):
    """A `torch.nn.Module` that holds the training objective and its link from raw output to price.

    What `fit` learns is stored in buffers, which are saved with the model's weights.

    Example:
        >>> import torch
        >>> class LogAbsolute(torch.nn.Module):
        ...     def fit(self, price):
        ...         pass
        ...     def forward(self, raw, price):
        ...         return (raw - price.log()).abs().mean()
        ...     def to_price(self, raw):
        ...         return raw.clamp(-20, 20).exp()
        >>> LogAbsolute()(torch.zeros(3, 1), torch.ones(3, 1)).item()
        0.0
    """

    def fit(self, price: torch.Tensor) -> None:
        """Learn what the link needs from the training prices, float64 (N,)."""

    def forward(self, raw: torch.Tensor, price: torch.Tensor) -> torch.Tensor:
        """Return the mean loss, a scalar, for raw outputs and true prices of one shape, (B, M).

        It is the mean over rows and members of the loss of each raw output, and lowest where `to_price` gives the true
        price. So a batch can be split into micro-batches and distributed to processes.
        """

    terms: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    """Optional. `(raw, price)` to the loss of each raw output, (B, M), of which `forward` returns the mean. Row weights
    need it."""

    central: bool
    """Optional. False if the loss aims at another price than a central one, such as a high quantile. Then no feature's
    own estimate of the price is mixed in."""

    def to_price(self, raw: torch.Tensor) -> torch.Tensor:
        """Return prices in the table's currency, (B,) for (B,): finite, positive, rising with the raw output.

        It becomes part of the graph.
        """


class Policy(Protocol):
    """How to train: optimizer, schedule, and defaults for all settings.

    Example:
        >>> from pricekit.plugin import adamw, warmup_cosine
        >>> class Patient:
        ...     defaults = {"training": {"epochs": 12, "patience": 6}}
        ...     optimizer, schedule = staticmethod(adamw), staticmethod(warmup_cosine)
        >>> Patient.schedule(0, 0, 100)
        1.0
    """

    defaults: Mapping[str, Any]
    """A part of the run's configuration: backbone, features, loss, head, max_length, training, speed."""

    notes: str
    """Optional. Notes for users, shown by `pricekit plugins show`."""

    def optimizer(
        self, model: torch.nn.Module, training: TrainingConfig, *, fused: bool
    ) -> torch.optim.Optimizer:
        """Return the optimizer over the model's parameters.

        Each group has an `lr`, which the schedule scales. `step()` is called without a closure. Gradients
        of an `nn.Embedding(sparse=True)`, as in `bag`, are sparse: torch's SparseAdam and Adagrad take them,
        and `pricekit.training.optimizers.RowwiseAdagrad` takes both kinds. `pricekit.training.optimizers.adamw` is
        the optimizer of the built-in policies.

        Args:
            model: each of its trainable parameters belongs in one group.
            training: the settings of the training loop.
            fused: use a fused implementation, for optimizers that have one; True in training.
        """

    def schedule(self, step: float, warmup_steps: int, total_steps: int) -> float:
        """Return the factor of the learning rate at a step of the schedule, counted from 0.

        The factor is between 0 and 1. It rises over `warmup_steps` and is lowest at `total_steps`; a short run may
        end within its warmup. Under a time budget one optimizer step may be more or less than one step of the
        schedule, so `step` may be fractional.
        """


Batch = Mapping[str, "np.ndarray"]
"""`input_ids`, `attention_mask`: int64 (B, L); `features`: float32 (B, K)."""

PriceBatch = Callable[[Batch], "np.ndarray"]
"""Returns the price of each row, float32 (B,): from a bundle's graph in an engine, or from a run's model in torch."""


@dataclass(frozen=True)
class Graph:
    """A bundle's graph and its properties.

    Attributes:
        model: the contents of `model.onnx`: `input_ids`, `attention_mask`, `features` -> `price`. It contains all
            weights; loaded from bytes, it cannot refer to other files.
        max_length: the largest L of any batch.
        features: K.
        cache: a folder of this bundle for an engine's compiled files; an engine creates it before writing.
        precision: of its weights: fp32, fp16 or int8.

    Example:
        >>> from pathlib import Path
        >>> Graph(model=b"", max_length=256, features=22, cache=Path("cache")).precision
        'fp32'
    """

    model: bytes
    max_length: int
    features: int
    cache: Path
    precision: str = "fp32"


class Engine(Protocol):
    """Runs a bundle's graph; imports no torch.

    Example:
        >>> import numpy as np
        >>> class Constant:
        ...     length_multiple = 1
        ...     def load(self, graph):
        ...         return lambda batch: np.full(len(batch["input_ids"]), 9.5, np.float32)
        >>> Constant().load(None)({"input_ids": np.ones((2, 5), np.int64)})
        array([9.5, 9.5], dtype=float32)
    """

    length_multiple: int
    """L is rounded up to a multiple of this, for engines that are slow at some shapes; usually 1. Read after `load`."""

    streams: int
    """Optional. The number of batches that it processes concurrently, each in its own thread; default 1."""

    batch_tokens: int
    """Optional. The maximum number of tokens per batch, padding included, until "auto" has measured; default 2,048."""

    def load(self, graph: Graph) -> PriceBatch:
        """Return a function that prices batches of any size and length.

        Raises:
            PluginError: a library or a device is missing; names it. `auto` then skips this engine.
            BundleError: the graph itself cannot be loaded.
        """
