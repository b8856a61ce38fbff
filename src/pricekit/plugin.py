"""What plugins and services use, besides `pricekit` and `pricekit.testing`.

A feature, a backbone, a loss, a policy, an engine or an observer needs the first parts: hooks, contracts, options,
tables and errors. A server or a worker of a cluster also needs the engine that prices rows, sketches, and files.

Each name is imported from the module that defines it when it is first used, so registering a plugin loads no library.

Example:
    >>> from pricekit.plugin import hookimpl
    >>> @hookimpl
    ... def pricekit_register_losses(register):
    ...     register("log-mse", "my_package.losses:LogMse", "mean squared error of the log price")
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # The list of names, which `__getattr__` reads. `X as X` exports X.
    # hooks and contracts
    from pricekit.core.contracts import (
        Backbone as Backbone,
        Batch as Batch,
        Encoder as Encoder,
        Engine as Engine,
        Feature as Feature,
        Graph as Graph,
        Loss as Loss,
        Policy as Policy,
        PriceBatch as PriceBatch,
        State as State,
        WeightsSource as WeightsSource,
    )
    from pricekit.core.hookspecs import (
        API as API,
        Register as Register,
        hookimpl as hookimpl,
    )

    # options of plugins, and settings
    from pricekit.config import (
        Search as Search,
        Section as Section,
        TrainingConfig as TrainingConfig,
    )
    from pricekit.features.fitted import LOCAL as LOCAL

    # tables and texts
    from pricekit.features.catalog import Optimized22 as Optimized22
    from pricekit.text.labelled_lines import (
        as_strings as as_strings,
        numpy_of as numpy_of,
    )
    from pricekit.table import (
        MAX_TEXT_CHARS as MAX_TEXT_CHARS,
        Columns as Columns,
        Table as Table,
        read_frame as read_frame,
        table_of_texts as table_of_texts,
    )
    from pricekit.table.columns import (
        as_model_text as as_model_text,
        text_array as text_array,
    )
    from pricekit.text.tokens import train_bpe as train_bpe

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
        ExportError as ExportError,
        LostProcessError as LostProcessError,
        NoRowsError as NoRowsError,
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
        scheme_of as scheme_of,
        shorten as shorten,
    )

    # files, addresses and CPUs
    from pricekit.predict.bundle import files_of_bundle as files_of_bundle
    from pricekit.predict.limits import check_graph as check_graph
    from pricekit.io.storage import (
        Address as Address,
        Location as Location,
        cache_folder as cache_folder,
        fingerprints_below as fingerprints_below,
        location_of as location_of,
    )
    from pricekit.io.cpus import CPUS as CPUS
    from pricekit.io.cpus import usable_cpus as usable_cpus
    from pricekit.io.files import (
        describe_failure as describe_failure,
        temporary_folder as temporary_folder,
        temporary_path as temporary_path,
        write_text as write_text,
    )
    from pricekit.io.interrupts import finish_first as finish_first

    # prices of rows, and of the files of a folder
    from pricekit.predict.keys import (
        Trust as Trust,
        read_trust as read_trust,
    )
    from pricekit.metrics import METRICS as METRICS
    from pricekit.options import (
        Keys as Keys,
        OpenOptions as OpenOptions,
        PathLike as PathLike,
    )
    from pricekit.predict.files import WINDOW as WINDOW
    from pricekit.predict.folders import (
        Job as Job,
        Outcome as Outcome,
        Part as Part,
        Runner as Runner,
    )
    from pricekit.predict.intervals import BOUNDS as BOUNDS
    from pricekit.predict.members import (
        BundleReader as BundleReader,
        read_bundle as read_bundle,
        table_of as table_of,
    )
    from pricekit.predict.predictor import (
        Predictor as Predictor,
        Shipped as Shipped,
    )
    from pricekit.runs.load import open_predictor as open_predictor
    from pricekit.answers.insight import (
        comparables_of as comparables_of,
        explain_prices as explain_prices,
    )

    # sketches of the rows that a model was trained on, and of those that it priced
    from pricekit.insight.counts import Counts as Counts
    from pricekit.insight.drift import require_sketch as require_sketch
    from pricekit.insight.fields import TEXT_FIELDS as TEXT_FIELDS
    from pricekit.insight.priced_rows import (
        WAIT_SECONDS as WAIT_SECONDS,
        BusyError as BusyError,
        PricedRows as PricedRows,
        add_when_free as add_when_free,
        check_priced_file as check_priced_file,
    )
    from pricekit.insight.sketch import MOST_OTHER_COLUMNS as MOST_OTHER_COLUMNS
    from pricekit.insight.sketch import SKETCH as SKETCH
    from pricekit.insight.sketch import (
        Sketch as Sketch,
        read_sketch as read_sketch,
    )

    # commands
    from pricekit.cli.options import (
        FOLDER as FOLDER,
        options_of as options_of,
    )
    from pricekit.cli.terminal import (
        begin as begin,
        show_result as show_result,
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
