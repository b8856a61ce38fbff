"""`pricekit compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pricekit.cli.options import FOLDER, json_option, options_of
from pricekit.cli.project import RUNS
from pricekit.cli.terminal import begin, show_data, show_result
from pricekit.options import CompareOptions
from pricekit.wording import counted, duration, milliseconds

if TYPE_CHECKING:
    from pricekit.answers.leaderboard import Entry, Leaderboard
    from pricekit.cli.show import Columns
    from pricekit.evaluation.comparison import Comparison


@click.command
@click.argument("models", type=FOLDER, nargs=-1)
@options_of(CompareOptions)
@json_option("Print the comparison as JSON on stdout.")
def compare(models: tuple[str, ...], metric: str | None, latency: bool, as_json: bool) -> None:
    """Compare MODELS, which hold out the same rows. Each is a folder of pricekit train, cv, ensemble or tune.

    \b
    pricekit compare old new              the second with the first
    pricekit compare                      all finished models in runs/, ranked
    pricekit compare runs old/best        these and another one
    pricekit compare runs --latency       also the time of a prediction, in some seconds for each model

    Only the rows that all MODELS hold out are scored, so train them on the same table with the same --seed, or use
    pricekit cv. Of two, the output shows the metric of each, the difference (below 0, the second is better), the 95%
    paired bootstrap interval of the difference, and a verdict. The verdict is "better" or "worse" if the interval does
    not contain 0, and "cannot tell" otherwise.

    More models, or those of a folder that contains some, are ranked. Each one is compared with the best. Models that
    share no rows with the others are left out. The output also shows the training time, the size of the files that a
    prediction reads, and the settings in which the models differ: all of them for the best model, and for the others
    those that differ from the best.
    """
    if not models:
        if not RUNS.is_dir():
            raise click.UsageError(
                f"Missing argument 'MODELS', and there is no folder {RUNS}/. Name the models."
            )
        models = (str(RUNS),)
    names = ", ".join(models) if len(models) < 4 else counted(len(models), "folder")
    begin(f"reading {names}", "pricekit.answers.leaderboard")
    import pricekit as pk
    from pricekit.evaluation.comparison import Comparison

    comparison = pk.compare(*models, metric=metric, latency=latency)
    if as_json:
        show_data(comparison.to_json())
    elif isinstance(comparison, Comparison):
        _show_difference(comparison)
    else:
        _show_ranking(comparison)


def _show_difference(comparison: Comparison) -> None:
    from pricekit.cli.show import compared_columns, show_columns

    write, like = comparison.metric.write, comparison.runs[0].score
    folds = [
        "" if one.folds is None else f"{write(one.folds[0], like)} ± {write(one.folds[1], like)}"
        for one in comparison.runs
    ]
    show_result(f"{comparison.rows:,} rows that none was trained on")
    columns = {
        "model": [one.name for one in comparison.runs],
        comparison.metric.title: [write(one.score, like) for one in comparison.runs],
        **({"mean ± sd of folds": folds} if any(folds) else {}),
        **compared_columns(comparison.runs, comparison.metric, "(the first)"),
    }
    show_columns("", columns)


def _show_ranking(board: Leaderboard) -> None:
    """Print the ranking, and the settings; the costs are in the first table if it fits the terminal with them."""
    from rich.cells import cell_len

    from pricekit.cli.show import fit_width, room_for_text, show_columns

    rank = {"": [str(entry.rank) for entry in board.entries]}
    scores, costs = _scores(board), _costs(board.entries)
    names = [_name(entry) for entry in board.entries]
    longest = max(map(cell_len, names))
    wide = room_for_text({**rank, **scores, **costs}, 0) >= min(longest, 40)
    first = {**scores, **costs} if wide else scores
    room = room_for_text({**rank, **first}, 12)
    show_result(f"{counted(board.rows, 'row')} that no model was trained on")
    show_columns("", {**rank, "model": [fit_width(name, room) for name in names], **first})
    second = {} if wide else costs
    if any(settings := _settings(board.entries)):
        second["settings that differ (below: from the best)"] = settings
    if second:
        show_columns("", {**rank, **second})


def _name(entry: Entry) -> str:
    parts = {"run": "", "ensemble": f" ({counted(entry.parts, 'member')})"}
    return entry.name + parts.get(entry.kind, f" ({counted(entry.parts, 'fold')})")


def _scores(board: Leaderboard) -> Columns:
    from pricekit.cli.show import compared_columns

    compared = [entry.compared for entry in board.entries]
    scores = {board.metric.title: [board.metric.write(one.score, compared[0].score) for one in compared]}
    return scores | (compared_columns(compared, board.metric, "(the best)") if len(compared) > 1 else {})


def _costs(entries: Sequence[Entry]) -> Columns:
    columns = {
        "training": [duration(entry.seconds) for entry in entries],
        "one row": ["" if e.seconds_per_row is None else milliseconds(e.seconds_per_row) for e in entries],
        "size": [_megabytes(entry.bytes) for entry in entries],
    }
    return {header: cells for header, cells in columns.items() if any(cells)}


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"


def _settings(entries: Sequence[Entry]) -> list[str]:
    """Return the settings that differ: all of them for the best model, and for others those that differ from it."""
    from pricekit.config.layers import write_override

    best = entries[0].settings
    cells = []
    for entry in entries:
        new = {
            name: value for name, value in entry.settings.items() if name not in best or best[name] != value
        }
        shown = best if entry is entries[0] else new
        same = "(as the best)" if best and entry.settings == best else ""
        cells.append(", ".join(write_override(name, value) for name, value in shown.items()) or same)
    return cells
