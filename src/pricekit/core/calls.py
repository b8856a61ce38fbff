"""Calls of plugin code: an exception becomes an error that names the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pricekit.core.loader import registry
from pricekit.errors import PluginError, PricekitError
from pricekit.text import shorten


@contextmanager
def plugin_call(kind: str, name: str, action: str) -> Iterator[None]:
    """Turn any exception of a plugin into a PluginError that names the plugin and its action.

    Args:
        kind: of the plugin, such as `loss`.
        name: of the plugin.
        action: what it does in the block, such as "computing the loss of a batch".
    """
    try:
        yield
    except (PricekitError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        entry = registry().get(kind, name)
        message = shorten(str(error), 300)
        raise PluginError(
            f"the {kind} '{name}' of {entry.package} {entry.version} failed while {action}: "
            f"{type(error).__name__}: {message}. Choose another {kind}, or report it to the plugin's author",
            kind=kind,
            name=name,
            package=entry.package,
        ) from error
