"""`pricekit compare`."""

from __future__ import annotations

import click

from pricekit.cli.options import FOLDER, json_option, metric_option
from pricekit.cli.terminal import begin, show_result
from pricekit.support.text import counted


@click.command
@click.argument("runs", type=FOLDER, nargs=-1, required=True)
@metric_option("Metric by which to compare.  [default: that of the first run]")
@json_option("Print the comparison as JSON on stdout.")
def compare(runs: tuple[str, ...], metric: str | None, as_json: bool) -> None:
    """Compare RUNS with the first one. Each is a folder of pricekit train or pricekit cv.

    \b
    pricekit compare old new

    Only the rows that all RUNS hold out are scored, so train them on the same table with the same --seed, or use
    pricekit cv. The output shows each run's metric, the difference from the first run (below 0 is better), the 95%
    paired bootstrap interval of the difference, and a verdict. The verdict is "better" or "worse" if the interval does
    not contain 0, and "cannot tell" otherwise.
    """
    begin(f"reading {counted(len(runs), 'run')}", "pricekit.evaluation.comparison")
    import pricekit as pk
    from pricekit.cli.show import compared_columns, show_columns

    comparison = pk.compare(*runs, metric=metric)
    if as_json:
        click.echo(comparison.to_json())
        return
    write, like = comparison.metric.write, comparison.runs[0].score
    folds = [
        "" if one.folds is None else f"{write(one.folds[0], like)} ± {write(one.folds[1], like)}"
        for one in comparison.runs
    ]
    show_result(f"{comparison.rows:,} rows that none was trained on")
    columns = {
        "run": [one.name for one in comparison.runs],
        comparison.metric.title: [write(one.score, like) for one in comparison.runs],
        **({"mean ± sd of folds": folds} if any(folds) else {}),
        **compared_columns(comparison.runs, comparison.metric, "(the first)"),
    }
    show_columns("", columns)
