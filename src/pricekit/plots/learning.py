"""Loss and validation metric by epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pricekit.errors import DataError
from pricekit.io.files import read_json
from pricekit.io.record import kind_of
from pricekit.metrics import METRICS, SMAPE, Metric
from pricekit.options import clear_errors, model_path
from pricekit.plots.drawing import (
    MARKERS,
    Display,
    axes_for,
    inks,
    label_axis,
    legend_below,
    metric_label,
    plain,
    require_matplotlib,
)
from pricekit.plots.predictions import currency_of
from pricekit.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "metrics.jsonl"
_LOSS = (0, (1, 1.2))


@dataclass(frozen=True, eq=False)
class Curve:
    """The epochs of one run.

    Attributes:
        name: which run it is, such as "fold 0" or "member trees"; "" for a single run.
        epoch: int64 (E,).
        loss: the mean training loss of each epoch, float64 (E,).
        score: the validation metric after each epoch, float64 (E,), NaN without validation rows.
        best: the epoch whose weights were kept; None if it is not known.
    """

    name: str
    epoch: np.ndarray
    loss: np.ndarray
    score: np.ndarray
    best: int | None


@dataclass(repr=False, eq=False)
class LearningCurveDisplay(Display):
    """The validation metric and the training loss by epoch, with the best epoch, for each run of a model.

    Args:
        curves: one for a run, one for each member of an ensemble and each fold of a cross-validation.
        metric: the validation metric.
        currency: of the prices; None if unknown.

    Attributes:
        ax_: the axes that `plot` drew on: those of the metric.
        figure_: their figure.

    Example:
        >>> import pricekit as pk
        >>> run = pk.train(pk.make_catalog(200), epochs=2, settings={"training.refit": False})
        >>> pk.plots.LearningCurveDisplay.from_model(run).curves[0].epoch.tolist()
        [1, 2]
    """

    curves: tuple[Curve, ...]
    metric: Metric
    currency: str | None = None

    @classmethod
    @clear_errors()
    def from_model(cls, model: Any, *, ax: Axes | None = None) -> LearningCurveDisplay:
        """Draw the epochs of a run, an ensemble or a cross-validation, finished or not.

        After a refit, these are the epochs of the first pass.

        Args:
            model: its path or handle.
            ax: the axes to draw on; default: those of a new figure.

        Raises:
            ConfigError: matplotlib is not installed.
            DataError: the model has no epochs, or a file is damaged.
        """
        require_matplotlib()
        path = model_path(model, "model")
        read = [_curve(folder, name) for folder, name in _runs(path, "")]
        if not read:
            raise DataError(_absence(path), path=str(path))
        curves, metrics = zip(*read, strict=True)
        return cls(curves, next(filter(None, metrics), SMAPE), currency_of(path)).plot(ax)

    def plot(self, ax: Axes | None = None) -> LearningCurveDisplay:
        """Draw on axes, or on those of a new figure; return the display itself."""
        ax = axes_for(ax)
        from matplotlib.ticker import MaxNLocator

        ink, several = inks(), len(self.curves) > 1
        scored = any(np.isfinite(curve.score).any() for curve in self.curves)
        losses = ax.twinx() if scored else ax
        losses.patch.set_alpha(0.0)
        for place, curve in enumerate(self.curves):
            colour, marker = ink.several[place % len(ink.several)], MARKERS[place % len(MARKERS)]
            every = max(1, len(curve.epoch) // 10)
            (line,) = losses.plot(
                curve.epoch, curve.loss, linestyle=_LOSS, linewidth=1.3, color=colour, marker=marker,
                markersize=4, markevery=every,
            )  # fmt: skip
            if scored:
                (line,) = ax.plot(
                    curve.epoch, curve.score, color=colour, marker=marker, markersize=4, markevery=every
                )
                if curve.best is not None and (at := np.flatnonzero(curve.epoch == curve.best)).size:
                    ax.plot(
                        curve.epoch[at], curve.score[at], "o", color=colour, markersize=13,
                        markerfacecolor="none", zorder=4,
                    )  # fmt: skip
                    if not several:
                        ax.axvline(curve.best, color=ink.text, linewidth=0.8, alpha=0.5)
            if several:
                line.set_label(plain(curve.name))
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        losses.set_ylabel("training loss (dotted)")
        if scored:
            losses.spines["top"].set_visible(False)
            label_axis(ax, "y", f"validation {metric_label(self.metric, self.currency)}")
            if any(curve.best is not None for curve in self.curves):
                label = "best epoch" if several else f"best epoch: {self.curves[0].best}"
                ax.plot([], [], "o", markersize=9, markerfacecolor="none", color=ink.text, label=label)
        if labels := ax.get_legend_handles_labels()[1]:
            legend_below(ax, min(4, len(labels)))
        runs = f"{counted(len(self.curves), 'run')}, " if several else ""
        return self._drawn_on(ax, runs + self._epochs)

    @property
    def _epochs(self) -> str:
        return counted(max(int(curve.epoch.max()) for curve in self.curves), "epoch")

    def __repr__(self) -> str:
        return f"LearningCurveDisplay({counted(len(self.curves), 'run')}, {self._epochs})"


def _runs(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the folder of each run in a model's folder, with its name."""
    if (path / FILE).is_file():
        yield path, name
        return
    for kind, pattern in (("fold", "fold-*"), ("member", "members/*")):
        for folder in sorted(path.glob(pattern), key=lambda each: (len(each.name), each.name)):
            yield from _runs(
                folder, ", ".join(filter(None, [name, f"{kind} {folder.name.removeprefix('fold-')}"]))
            )


def _curve(folder: Path, name: str) -> tuple[Curve, Metric | None]:
    """Return the epochs of a run and its validation metric, if it has validation rows; raises DataError."""
    try:
        lines = [json.loads(line) for line in (folder / FILE).read_text("utf-8").splitlines()]
        epoch = np.array([line["epoch"] for line in lines], np.int64)
        loss = np.array([line["loss"] for line in lines], np.float64)
        metric = next((m for m in METRICS.values() if any(f"valid_{m.name}" in line for line in lines)), None)
        score = np.array([line.get(f"valid_{metric.name}") if metric else None for line in lines], np.float64)
        if not len(lines):
            raise ValueError("it has no epochs")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder / FILE} is damaged ({error}). Train again.", path=str(folder)) from None
    best = None
    with suppress(OSError, ValueError, KeyError, TypeError):  # not finished, or from another source
        best = int(read_json(folder / "run.json")["best_epoch"])
    return Curve(name, epoch, loss, score, best), metric


def _absence(path: Path) -> str:
    """Explain why a folder has no epochs."""
    if not path.is_dir():
        return f"{path} {'is a file' if path.exists() else 'does not exist'}; expected the folder of a run"
    if kind_of(path) == "bundle":
        return f"{path} is a bundle, which contains no epochs; use the run that it was exported from"
    return f"{path} contains no {FILE}; expected the folder of a run, an ensemble or a cross-validation"
