"""Calls of plugin code: an exception becomes an error that names the plugin; a failing observer never stops a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

from pricekit.core.loader import registry
from pricekit.errors import PluginError, PricekitError, is_panic
from pricekit.support.causes import raise_outside_cause
from pricekit.support.log import logger
from pricekit.support.text import shorten


@contextmanager
def plugin_call(kind: str, name: str, action: str) -> Iterator[None]:
    """Turn any exception of a plugin, and a panic, into a PluginError that names the plugin and its action.

    Args:
        kind: of the plugin, such as `loss`.
        name: of the plugin.
        action: its action in the block, such as "computing the loss of a batch".
    """
    try:
        yield
    except PricekitError:
        raise
    except BaseException as error:
        if not (isinstance(error, Exception | SystemExit) or is_panic(error)):
            raise
        raise_outside_cause(error)
        entry = registry().get(kind, name)
        message = shorten(str(error), 300)
        raise PluginError(
            f"the {kind} '{name}' of {entry.package} {entry.version} failed while {action}: "
            f"{type(error).__name__}: {message}. Choose another {kind}, or report it to the plugin's author",
            kind=kind,
            name=name,
            package=entry.package,
        ) from error


_reported: set[tuple[str, str]] = set()
"""Plugins and events of the current run whose failure was logged."""

_silent = False


@contextmanager
def unobserved() -> Iterator[None]:
    """Call no observers while the block runs, as for the many runs of a search."""
    global _silent
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


def notify(event: str, **facts: Any) -> None:
    """Call the hook `pricekit_<event>` of every plugin that implements it, with copies of the facts."""
    if _silent:
        return
    for impl in getattr(registry().manager.hook, f"pricekit_{event}").get_hookimpls():
        try:
            with redirect_stdout(sys.stderr):  # stdout is for data
                impl.function(**{name: deepcopy(facts[name]) for name in impl.argnames})
        except (Exception, SystemExit) as error:
            message = shorten(str(error), 300)
            reason = message if isinstance(error, PricekitError) else f"{type(error).__name__}: {message}"
            _warn_once(impl.plugin_name, event, reason)


@contextmanager
def observed_run(folder: Path, *, enabled: bool, **facts: Any) -> Iterator[dict[str, Any]]:
    """Notify observers that a run starts, and how it ends.

    Args:
        folder: of the run.
        enabled: False in all but the first of several processes that train together.
        facts: arguments of the hook `pricekit_run_started`.

    Yields:
        an empty dict, to which the block adds the facts of the hook `pricekit_run_ended`.
    """
    _reported.clear()
    final: dict[str, Any] = {}
    outcome = "failed"
    try:
        if enabled:
            notify("run_started", folder=folder, **facts)
        yield final
        outcome = "finished"
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        if enabled:
            notify("run_ended", folder=folder, outcome=outcome, facts=final if outcome == "finished" else {})


def _warn_once(plugin: str, event: str, reason: str) -> None:
    if (plugin, event) not in _reported:
        _reported.add((plugin, event))
        logger.warning(f"{plugin} failed to observe {event}; the run continues: {reason}")
