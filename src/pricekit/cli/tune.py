"""`pricekit tune`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.common import again
from pricekit.cli.options import optional_table, options_of
from pricekit.cli.project import begin_training, interrupted_search, next_folder, run_training
from pricekit.cli.terminal import show_result, show_table
from pricekit.io.files import read_json
from pricekit.options import TuneOptions

if TYPE_CHECKING:
    from pricekit.metrics import Metric
    from pricekit.model import Tuning


@click.command
@optional_table
@options_of(TuneOptions, out="runs/tune-NUMBER")
def tune(**flags: Any) -> None:
    """Search for better settings for TABLE with Optuna, among those that the plugins declare.

    \b
    pricekit tune products.csv --time-budget 1h --out tuned
    pricekit tune products.csv --out tuned --processes 4 --resume
    pricekit export tuned/run --out bundle
    pricekit train products.csv --config tuned/config.toml

    A part of the rows, 15%, is set aside. Each trial trains on folds of the others; trials that fall behind are stopped
    early. The best settings are chosen if they are better on the folds beyond chance than those that the search starts
    from. At the end, a model with each of both is trained and scored, once, on the rows that no trial saw.
    The folder contains the chosen model in run, its settings in config.toml, importance.csv and trials.csv.
    """
    config = flags["config"]
    flags = begin_training(flags)
    import pricekit as pk
    from pricekit.metrics import metric_named

    flags["out"] = flags["out"] or (flags["resume"] and interrupted_search()) or next_folder("tune")
    tuning = run_training(pk.tune, flags, config)
    facts = read_json(tuning.path / "tune.json")
    metric, final, rows, trials = (facts[name] for name in ("metric", "on_final_rows", "rows", "trials"))
    _show_settings(tuning, trials)
    show_result(
        f"{rows['final']:,} rows that no trial saw: {_comparison(metric_named(metric), final)}",
        tuned=final["tuned"],
        default=final["default"],
        interval=final["interval"],
        verdict=final["verdict"],
        trials=trials,
    )
    folder = str(flags["out"])
    run = shlex.quote(f"{folder}/run")
    show_result(
        f"the model is in {run}, its settings in {folder}/config.toml; next: pricekit export {run} --out BUNDLE"
        + again(),
        out=folder,
    )


def _show_settings(tuning: Tuning, trials: Mapping[str, int]) -> None:
    """Print the searched settings, the most important first."""
    shown = [
        [
            str(name),
            _written(row["default"]),
            "" if row["tuned"] == row["default"] else _written(row["tuned"]),
            "" if row["importance"] != row["importance"] else f"{row['importance']:.2f}",
        ]
        for name, row in tuning.settings.iterrows()
    ]
    kinds = ", ".join(f"{count} {state}" for state, count in trials.items())
    show_table(f"trials: {kinds}", ["setting", "default", "tuned", "importance"], shown)


def _comparison(metric: Metric, final: dict[str, Any]) -> str:
    """Return a sentence that compares both models."""
    tuned, default = final["tuned"], final["default"]
    if tuned == default:
        return f"{metric.title} {metric.write(tuned)} with the settings of the start, which are kept"
    text = f"{metric.title} {metric.write(tuned)} with the chosen settings, {metric.write(default)} before"
    if final["interval"] is None:
        return f"{text} (too few rows for an interval)"
    low, high = (metric.write(bound, tuned, sign=True) for bound in final["interval"])
    return f"{text}; difference {low} to {high} (95% interval): {final['verdict']}"


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
