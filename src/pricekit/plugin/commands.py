"""What a package uses that adds a command: options that look and read like pricekit's own, and output on the terminal.

Example:
    >>> import click
    >>> from pricekit.plugin.commands import FOLDER
    >>> @click.command
    ... @click.argument("bundle", type=FOLDER)
    ... def shelf(bundle):
    ...     click.echo(f"pricing the shelf with {bundle}")
"""

from pricekit.cli.options import FOLDER, options_of
from pricekit.cli.terminal import begin, show_result

__all__ = ["FOLDER", "begin", "options_of", "show_result"]
