"""`pricekit mcp`."""

from __future__ import annotations

import click

from pricekit.plugin.commands import FOLDER, begin, limit_options
from pricekit_mcp.limits import Limits


@click.command(short_help="Let an assistant check, train and price in one folder.")
@click.argument("folder", type=FOLDER)
@limit_options(Limits)
def mcp(folder: str, max_rows: int, max_bytes: int, time_limit: float) -> None:
    """Let an assistant check tables, train models and price products in FOLDER.

    \b
    pricekit mcp shop

    This is a server of the Model Context Protocol on standard input and output, which the client of the assistant
    starts. Its tools read and write nothing outside of FOLDER, and never replace a file.
    """
    begin(f"serving {folder} on standard input and output", "mcp.server")
    from pricekit_mcp.protocol import serve

    serve(folder, Limits(max_rows, max_bytes, time_limit))
