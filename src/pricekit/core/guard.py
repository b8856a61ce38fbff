"""Where plugin code runs: what it raises becomes an error that names the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pricekit.core.loader import registry
from pricekit.errors import PluginError, PricekitError


@contextmanager
def guarded(kind: str, name: str, doing: str) -> Iterator[None]:
    """Turn whatever a plugin raises into a PluginError that says whose it is and what it was doing."""
    try:
        yield
    except (PricekitError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        entry = registry().get(kind, name)
        said = " ".join(str(error).split())[:300]
        raise PluginError(
            f"the {kind} '{name}' of {entry.package} {entry.version} failed while {doing}: "
            f"{type(error).__name__}: {said}. Choose another {kind}, or report it to the plugin's author"
        ) from error
