"""What the author of a plugin uses: base classes, decorators and hooks, building blocks, tables and errors.

A plugin is a class that derives from the base class of its kind: `Feature`, `Backbone`, `Loss`, `Policy` or `Engine`.
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
    # hooks and contracts
    # options of plugins, and settings
    from pricekit.config import (
        Search as Search,
    )
    from pricekit.config import (
        Section as Section,
    )
    from pricekit.config import (
        TrainingConfig as TrainingConfig,
    )
    from pricekit.core.contracts import (
        Backbone as Backbone,
    )
    from pricekit.core.contracts import (
        Batch as Batch,
    )
    from pricekit.core.contracts import (
        Encoder as Encoder,
    )
    from pricekit.core.contracts import (
        Engine as Engine,
    )
    from pricekit.core.contracts import (
        Feature as Feature,
    )
    from pricekit.core.contracts import (
        Graph as Graph,
    )
    from pricekit.core.contracts import (
        Loss as Loss,
    )
    from pricekit.core.contracts import (
        PriceBatch as PriceBatch,
    )
    from pricekit.core.contracts import (
        State as State,
    )
    from pricekit.core.contracts import (
        WeightsSource as WeightsSource,
    )
    from pricekit.core.hookspecs import (
        API as API,
    )
    from pricekit.core.hookspecs import (
        Register as Register,
    )
    from pricekit.core.hookspecs import (
        backbone as backbone,
    )
    from pricekit.core.hookspecs import (
        engine as engine,
    )
    from pricekit.core.hookspecs import (
        feature as feature,
    )
    from pricekit.core.hookspecs import (
        hookimpl as hookimpl,
    )
    from pricekit.core.hookspecs import (
        loss as loss,
    )
    from pricekit.core.hookspecs import (
        policy as policy,
    )

    # errors, messages and progress
    from pricekit.errors import (
        BundleError as BundleError,
    )
    from pricekit.errors import (
        ConfigError as ConfigError,
    )
    from pricekit.errors import (
        DataError as DataError,
    )
    from pricekit.errors import (
        ExportError as ExportError,
    )
    from pricekit.errors import (
        PluginError as PluginError,
    )
    from pricekit.errors import (
        PricekitError as PricekitError,
    )
    from pricekit.errors import (
        TrainingError as TrainingError,
    )
    from pricekit.errors import (
        path_of as path_of,
    )

    # tables and texts
    from pricekit.features.catalog import Optimized22 as Optimized22
    from pricekit.features.fitted import LOCAL as LOCAL
    from pricekit.io.causes import raise_outside_cause as raise_outside_cause
    from pricekit.io.cpus import CPUS as CPUS
    from pricekit.io.cpus import usable_cpus as usable_cpus
    from pricekit.io.files import (
        describe_failure as describe_failure,
    )
    from pricekit.io.files import (
        temporary_folder as temporary_folder,
    )
    from pricekit.io.files import (
        temporary_path as temporary_path,
    )
    from pricekit.io.files import (
        write_text as write_text,
    )
    from pricekit.io.log import logger as logger
    from pricekit.io.progress import Reporter as Reporter
    from pricekit.io.storage import (
        cache_folder as cache_folder,
    )
    from pricekit.nets.losses import LogPrice as LogPrice
    from pricekit.nets.pretrained import quiet_transformers as quiet_transformers
    from pricekit.nets.transformer import (
        Architecture as Architecture,
    )
    from pricekit.nets.transformer import (
        PretrainedPlugin as PretrainedPlugin,
    )

    # files, addresses and CPUs
    from pricekit.predict.limits import check_graph as check_graph
    from pricekit.predict.ort import GRAPH_INPUTS as GRAPH_INPUTS
    from pricekit.table import (
        Columns as Columns,
    )
    from pricekit.table import (
        Table as Table,
    )
    from pricekit.table import (
        read_frame as read_frame,
    )
    from pricekit.table import (
        table_of_texts as table_of_texts,
    )
    from pricekit.text.labelled_lines import (
        as_strings as as_strings,
    )
    from pricekit.text.labelled_lines import (
        numpy_of as numpy_of,
    )
    from pricekit.text.tokens import (
        Tokens as Tokens,
    )
    from pricekit.text.tokens import (
        encode as encode,
    )
    from pricekit.text.tokens import (
        train_bpe as train_bpe,
    )
    from pricekit.training.optimizers import (
        RowwiseAdagrad as RowwiseAdagrad,
    )
    from pricekit.training.optimizers import (
        adamw as adamw,
    )
    from pricekit.training.optimizers import (
        parameter_groups as parameter_groups,
    )
    from pricekit.training.optimizers import (
        sparse_embeddings as sparse_embeddings,
    )
    from pricekit.training.optimizers import (
        warmup_cosine as warmup_cosine,
    )

    # networks, losses, optimizers and policies
    from pricekit.training.policies import Policy as Policy
    from pricekit.wording import (
        counted as counted,
    )
    from pricekit.wording import (
        did_you_mean as did_you_mean,
    )
    from pricekit.wording import (
        nearest as nearest,
    )
    from pricekit.wording import (
        printable as printable,
    )
    from pricekit.wording import (
        shorten as shorten,
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
