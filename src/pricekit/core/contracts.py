"""The base classes of plugins; that of policies is in `pricekit.training.policies`.

Shapes: N rows of a table, B rows of a batch, L tokens, H hidden size, K features, M members.

A plugin is a class that derives from the base class of its kind, which has defaults for what is optional. A class with
the same members works, too. With options it has a pydantic model named `Options` and is created as `Plugin(options)`;
without options it is created as `Plugin()`. The setting `loss.gamma=1.5` is validated by that model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import torch
    from tokenizers import Tokenizer

    from pricekit.table import Table
    from pricekit.text.tokens import Tokens

State = dict[str, Any]
"""Fitted state: plain JSON values, and assets.

A value of the dict itself, not one inside of it, may be `bytes`: an asset, which runs and bundles store as a file of
its own.
"""


class Feature:
    """One or more numeric columns computed from a table; imports no torch.

    The result is bit-identical row by row and in batches, in every process. pricekit compares some rows while it
    trains, exports and predicts, and refuses a feature that differs.

    The table is a copy, numbered from 0, with `text` and `frame`; its `ids` are these numbers. It contains no price,
    neither as an attribute nor in `frame`. `frame` holds the columns that `columns` declares, as read: those of a CSV
    or JSON file are text. One thread at a time calls `transform`.

    Example:
        >>> import pricekit as pk
        >>> class Characters(pk.plugin.Feature):
        ...     names = ("characters",)
        ...     def transform(self, table, state):
        ...         return table.text.str.len().to_numpy("float32")[:, None]
        >>> Characters().transform(pk.read_table(pk.make_catalog(5)), {}).shape
        (5, 1)
    """

    names: tuple[str, ...]
    """The names of the K columns that it computes."""

    columns: tuple[str, ...] = ()
    """The columns of the file that it reads, besides the text; `__init__` may set it from options.

    `table.frame` holds no others, and pricekit refuses a table without one of them.
    """

    uses_price: bool = False
    """If True, pricekit calls `fit(table, price)` with prices of float64 (N,).

    To keep each training row's own price out of its columns, pricekit fits such a feature out of fold: it computes
    the columns of each part of the training rows with the state fitted on the other parts.
    """

    holds_training_rows: bool = False
    """True if the state contains texts, words of texts, or prices of single training rows.

    The manifest and the model card of each bundle, and `pricekit bundle inspect`, then say so. A policy with such a
    feature is one that users choose, never the default.
    """

    reads_files: bool = False
    """True if the columns depend on more than the table, the options and the state, such as pictures that the table
    names.

    Such a feature is never taken from a cache, because the files may have changed.
    """

    parallel: bool = False
    """True if several threads may call `transform` at the same time; windows of a large table then are computed so."""

    log_price: str | None = None
    """The name of the column that is a complete estimate of the log price.

    The validation rows then decide how much of the price is this estimate, and how much is the network's price. Of
    several such features the first one counts.
    """

    update: Callable[[Table, np.ndarray, State], State] | None = None
    """A method, for features that use prices: return the state, updated with more rows.

    A warm start on new rows alone calls it with these rows, their prices and the state; without it the state stays.
    """

    def check_state(self, state: State) -> None:
        """Raise an exception if `transform` cannot use a state; by default, every state passes.

        pricekit calls it when it opens a model, whose state may be a stranger's.
        """

    def describe(self, state: State) -> Mapping[str, str]:
        """Return words for columns whose names do not say what they are; by default, for none.

        `pricekit drift` shows them instead of the names, such as {"column_1": "number in size"}. Columns with the same
        words are parts of one thing, such as the numbers of a vector; drift and importance show the whole.
        """
        return {}

    def fit(self, table: Table) -> State:
        """Return the state learned from the training rows; by default there is nothing to learn.

        Large binary data, such as the graph of an encoder, are *assets*: values of type `bytes`, at most 16, with
        names such as "encoder.onnx". `transform` gets the same bytes. An asset whose name ends with ".onnx" must be an
        ONNX graph that a bundle may contain.
        """
        return {}

    def transform(self, table: Table, state: State) -> np.ndarray:
        """Return the columns as finite float32, (N, K)."""
        raise NotImplementedError


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


UNKNOWN_WEIGHTS = WeightsSource("weights of an unknown source")


class Backbone:
    """A tokenizer and an encoder.

    Example:
        >>> from pricekit.nets.bag import Bag
        >>> bag = Bag(Bag.Options(vocab_size=300, width=8, members=2))
        >>> tokenizer = bag.tokenizer(["green tea", "black tea"])
        >>> encoder = bag.encoder(bag.architecture(tokenizer), tokenizer, None)
        >>> encoder.members
        2
    """

    max_length: int | None = None
    """The maximum number of tokens that the encoder accepts; None: no limit."""

    weights_source: WeightsSource | None = UNKNOWN_WEIGHTS
    """Where the weights come from with which training starts; None: they are random at first. The inventory of each
    bundle states it; by default, it says that source and licence are unknown."""

    def tokenizer(self, texts: Iterable[str]) -> Tokenizer:
        """Return a tokenizer, loaded or trained on the training texts.

        Its padding id, 0 by default, pads the batches. pricekit itself pads, and truncates to the run's `max_length`.
        """
        raise NotImplementedError

    def architecture(self, tokenizer: Tokenizer) -> State:
        """Return what the encoder needs in addition to the options, by default nothing; called once, stored in the run.

        Sizes read from a folder of pretrained weights belong here, so that a run opens on a machine without that
        folder.
        """
        return {}

    def encoder(self, architecture: State, tokenizer: Tokenizer, tokens: Tokens | None) -> Encoder:
        """Return a new encoder.

        `tokens` are the tokens of the training rows, for values that are fitted and not learned (idf weights); a new
        encoder loads its pretrained weights. `tokens` is None when a saved encoder is reopened: read only
        `architecture` then, because all weights and buffers are loaded afterwards.
        """
        raise NotImplementedError


class Encoder:
    """What a backbone returns, `(input_ids, attention_mask)` to (B, H); derive from it and then `torch.nn.Module`.

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

    members: int = 1
    """M groups of size H / M, each with its own head; the raw outputs are averaged."""

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

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the encoding, float32 (B, H). Positions whose mask is 0 must not change it.

        `torch.onnx.export` traces it in evaluation mode with dynamic batch and length.
        """
        raise NotImplementedError


class Loss:
    """The training objective and its link from raw output to price; derive from it and, after it, `torch.nn.Module`.

    What `fit` learns is stored in buffers, which are saved with the model's weights. `pricekit.plugin.LogPrice` is a
    loss with a link, which lacks only `terms`.

    Example:
        >>> import torch
        >>> from pricekit import plugin
        >>> class LogAbsolute(plugin.Loss, torch.nn.Module):
        ...     def terms(self, raw, price):
        ...         return (raw - price.log()).abs()
        ...     def to_price(self, raw):
        ...         return raw.clamp(-20, 20).exp()
        >>> LogAbsolute()(torch.zeros(3, 1), torch.ones(3, 1)).item()
        0.0
    """

    central: bool = True
    """False if the loss aims at another price than a central one, such as a high quantile. Then no feature's own
    estimate of the price is mixed in, and a model is compared with the constant price at which the loss aims.

    A loss that aims outside of the quantiles 0.2 to 0.8 of the price, and does not say so, is refused."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Reject the other order of base classes, in which the empty `forward` of torch would come first."""
        super().__init_subclass__(**arguments)
        if cls.forward.__module__.startswith("torch."):
            raise TypeError(
                f"write class {cls.__name__}(plugin.Loss, nn.Module), in this order, or define forward"
            )

    def fit(self, price: torch.Tensor) -> None:
        """Learn what the link needs from the training prices, float64 (N,); by default nothing."""

    def terms(self, raw: torch.Tensor, price: torch.Tensor) -> torch.Tensor:
        """Return the loss of each raw output, (B, M), for raw outputs and true prices of this shape.

        It is finite, lowest where `to_price` gives the true price, and depends on no other row or member. The same
        arguments give the same value, in training and in evaluation mode.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no terms")

    def forward(self, raw: torch.Tensor, price: torch.Tensor) -> torch.Tensor:
        """Return the mean of `terms`, a scalar; a batch can be split into micro-batches and distributed to processes.

        Override it only for a faster way to the same number.
        """
        return self.terms(raw, price).mean()

    def to_price(self, raw: torch.Tensor) -> torch.Tensor:
        """Return prices in the table's currency, (B,) for (B,): finite, positive, rising with the raw output.

        It becomes part of the graph.
        """
        raise NotImplementedError


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


class Engine:
    """Runs a bundle's graph; imports no torch.

    It is created as `Plugin()`: an engine has no `Options`, because nothing sets them. What differs from machine to
    machine, it reads from the machine, or from an environment variable that its documentation names.

    Its prices must be those of `ort-cpu`. pricekit compares them while it predicts, on the rows that it prices: at
    first whole batches, which are priced twice; later the highest price, the lowest one and a random one of each call,
    or of 1,000 rows in small calls. A price that differs by more than 2% is a PluginError, in that call and in all that
    follow, and so are two runs of one batch that differ by more than 0.1%. `auto` compares the engine in batches of 1
    to 256 invented rows, and skips it if they differ. A graph whose `precision` is fp32 needs float32 or TF32: in
    bfloat16, the log of a price above 3,000 has too few digits.

    Example:
        >>> import numpy as np
        >>> from pricekit import plugin
        >>> class Constant(plugin.Engine):
        ...     def load(self, graph):
        ...         return lambda batch: np.full(len(batch["input_ids"]), 9.5, np.float32)
        >>> Constant().load(None)({"input_ids": np.ones((2, 5), np.int64)})
        array([9.5, 9.5], dtype=float32)
    """

    length_multiple: int = 1
    """L is rounded up to a multiple of this, for engines that are slow at some shapes; not above `graph.max_length`.

    Like the other numbers, it is read after `load`, which may set it."""

    streams: int = 1
    """The number of batches that it processes concurrently, each in its own thread. With 1, calls never overlap."""

    batch_tokens: int = 2048
    """The maximum number of tokens per batch, padding included."""

    backbone: str | None = None
    """The only backbone whose graphs it loads, and its checks use; None: any."""

    def load(self, graph: Graph) -> PriceBatch:
        """Return a function that prices batches of any size, and of any length up to `graph.max_length`.

        It returns a new array for each batch, float32 (B,), in the order of the rows, and does not change the batch.
        Several processes may load the same graph at the same time; all files belong in `graph.cache`.

        Raises:
            PluginError: a library or a device is missing; names it, and for a library the line `pip install ...`.
                `auto` then skips this engine.
            BundleError: the graph itself cannot be loaded.
        """
        raise NotImplementedError

    def runs_on(self) -> str:
        """Return what it would run on here, for `pricekit plugins doctor`; raises PluginError like `load`."""
        return ""
