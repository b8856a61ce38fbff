"""`pricekit leaderboard`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pricekit.cli.options import FOLDER, flag, json_option, metric_option
from pricekit.cli.project import RUNS
from pricekit.cli.terminal import begin, show_result
from pricekit.support.text import counted, duration, milliseconds

if TYPE_CHECKING:
    from pricekit.cli.show import Columns
    from pricekit.workflows.leaderboard import Entry, Leaderboard


@click.command
@click.argument("runs", type=FOLDER, nargs=-1)
@metric_option("Metric by which to rank.  [default: that of most of the models]")
@flag("--latency", "Also measure the time that a prediction of one row takes, in torch.")
@json_option("Print the leaderboard as JSON on stdout.")
def leaderboard(runs: tuple[str, ...], metric: str | None, latency: bool, as_json: bool) -> None:
    """Rank RUNS: folders of pricekit train, cv and ensemble, or folders that contain them.

    \b
    pricekit leaderboard                  all finished models in runs/
    pricekit leaderboard runs old/best    these and another one
    pricekit leaderboard runs --latency   also the time of a prediction, in some seconds for each model

    All models are scored on the rows that all of them hold out. Models that share no such rows with the others are left
    out. Each model is compared with the best one, as in pricekit compare: "worse" if the 95% paired bootstrap interval
    of the difference does not contain 0, otherwise "cannot tell". The output also shows the training time, the size of
    the files that a prediction reads, and the settings in which the models differ: all of them for the best model, and
    for the others those that differ from the best.
    """
    if not runs:
        if not RUNS.is_dir():
            raise click.UsageError(f"Missing argument 'RUNS', and there is no folder {RUNS}/. Name a folder.")
        runs = (str(RUNS),)
    named = ", ".join(runs) if len(runs) < 4 else counted(len(runs), "folder")
    begin(f"reading {named}", "pricekit.workflows.leaderboard")
    import pricekit as pk

    board = pk.leaderboard(*runs, metric=metric, latency=latency)
    if as_json:
        click.echo(board.to_json())
    else:
        _show(board)


def _show(board: Leaderboard) -> None:
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
