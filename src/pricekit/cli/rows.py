"""Commands that show one result for each row of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pricekit.cli.options import as_arguments
from pricekit.cli.terminal import begin, show_result

ROWS = 5
"""Rows that are shown on a terminal if the user names none."""

row_option = click.option(
    "--row",
    multiple=True,
    metavar="ID",
    help="Only the row with this id; may be repeated.  [default: all rows]",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row on stdout.")


def show_rows(function: str, flags: dict[str, Any], show: Callable[[Any], None]) -> None:
    """Call a function of pricekit that returns one result for each row, and show each of them.

    Args:
        function: its name in `pricekit.api`.
        flags: of the command.
        show: shows one result on the terminal; with the flag --json it is printed as JSON instead.
    """
    as_json = flags.pop("as_json")
    few = not (as_json or flags["row"] or flags["limit"])
    if few:
        flags["limit"] = ROWS
    begin(f"opening {flags['model']}", "pricekit.prediction.predictor")
    from pricekit import api

    found = getattr(api, function)(**as_arguments(flags))
    for result in found:
        if as_json:
            click.echo(result.to_json())
        else:
            show(result)
    if few and len(found) == ROWS:
        show_result(f"these are the first {ROWS} rows; choose others with --row or --limit")
