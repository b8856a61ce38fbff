"""What a package uses that adds a command: options that look and read like pricekit's own, and output on the terminal.

Example:
    >>> import click
    >>> from pricekit.plugin.commands import FOLDER, show_data
    >>> @click.command
    ... @click.argument("bundle", type=FOLDER)
    ... def shelf(bundle):
    ...     show_data(f"pricing the shelf with {bundle}")

While a command runs, what `print` and `click.echo` print goes to stderr: only `show_data` prints on standard output.
"""

from pricekit.cli.options import FOLDER, limit_options, options_of
from pricekit.cli.terminal import begin, show_data, show_result
from pricekit.io.stdout import stdout
from pricekit.options import OpenOptions

__all__ = [
    "FOLDER",
    "OpenOptions",
    "begin",
    "limit_options",
    "options_of",
    "show_data",
    "show_result",
    "stdout",
]
