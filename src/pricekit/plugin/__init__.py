"""What the author of a plugin uses: base classes, decorators and hooks, building blocks, tables and errors.

A plugin is a class that derives from the base class of its kind: `Feature`, `Backbone`, `Loss`, `Policy`, `Engine` or
`Source`.
In a single file, the decorator of that kind registers it. In a package, a hook does, which imports nothing.
`pricekit.plugin.commands` serves packages with a command, and `pricekit.plugin.runners` servers and clusters.

Each name is imported from the module that defines it when it is first used, so registering a plugin loads no library.

Example:
    >>> from pricekit import plugin
    >>> @plugin.feature("exclamations")
    ... class Exclamations(plugin.Feature):
    ...     "the number of exclamation marks"
    ...     names = ("exclamations",)
    ...     def transform(self, table, state):
    ...         return table.text.str.count("!").to_numpy("float32")[:, None]
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # The list of names, which `__getattr__` reads. `X as X` exports X.
    # base classes, decorators and hooks
    from pricekit.core.contracts import (
        Backbone as Backbone,
        Batch as Batch,
        Encoder as Encoder,
        Engine as Engine,
        Feature as Feature,
        Graph as Graph,
        Loss as Loss,
        PriceBatch as PriceBatch,
        State as State,
        WeightsSource as WeightsSource,
    )
    from pricekit.training.policies import Policy as Policy
    from pricekit.core.hookspecs import (
        API as API,
        Register as Register,
        backbone as backbone,
        engine as engine,
        feature as feature,
        hookimpl as hookimpl,
        loss as loss,
        policy as policy,
        source as source,
    )
    from pricekit.io.sources import (
        Output as Output,
        Sink as Sink,
        Source as Source,
        parameters_of_address as parameters_of_address,
        retried as retried,
    )

    # options of plugins, and settings
    from pricekit.config import (
        Search as Search,
        Section as Section,
        TrainingConfig as TrainingConfig,
    )
    from pricekit.features.fitted import LOCAL as LOCAL

    # compiled functions
    from pricekit.text.kernel import (
        KERNEL as KERNEL,
        Kernel as Kernel,
        ScannedWords as ScannedWords,
    )

    # tables and texts
    from pricekit.features.catalog import Optimized22 as Optimized22
    from pricekit.text.labelled_lines import (
        as_strings as as_strings,
        numpy_of as numpy_of,
    )
    from pricekit.table import (
        Columns as Columns,
        Table as Table,
        read_frame as read_frame,
        table_of_texts as table_of_texts,
    )
    from pricekit.text.tokens import (
        Tokens as Tokens,
        encode as encode,
        train_bpe as train_bpe,
    )

    # networks, losses and optimizers
    from pricekit.predict.ort import GRAPH_INPUTS as GRAPH_INPUTS
    from pricekit.nets.losses import LogPrice as LogPrice
    from pricekit.nets.pretrained import quiet_transformers as quiet_transformers
    from pricekit.nets.transformer import (
        Architecture as Architecture,
        PretrainedPlugin as PretrainedPlugin,
    )
    from pricekit.training.optimizers import (
        RowwiseAdagrad as RowwiseAdagrad,
        adamw as adamw,
        parameter_groups as parameter_groups,
        sparse_embeddings as sparse_embeddings,
        warmup_cosine as warmup_cosine,
    )

    # errors, messages and progress
    from pricekit.errors import (
        BundleError as BundleError,
        ConfigError as ConfigError,
        DataError as DataError,
        PluginError as PluginError,
        PricekitError as PricekitError,
        TrainingError as TrainingError,
        path_of as path_of,
    )
    from pricekit.io.causes import raise_outside_cause as raise_outside_cause
    from pricekit.io.log import logger as logger
    from pricekit.io.progress import Reporter as Reporter
    from pricekit.wording import (
        counted as counted,
        did_you_mean as did_you_mean,
        nearest as nearest,
        printable as printable,
        shorten as shorten,
    )

    # files and CPUs
    from pricekit.io.storage import cache_folder as cache_folder
    from pricekit.predict.limits import check_graph as check_graph
    from pricekit.io.cpus import (
        CPUS as CPUS,
        usable_cpus as usable_cpus,
    )
    from pricekit.io.files import (
        describe_failure as describe_failure,
        temporary_folder as temporary_folder,
        temporary_path as temporary_path,
        write_text as write_text,
    )


def _listed() -> dict[str, tuple[str, str]]:
    """Return the module and the name there of each name that this module imports for type checkers."""
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_NAMES = _listed()

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'pricekit.plugin' has no attribute '{name}'")
    module, original = _NAMES[name]
    return getattr(import_module(module), original)


def __dir__() -> list[str]:
    return list(__all__)
