"""Commands that installed packages add: those that this project publishes, and any in an entry-point group."""

from __future__ import annotations

from importlib.util import find_spec

import click

from pricekit.errors import PluginError

GROUP = "pricekit.commands"
"""The entry-point group in which a package names its commands, each a `click.Command`."""

PACKAGES = {
    "mlflow": "Register a bundle as a model of MLflow.",
    "serve": "Answer requests for prices over HTTP.",
}
"""Commands in packages that this project publishes as pricekit-NAME, with their summaries."""


def installed() -> dict[str, str]:
    """Return those of `PACKAGES` that are installed.

    `pricekit --help` lists them. It does not search for commands of other packages, because this takes as long as
    all else that it does.
    """
    return {name: text for name, text in PACKAGES.items() if find_spec(f"pricekit_{name}") is not None}


def packaged_command(name: str) -> click.Command | None:
    """Import a command of an installed package; None if no package has it.

    Raises:
        PluginError: it cannot be imported, or is no command, or the package that has it is not installed.
    """
    from pricekit.core.packages import install_command, load_provided, provided  # slow to import

    point = provided(GROUP).get(name)
    if point is None and name in PACKAGES:
        raise PluginError(
            f"the command '{name}' is in the package pricekit-{name}, which is not installed. Install it: "
            f"{install_command(f'pricekit-{name}')}"
        )
    if point is None:
        return None
    command = load_provided(point, "command")
    if not isinstance(command, click.Command):
        raise PluginError(
            f"the entry point '{name}' in {GROUP} names a {type(command).__name__}; expected a click.Command: "
            f"{point.value}"
        )
    return command
