"""`pricekit compare`."""

from __future__ import annotations

import click

from pricekit.cli.options import FOLDER, json_option, metric_option
from pricekit.cli.terminal import begin, show_result, show_table
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

    found = pk.compare(*runs, metric=metric)
    if as_json:
        click.echo(found.to_json())
        return
    write, like = found.metric.write, found.runs[0].score
    table = [
        [
            one.name,
            write(one.score, like),
            "" if one.folds is None else f"{write(one.folds[0], like)} ± {write(one.folds[1], like)}",
            "" if one.difference is None else write(one.difference, like, sign=True),
            ""
            if one.interval is None
            else " to ".join(write(bound, like, sign=True) for bound in one.interval),
            one.verdict or "(the first)",
        ]
        for one in found.runs
    ]
    show_result(f"{found.rows:,} rows that none was trained on")
    headers = ["run", found.metric.title, "mean ± sd of folds", "difference", "95% interval", "verdict"]
    shown = [place for place in range(6) if any(row[place] for row in table)]
    show_table("", [headers[place] for place in shown], [[row[place] for place in shown] for row in table])
