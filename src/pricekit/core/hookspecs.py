"""The hooks that a plugin may implement: one per kind of plugin, and one per event of a run.

A plugin is a module named in the entry-point group `pricekit`. Each registering hook is called once with a
`register` function. It takes the path of the plugin, which is imported on first use:

    import pricekit

    @pricekit.plugin.hookimpl
    def pricekit_register_losses(register):
        register("log-mse", "my_package.losses:LogMse", "mean squared error of the log price")

The other hooks observe: their return values are ignored, and an exception is logged once and does not stop the run.
They receive copies. If several processes train together, only the first one calls them. A hook may omit arguments
that it does not need.

A module may be a tracker, which runs ask for: it has a name, `pricekit_tracker = "mlflow"`, and
its hooks observe only runs whose setting `track` has this name. A module without a name observes all runs.

A module may declare the version of this interface that it was written for: `pricekit_api = 1`.

A single file needs no registering hook: a decorator, such as `@plugin.feature("emoji")`, registers the class below it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import pluggy

from pricekit.errors import PluginError

API = 1
"""The version of the plugin interface; docs/plugins/versions.md explains its changes."""

hookspec = pluggy.HookspecMarker("pricekit")
hookimpl = pluggy.HookimplMarker("pricekit")
"""Mark a function of a plugin module as a hook that pricekit calls.

Example:
    >>> import pricekit
    >>> @pricekit.plugin.hookimpl
    ... def pricekit_register_losses(register):
    ...     register("log-mse", "my_package.losses:LogMse", "mean squared error of the log price")
    >>> pricekit_register_losses(print)
    log-mse my_package.losses:LogMse mean squared error of the log price
