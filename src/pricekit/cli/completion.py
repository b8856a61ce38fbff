"""`pricekit completion`."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print a script that completes commands, options and values in a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and their values in SHELL.

    \b
    pricekit completion bash >> ~/.bashrc
    pricekit completion zsh  >> ~/.zshrc
    pricekit completion fish > ~/.config/fish/completions/pricekit.fish

    It completes policies, plugins, the keys of --set, and the columns of the table on the command line. Open a new
    shell to use it.
    """
    from click.shell_completion import get_completion_class

    from pricekit.cli.main import COMPLETE_VARIABLE, cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "pricekit", COMPLETE_VARIABLE).source())
