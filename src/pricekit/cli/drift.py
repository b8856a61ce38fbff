"""`pricekit drift`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.common import DRIFTED, ask_model
from pricekit.cli.options import json_option, model_and_table
from pricekit.cli.terminal import begin, show_data, show_result, show_table
from pricekit.options import DriftOptions
from pricekit.wording import counted, shorten

if TYPE_CHECKING:
    import pandas as pd

    from pricekit.insight.drift import Drift


@click.command
@model_and_table(DriftOptions)
@json_option("Print all of it as one JSON object on stdout.")
def drift(as_json: bool, **flags: Any) -> None:
    """Compare the rows of TABLE with those that MODEL was trained on. The training rows are not needed.

    \b
    pricekit drift bundle new.csv
    pricekit drift bundle new.csv --out drift.html
    pricekit drift bundle new.csv --fail-over psi=0.2 --fail-over auc=0.8
    pricekit drift bundle priced.json         what predict --watch priced.json has priced

    The command reports features, brands, units and words whose shares have changed, missing columns, the rows least
    like the training rows, and with known prices SMAPE then and now. An alarm needs a large difference: on a large
    table, a small one is significant, too.

    \b
    Measures of --fail-over: psi, distance, auc, unknown_words, unknown_tokens,
    unknown_brands, missing_columns, smape
    """
    begin(f"opening {flags['model']}", "pricekit.predict.predictor")
    result: Drift = ask_model("drift", flags)
    if as_json:
        show_data(result.to_json())
    else:
        _show(result)
    if flags["out"]:
        show_result(f"the page is in {flags['out']}", out=str(flags["out"]))
    for sentence in result.failures:
        show_result(f"over its limit: {sentence}")
    if result.failures:
        raise click.exceptions.Exit(DRIFTED)


def _show(result: Drift) -> None:
    """Print the verdict, then the frames, as far as they have rows."""
    show_result(
        f"{result.verdict} {counted(result.rows, 'row')} against {result.trained_on:,} training rows.",
        alarms=list(result.alarms),
    )
    for sentence in (*result.alarms, *result.notes):
        show_result(f"- {sentence}")
    measures = [
        [each.name, *map(_number, (each.value, each.then, each.now)), each.where]
        for each in result.measures.values()
    ]
    _show_rows("Measures", ["measure", "value", "then", "now", "where"], measures)
    shown = result.features[(result.features["psi"] > 0) | (result.features["distance"] > 0)]
    _show_frame(
        "Features by PSI", shown[["words", "psi", "distance", "rank"]].rename(columns={"words": "name"})
    )
    _show_frame("Values", result.values)
    _show_frame("Words", result.words)
    missing = result.missing[(result.missing["now"] - result.missing["then"]).abs() >= LEAST_SHOWN]
    _show_frame("Rows without a field", missing)
    outliers = [
        [str(row), f"{distance:.1f}", words]
        for row, distance, words in result.outliers[["row", "distance", "new_words"]].itertuples(index=False)
    ]
    _show_rows("Rows least like the training rows", ["row", "distance", "new words"], outliers)


LEAST_SHOWN = 0.01
"""Fields whose shares of missing rows change less are not shown."""


def _show_frame(title: str, frame: pd.DataFrame) -> None:
    """Print the first rows of a frame; shares and other numbers have three digits."""
    from pricekit.insight.drift import SHOWN

    rows = frame.head(SHOWN).itertuples(index=False)
    cells = [[cell if isinstance(cell, str) else _number(cell) for cell in row] for row in rows]
    _show_rows(title, list(map(str, frame)), cells)


def _number(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.3f}"


def _show_rows(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows with texts as far as they fit; nothing without rows."""
    if rows:
        show_table(title, headers, [[shorten(cell, WIDEST) for cell in row] for row in rows])


WIDEST = 36
"""Characters of a cell."""
