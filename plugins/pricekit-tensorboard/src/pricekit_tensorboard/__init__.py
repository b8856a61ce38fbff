"""TensorBoard for pricekit: writes the metrics of each epoch below the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pricekit.plugin import hookimpl

pricekit_api = 1
pricekit_tracker = "tensorboard"


@hookimpl
def pricekit_run_started(folder: Path, config: Mapping[str, Any], resumed: bool) -> None:
    """Open the event file."""
    from pricekit_tensorboard import events

    events.start(folder, config, resumed=resumed)


@hookimpl
def pricekit_epoch_ended(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the epoch's scalars."""
    from pricekit_tensorboard import events

    events.write_epoch(folder, record)


@hookimpl
def pricekit_run_ended(folder: Path, outcome: str, facts: Mapping[str, Any]) -> None:
    """Write the final metrics and close the event file."""
    from pricekit_tensorboard import events

    events.end(folder, outcome, facts)
