"""What packages provide besides plugins: functions and commands, each named in an entry-point group of its own."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pricekit.errors import PluginError
from pricekit.support.causes import raise_outside_cause


def provided(group: str) -> dict[str, EntryPoint]:
    """Return what the installed packages name in an entry-point group, not imported yet, by name."""
    return {point.name: point for point in entry_points(group=group)}


def load_provided(point: EntryPoint, kind: str, parameters: tuple[str, ...] = ()) -> Any:
    """Import what an entry point names.

    Args:
        point: one of `provided`.
        kind: what it is, for the message, such as `runner`.
        parameters: those of the error.

    Raises:
        PluginError: it cannot be imported.
    """
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise_outside_cause(error)
        package = point.dist.name if point.dist else point.module
        raise PluginError(
            f"the {kind} '{point.name}' of {package} cannot be loaded: {type(error).__name__}: {error}. Install what "
            f"is missing, or upgrade {package}",
            parameters=parameters,
        ) from error
