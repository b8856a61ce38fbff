"""`pricekit importance`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.common import ask_model
from pricekit.cli.options import json_option, model_and_table
from pricekit.cli.terminal import begin, show_data, show_result
from pricekit.options import TableImportanceOptions
from pricekit.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from pricekit.answers.importance import Importance
    from pricekit.cli.show import Columns


@click.command
@model_and_table(TableImportanceOptions, required=False)
@json_option("Print all of it as one JSON object on stdout.")
def importance(as_json: bool, **flags: Any) -> None:
    """Measure what the prices that MODEL predicts for a whole table depend on.

    \b
    pricekit importance run                 on the held-out rows of a run or a cross-validation
    pricekit importance bundle other.csv    on the rows of a table

    For features, and for lines of the text or columns: the increase of the metric when their values change rows at
    random, with its 95% interval. Features or lines that say the same share their importance. For words: their mean
    factor in explanations of 200 rows. All numbers say what the model uses, not what causes a price.
    """
    begin(f"opening {flags['model']}", "pricekit.answers.importance")
    result: Importance = ask_model("importance", flags)
    if as_json:
        show_data(result.to_json())
    else:
        _show(result)


def _show(result: Importance) -> None:
    """Print the first rows of each frame, one table for each."""
    from pricekit.answers.importance import EXPLAINED

    title = result.metric.title
    show_result(
        f"{counted(result.rows, 'row')}, {title} {result.metric.write(result.score)}; an increase is by how much "
        f"{title} grows when values change rows"
    )
    _show_frame(f"Features by increase of {title}", result.features, _increases(result, result.features))
    lines = _rows(result.lines) | _increases(result, result.lines)
    kinds = " and ".join(f"{kind}s" for kind in ("line", "column") if kind in set(result.lines["kind"]))
    _show_frame(f"{kinds.capitalize()} by increase of {title}", result.lines, lines)
    explained = counted(min(result.rows, EXPLAINED), "explained row")
    _show_frame(f"Words in {explained}", result.words, _rows(result.words) | _factors(result.words))


def _show_frame(title: str, frame: pd.DataFrame, columns: Columns) -> None:
    """Print the first rows of a frame, with its first column as far as it fits; an empty frame is not shown."""
    from pricekit.answers.importance import SHOWN
    from pricekit.cli.show import fit_width, room_for_text, show_columns

    if not len(frame):
        return
    shown = {header: cells[:SHOWN] for header, cells in columns.items()}
    room = room_for_text(shown)
    name = str(frame.columns[0])
    part = f"; {SHOWN} of {len(frame)}" if len(frame) > SHOWN else ""
    show_columns(title + part, {name: [fit_width(str(each), room) for each in frame[name][:SHOWN]], **shown})


def _rows(frame: pd.DataFrame) -> Columns:
    return {"rows": [f"{count:,}" for count in frame["rows"]]}


def _increases(result: Importance, frame: pd.DataFrame) -> Columns:
    """Return the increases and their intervals."""

    def write(value: float) -> str:
        return "" if value != value else result.metric.write(value, result.score, sign=True)

    return {"increase": list(map(write, frame["increase"])), "95% interval": _intervals(frame, write)}


def _intervals(frame: pd.DataFrame, write: Callable[[float], str]) -> list[str]:
    bounds = zip(frame["low"], frame["high"], strict=True)
    return [f"{write(low)} to {write(high)}" if low == low else "" for low, high in bounds]


def _factors(frame: pd.DataFrame) -> Columns:
    write = "{:.2f}".format
    return {
        "mean factor": list(map(write, frame["factor"])),
        "95% interval": _intervals(frame, write),
        "mean size": [f"{size:.3f}" for size in frame["size"]],
    }
