"""The hooks that a plugin may implement: one for each kind of plugin, and one for each event of a run.

A plugin is a module named in the entry-point group `pricekit`. Each hook that registers is called once with a
`register` function. Registering names a lazy target, so nothing heavy is imported until it is used:

    import pricekit

    @pricekit.hookimpl
    def pricekit_register_losses(register):
        register("log-mse", "my_package.losses:LogMse", "mean squared error of the log price")

The other hooks observe: what they return is ignored, and one that raises is said once and stops nothing. They get
copies. Of several processes that train together the first one alone calls them. A hook may leave out arguments
that it does not need.

A module may say for which version of this interface it was written: `pricekit_api = 1`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import pluggy

API = 1
"""The version of the plugin interface: docs/plugins/versions.md says what may change when."""

hookspec = pluggy.HookspecMarker("pricekit")
hookimpl = pluggy.HookimplMarker("pricekit")


class Register(Protocol):
    """What a hook is given: names one plugin of the hook's kind."""

    def __call__(self, name: str, target: str, summary: str) -> None:
        """Register a plugin.

        Args:
            name: how users call it, in lower case with hyphens, e.g. `focal-smape`.
            target: where it is, `package.module:Attribute`; imported at its first use.
            summary: one line for `pricekit plugins list`.
        """


@hookspec
def pricekit_register_features(register: Register) -> None:
    """Register features: see `pricekit.core.contracts.Feature`."""


@hookspec
def pricekit_register_backbones(register: Register) -> None:
    """Register backbones: see `pricekit.core.contracts.Backbone`."""


@hookspec
def pricekit_register_losses(register: Register) -> None:
    """Register losses: see `pricekit.core.contracts.Loss`."""


@hookspec
def pricekit_register_policies(register: Register) -> None:
    """Register policies: see `pricekit.core.contracts.Policy`."""


@hookspec
def pricekit_register_engines(register: Register) -> None:
    """Register engines: see `pricekit.core.contracts.Engine`."""


@hookspec
def pricekit_run_started(
    folder: Path, config: Mapping[str, Any], rows: Mapping[str, int], resumed: bool
) -> None:
    """Observe that training begins: the table was read and every plugin has passed a batch.

    Args:
        folder: of the run.
        config: the whole configuration as nested tables; settings that are None are left out.
        rows: how many rows there are to `train` on and to validate on, `valid`.
        resumed: the run goes on from its last checkpoint.
    """


@hookspec
def pricekit_epoch_ended(folder: Path, record: Mapping[str, Any]) -> None:
    """Observe that an epoch was validated. After a kill, a resumed run may tell the same epoch again.

    Args:
        folder: of the run.
        record: the epoch's line in `metrics.jsonl`: `epoch` and `step` from 1, `loss`, `valid_smape`,
            `learning_rate`, `rows_per_second`, `seconds` and others, all of them numbers.
    """


@hookspec
def pricekit_checkpoint_saved(folder: Path, path: Path) -> None:
    """Observe that a checkpoint was written.

    Args:
        folder: of the run.
        path: the file: `last.safetensors` to resume from, or `best.safetensors`.
    """


@hookspec
def pricekit_run_ended(
    folder: Path, outcome: Literal["finished", "interrupted", "failed"], facts: Mapping[str, Any]
) -> None:
    """Observe that training ended, whichever way.

    Args:
        folder: of the run.
        outcome: how.
        facts: what `run.json` says: `metrics`, `best_epoch`, `seconds`, `rows`, `plugins`; empty unless finished.
    """


@hookspec
def pricekit_bundle_exported(folder: Path, bundle: Path, manifest: Mapping[str, Any]) -> None:
    """Observe that a bundle was published.

    Args:
        folder: of the run that it was made from.
        bundle: its folder.
        manifest: its `manifest.json`.
    """