"""


_Class = TypeVar("_Class", bound=type)

NAMED = "pricekit_plugin"
"""The attribute in which a decorator notes the kind and the name of a class."""


def _named(kind: str, name: str) -> Callable[[_Class], _Class]:
    if not isinstance(name, str) or not name:
        raise PluginError(
            f'the decorator of a {kind} needs a name: write @plugin.{kind}("name") above the class'
        )

    def note(plugin: _Class) -> _Class:
        if not isinstance(plugin, type):
            thing = type(plugin).__name__
            raise PluginError(
                f"@plugin.{kind}({name!r}) stands above a {thing}; expected a class: derive it from "
                f"plugin.{kind.title()}"
            )
        setattr(plugin, NAMED, (kind, name))
        return plugin

    return note


def feature(name: str = "") -> Callable[[_Class], _Class]:
    """Register the class below as a feature; the first line of its docstring is the summary.

    It registers the classes of a plugin file, and of the module that an entry point names.

    Args:
        name: required, in lower case with hyphens.

    Example:
        >>> from pricekit import plugin
        >>> @plugin.feature("exclamations")
        ... class Exclamations(plugin.Feature):
        ...     "the number of exclamation marks"
        ...     names = ("exclamations",)
        ...     def transform(self, table, state):
        ...         return table.text.str.count("!").to_numpy("float32")[:, None]
    """
    return _named("feature", name)


def backbone(name: str = "") -> Callable[[_Class], _Class]:
    """Register the class below as a backbone, as `feature` does.

    Args:
        name: required, in lower case with hyphens.

    Example:
        >>> from pricekit import plugin
        >>> from pricekit.nets.bag import Bag
        >>> @plugin.backbone("wide-bag")
        ... class WideBag(Bag):
        ...     "bag with wider embeddings"
    """
    return _named("backbone", name)


def loss(name: str = "") -> Callable[[_Class], _Class]:
    """Register the class below as a loss, as `feature` does.

    Args:
        name: required, in lower case with hyphens.

    Example:
        >>> from pricekit import plugin
        >>> @plugin.loss("log-mse")
        ... class LogMse(plugin.LogPrice):
        ...     "mean squared error of the log price"
        ...     def terms(self, raw, price):
        ...         return (self.log_price(raw) - price.log()).square()
    """
    return _named("loss", name)


def policy(name: str = "") -> Callable[[_Class], _Class]:
    """Register the class below as a policy, as `feature` does.

    Args:
        name: required, in lower case with hyphens.

    Example:
        >>> from pricekit import plugin
        >>> @plugin.policy("patient")
        ... class Patient(plugin.Policy):
        ...     "bag with more patience"
        ...     defaults = {"training": {"epochs": 12, "patience": 6}}
    """
    return _named("policy", name)


def engine(name: str = "") -> Callable[[_Class], _Class]:
    """Register the class below as an engine, as `feature` does.

    Args:
        name: required, in lower case with hyphens.

    Example:
        >>> from pricekit import plugin
        >>> @plugin.engine("one-thread")
        ... class OneThread(plugin.Engine):
        ...     "ONNX Runtime on one core"
        ...     def load(self, graph):
        ...         import onnxruntime
        ...         session = onnxruntime.InferenceSession(graph.model)
        ...         return lambda batch: session.run(["price"], dict(batch))[0]
    """
    return _named("engine", name)


def source(name: str = "") -> Callable[[_Class], _Class]:
    """Register the class below as a source, as `feature` does.

    Args:
        name: required, the scheme of its addresses.

    Example:
        >>> import pyarrow as pa
        >>> from contextlib import contextmanager
        >>> from pricekit import plugin
        >>> @plugin.source("shop")
        ... class Shop(plugin.Source):
        ...     "the products of our shop"
        ...     @contextmanager
        ...     def read(self, address, columns=None, limit=None):
        ...         yield pa.table({"title": ["Green tea"]}).slice(0, limit).to_reader()
    """
    return _named("source", name)


class Register(Protocol):
    """The argument of a registering hook; registers one plugin of the hook's kind.

    Example:
        >>> def registers(register):
        ...     register("log-mse", "my_package.losses:LogMse", "mean squared error of the log price")
        >>> registers(lambda name, target, summary: print(name))
        log-mse
    """

    def __call__(self, name: str, target: str, summary: str) -> None:
        """Register a plugin.

        Args:
            name: its name in lower case with hyphens, e.g. `focal-smape`.
            target: its location, `package.module:Attribute`; imported on first use.
            summary: one line for `pricekit plugins list`.
        """


@hookspec
def pricekit_register_features(register: Register) -> None:
    """Register features: see `pricekit.plugin.Feature`."""


@hookspec
def pricekit_register_backbones(register: Register) -> None:
    """Register backbones: see `pricekit.plugin.Backbone`."""


@hookspec
def pricekit_register_losses(register: Register) -> None:
    """Register losses: see `pricekit.plugin.Loss`."""


@hookspec
def pricekit_register_policies(register: Register) -> None:
    """Register policies: see `pricekit.plugin.Policy`."""


@hookspec
def pricekit_register_engines(register: Register) -> None:
    """Register engines: see `pricekit.plugin.Engine`."""


@hookspec
def pricekit_register_kernels(register: Register) -> None:
    """Register compiled functions that replace those of pricekit: see `pricekit.plugin.Kernel`."""


@hookspec
def pricekit_register_sources(register: Register) -> None:
    """Register sources, each with the scheme of its addresses as its name: see `pricekit.plugin.Source`."""


@hookspec
def pricekit_run_started(
    folder: Path, config: Mapping[str, Any], rows: Mapping[str, int], resumed: bool
) -> None:
    """Observe the start of training, after the table was read and every plugin was tried on a batch.

    Args:
        folder: of the run; while it replaces a finished run, a hidden folder beside that. An observer writes its files
            below `observers/NAME` in it, which pricekit keeps.
        config: the complete configuration as nested tables, without settings that are None.
        rows: the numbers of rows: `train` and `valid`.
        resumed: the run continues from its last checkpoint.
    """


@hookspec
def pricekit_epoch_ended(folder: Path, record: Mapping[str, Any]) -> None:
    """Observe the end of an epoch, after validation. After a kill, a resumed run may repeat an epoch.

    The epochs of a second pass on all rows, which has no validation, are not observed.

    Args:
        folder: of the run.
        record: the epoch's line in `metrics.jsonl`: `epoch` and `step` from 1, `loss`, `valid_smape` (or
            `valid_` and the name of the run's metric), `learning_rate`, `rows_per_second`,
            `seconds` and others, all numbers.
    """


@hookspec
def pricekit_checkpoint_saved(folder: Path, path: Path) -> None:
    """Observe a written checkpoint.

    Args:
        folder: of the run.
        path: the file: `last.safetensors` to resume from, or `best.safetensors`; those of a second pass are
            in the folder `refit`.
    """


@hookspec
def pricekit_run_ended(
    folder: Path, outcome: Literal["finished", "interrupted", "failed"], facts: Mapping[str, Any]
) -> None:
    """Observe the end of training.

    Args:
        folder: of the run.
        outcome: how it ended.
        facts: of `run.json`: `metrics`, `best_epoch`, `seconds`, `rows`, `plugins`, and `refit` after a second pass;
            empty unless finished.
    """


@hookspec
def pricekit_cross_validation_started(
    folder: Path, config: Mapping[str, Any], folds: int, resumed: bool
) -> None:
    """Observe the start of a cross-validation; the runs of its folds follow, in folders below its own.

    Args:
        folder: of the cross-validation; while it replaces a finished one, a hidden folder beside that. An observer
            writes its files below `observers/NAME` in it.
        config: of each fold, as for `pricekit_run_started`.
        folds: their number.
        resumed: the cross-validation continues; the runs of finished folds are not observed again.
    """


@hookspec
def pricekit_cross_validation_ended(
    folder: Path, outcome: Literal["finished", "interrupted", "failed"], facts: Mapping[str, Any]
) -> None:
    """Observe the end of a cross-validation.

    Args:
        folder: of the cross-validation.
        outcome: how it ended.
        facts: of `cv.json`: `metric`, `folds`, `scores`, `seconds` and others; empty unless finished.
    """


@hookspec
def pricekit_bundle_exported(folder: Path, bundle: Path, manifest: Mapping[str, Any]) -> None:
    """Observe an exported bundle.

    Args:
        folder: of the exported run.
        bundle: its folder.
        manifest: its `manifest.json`.
    """
