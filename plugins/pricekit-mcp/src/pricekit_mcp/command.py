"""`pricekit mcp`."""

from __future__ import annotations

from typing import Any

import click

from pricekit.plugin.commands import FOLDER, begin
from pricekit_mcp.limits import Limits


@click.command(short_help="Let an assistant check, train and price in one folder.")
@click.argument("folder", type=FOLDER)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=Limits.max_rows,
    show_default=True,
    help="Most rows of a table.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=Limits.max_bytes,
    show_default=True,
    help="Most bytes of a table, and of a model.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=Limits.time_limit,
    show_default=True,
    help="Time until a call is ended with all its processes.",
)
def mcp(folder: str, **limits: Any) -> None:
    """Let an assistant check tables, train models and price products in FOLDER.

    \b
    pricekit mcp shop

    This is a server of the Model Context Protocol on standard input and output, which the client of the assistant
    starts. Its tools read and write nothing outside of FOLDER, and never replace a file.
    """
    begin(f"serving {folder} on standard input and output", "mcp.server")
    from pricekit_mcp.protocol import serve

    serve(folder, Limits(**limits))
