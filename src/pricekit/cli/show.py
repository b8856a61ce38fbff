"""Scores and rows as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from pricekit.cli.common import ask_model
from pricekit.cli.terminal import begin, show_data, show_result, show_table
from pricekit.evaluation.comparison import ComparedRun
from pricekit.evaluation.groups import BUILT_IN
from pricekit.evaluation.scores import Scores, mean_and_sd, released_cells
from pricekit.io.log import logger
from pricekit.io.stdout import stdout
from pricekit.metrics import METRICS, SMAPE, Metric
from pricekit.wording import printable

Columns = dict[str, list[str]]
"""Cells by the header of their column."""

ROWS = 5
"""Rows that are shown on a terminal if the user names none."""


def show_rows(method: str, flags: dict[str, Any], lines: Callable[[Any, int], Iterable[Text]]) -> None:
    """Call a method of a model that returns one result for each row, and print each of them on stdout.

    Args:
        method: its name.
        flags: of the command.
        lines: returns the lines of a result for a terminal of a width; with the flag --json it is JSON instead.
    """
    as_json = flags.pop("as_json")
    few = not (as_json or flags["row"] or flags["limit"])
    if few:
        flags["limit"] = ROWS
    begin(f"opening {flags['model']}", "pricekit.predict.predictor")
    results, console = ask_model(method, flags), Console(file=stdout())
    for result in results:
        if as_json:
            show_data(result.to_json())
            continue
        with console.capture() as shown:
            for line in lines(result, console.width):
                console.print(line, soft_wrap=True)
        show_data(shown.get())
    if few and len(results) == ROWS:
        show_result(f"these are the first {ROWS} rows; choose others with --row or --limit")


CATEGORIES = 3
"""Number of table columns to show: those whose groups differ most in the metric."""
LABEL_WIDTH = 34

_OTHER_SCORES = {
    "r2_log": "R² of the log price",
    "interval_90_coverage": "inside the 90% interval, %",
    "interval_90_score": "score of the 90% interval",
}
"""Scores that are no `Metric`: no training minimises them."""


def show_scores(scores: Scores, *, errors: bool = False) -> None:
    """Print the metrics, then a table for each grouping; with `errors`, with the shares of the groups in the error."""
    many, metric = len(scores.folds) > 1, scores.metric
    mean, sd = mean_and_sd(scores.folds) if many else ({}, {})
    rows = [["rows", f"{scores.rows:,}", *([""] * many)]]
    for name, value in scores.metrics.items():
        known = METRICS.get(name)
        heading = known.heading if known else _OTHER_SCORES[name]
        write = (known or SMAPE).write
        spread = f"{write(mean[name])} ± {write(sd[name], like=mean[name])}" if name in mean else ""
        rows.append([heading, write(value), *([spread] * many)])
        if name == metric.name and scores.interval is not None:
            bounds = " to ".join(metric.write(bound, like=value) for bound in scores.interval)
            rows.append([f"{metric.title}, 95% interval", bounds, *([""] * many)])
    show_table("", ["metric", "value", *([f"mean ± sd of {len(scores.folds)} folds"] * many)], rows)
    show_groups(scores.groups, metric, errors=errors)
    _show_surest(scores)


def _show_surest(scores: Scores) -> None:
    """Print the metric of the surest rows, and the share of rows that may go out."""
    metric = scores.metric
    if scores.surest is not None:
        tenths = scores.surest.iloc[1::2]
        show_table(
            "",
            ["surest rows", "rows", metric.title],
            [
                [f"{share:.0%}", f"{rows:,}", metric.write(value)]
                for share, rows, value in zip(
                    tenths["share"], tenths["rows"], tenths[metric.name], strict=True
                )
            ],
        )
    if scores.released is None:
        return
    heads, cells = released_cells(scores.released)
    show_table("", heads, cells)
    if not scores.released["share"].any():
        logger.info("at these tolerances no price may go out without a person")


def show_groups(groups: pd.DataFrame, metric: Metric, *, errors: bool = False) -> None:
    """Print a table for each grouping of `group_scores`; of the table's columns, those where the metric varies most.

    Args:
        groups: from `group_scores`.
        metric: with which they were scored.
        errors: show each group's share of the error instead of its median error.
    """
    shown, left = _most_varied(groups, metric.name)
    for by in shown:
        part = groups[groups["by"] == by]
        second = part["share"] if errors else part["mdape"]
        rows = [
            [
                fit_width(group, LABEL_WIDTH),
                f"{count:,}",
                metric.write(score),
                f"{other:.1f}",
                direction(bias),
            ]
            for group, count, score, other, bias in zip(
                part["group"], part["rows"], part[metric.name], second, part["bias"], strict=True
            )
        ]
        headers = ["rows", metric.title, "% of error" if errors else METRICS["mdape"].heading, "typically"]
        show_table("", [fit_width(by, LABEL_WIDTH), *headers], rows)
    if left:
        logger.info(
            f"not shown, because {metric.title} varies less between their groups: "
            + ", ".join(fit_width(name, LABEL_WIDTH) for name in left)
        )


def direction(bias: float) -> str:
    """Describe a bias in percent: "level", "12% too high"."""
    if abs(bias) < 1:
        return "level"
    return f"{abs(bias):,.0f}% too {'high' if bias > 0 else 'low'}"


def fit_width(text: str, width: int) -> str:
    """Return a text on one line of at most `width` terminal columns, printable; wide characters take two."""
    text = printable(" ".join(text[: 4 * width].split()))
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def show_columns(title: str, columns: Columns) -> None:
    """Print a table of columns."""
    show_table(title, list(columns), list(zip(*columns.values(), strict=True)))


def compared_columns(compared: Sequence[ComparedRun], metric: Metric, first: str) -> Columns:
    """Return the differences of runs from the first one, and verdicts, as columns; empty ones are left out.

    Args:
        compared: the runs.
        metric: that compares them.
        first: what the column of verdicts calls the first run.
    """
    like = compared[0].score
    columns = {
        "difference": [
            "" if one.difference is None else metric.write(one.difference, like, sign=True)
            for one in compared
        ],
        "95% interval": [
            " to ".join(metric.write(bound, like, sign=True) for bound in one.interval or ())
            for one in compared
        ],
        "verdict": [one.verdict or first for one in compared],
    }
    return {header: cells for header, cells in columns.items() if any(cells)}


def room_for_text(columns: Columns, least: int = 20) -> int:
    """Return the width that the other columns of a table leave for text, in terminal columns, but at least `least`."""
    used = sum(max(map(cell_len, [header, *cells])) + 3 for header, cells in columns.items())
    return max(least, Console(stderr=True).width - used - 4)


def _most_varied(groups: pd.DataFrame, metric: str) -> tuple[list[str], list[str]]:
    """Return the groupings to show, in order, and the others."""
    names = list(dict.fromkeys(groups["by"]))
    spread = {
        name: np.cov(part[metric], fweights=part["rows"], ddof=0) * part["rows"].sum()
        for name, part in groups.groupby("by")
    }
    own = sorted((name for name in names if name not in BUILT_IN), key=lambda name: -spread[name])
    left = set(own[CATEGORIES:])
    return [name for name in names if name not in left], [name for name in names if name in left]
