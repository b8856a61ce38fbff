"""The events of runs in progress, written to `<run>/observers/tensorboard/`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from pricekit.plugin import logger

FOLDER = Path("observers", "tensorboard")
SUFFIX = ".pricekit"
"""The suffix of the event files of this package."""

TAGS = {
    "loss": "loss/train",
    "gpu_memory_gib": "gpu/memory_gib",
    "gpu_utilization": "gpu/utilization",
}
"""TensorBoard tags that differ from the names in `metrics.jsonl`."""

COUNTS = ("epoch", "step")
FINAL = ("final/smape", "final/mdape", "final/mae", "final/rmsle")


@dataclass
class Log:
    """The event log of a run."""

    folder: Path
    writer: SummaryWriter | None = None

    def open(self, purge_step: int | None = None) -> SummaryWriter:
        """Return the writer; when it is created, it hides earlier events from `purge_step` on."""
        if self.writer is None:
            self.writer = SummaryWriter(str(self.folder), purge_step=purge_step, filename_suffix=SUFFIX)
        return self.writer

    def add(self, *summaries: Any) -> None:
        """Write summaries directly: `SummaryWriter.add_hparams` would create a file with a different name."""
        files: Any = self.open().file_writer
        for summary in summaries:
            files.add_summary(summary)
        files.flush()


_logs: dict[Path, Log] = {}


def start(run: Path, config: Mapping[str, Any], *, resumed: bool) -> None:
    """Start the log of a run, or continue the one in its folder.

    A new run deletes the events of an older run in the same folder. The log of a resumed run opens at its next
    epoch, whose number is not known earlier.
    """
    log = Log(run / FOLDER)
    if not resumed:
        for old in log.folder.glob(f"events.out.tfevents.*{SUFFIX}"):
            old.unlink()
        experiment, session, _ = _session(
            flat(config), (_tag(f"valid_{config.get('metric', 'smape')}"), *FINAL)
        )
        log.add(experiment, session)
    _logs[run] = log
    logger.info(f"TensorBoard: tensorboard --logdir {shlex.quote(str(log.folder))}")


def _tag(name: str) -> str:
    """Return the tag of a value in `metrics.jsonl`; a validation metric such as `valid_smape` is `smape/validation`."""
    kind, _, metric = name.partition("valid_")
    return f"{metric}/validation" if metric and not kind else TAGS.get(name, name)


def write_epoch(run: Path, record: Mapping[str, Any]) -> None:
    """Write the metrics of an epoch; an epoch that is repeated after a kill replaces its earlier events."""
    if (log := _logs.get(run)) is None:
        return
    epoch = record["epoch"]
    writer = log.open(purge_step=epoch)
    for name, value in record.items():
        if name not in COUNTS:
            writer.add_scalar(_tag(name), value, epoch)
    writer.flush()


def end(run: Path, outcome: str, facts: Mapping[str, Any]) -> None:
    """Write the metrics of the best weights at their epoch, and close the log."""
    if (log := _logs.pop(run, None)) is None:
        return
    if outcome == "finished":
        writer = log.open()
        for name, value in facts["metrics"].items():
            writer.add_scalar(f"final/{name}", value, facts["best_epoch"])
        *_, success = _session({}, ())
        log.add(success)
    if log.writer is not None:
        log.writer.close()


def _session(settings: dict[str, bool | int | float | str], metrics: tuple[str, ...]) -> Any:
    """Return the summaries of the HPARAMS tab: the experiment, and the start and the success of a session."""
    return hparams(settings, dict.fromkeys(metrics, 0.0))  # type: ignore[no-untyped-call]


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, bool | int | float | str]:
    """Return nested settings under dotted names, lists as text."""
    settings: dict[str, bool | int | float | str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            settings |= flat(value, f"{prefix}{key}.")
        else:
            settings[prefix + key] = value if isinstance(value, bool | int | float | str) else str(value)
    return settings
