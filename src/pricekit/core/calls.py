"""Calls of plugin code: an exception becomes an error that names the plugin; a failing observer never stops a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from pricekit.core.loader import registry
from pricekit.core.registry import FILE, tracker_name
from pricekit.errors import PluginError, PricekitError, is_panic
from pricekit.io.causes import raise_outside_cause
from pricekit.io.files import is_temporary
from pricekit.io.log import logger
from pricekit.io.record import OBSERVERS
from pricekit.wording import shorten


def repair(kind: str, name: str) -> str:
    """Return, for a sentence, what to do about a faulty plugin: repair the file, or ask the author of its package."""
    entry = registry().entries.get((kind, name))
    if entry is not None and entry.version.startswith(FILE):
        return f"repair it in {entry.package}"
    return "report it to the plugin's author"


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
            f"{type(error).__name__}: {message.rstrip('.')}. Choose another {kind}, or {repair(kind, name)}",
            kind=kind,
            name=name,
            package=entry.package,
        ) from error


_reported: set[tuple[str, str]] = set()
"""Plugins and events of the current run whose failure was logged."""

_silent = False

_trackers: frozenset[str] = frozenset()
"""The trackers that the current run, cross-validation or export asks for."""


@contextmanager
def tracked_by(names: Iterable[str]) -> Iterator[None]:
    """Call the trackers with these names while the block runs, besides the observers without a name."""
    global _trackers
    before, _trackers = _trackers, frozenset(names)
    try:
        yield
    finally:
        _trackers = before


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
    """Call the hook `pricekit_<event>` of every plugin that implements it, with copies of the facts.

    A tracker is called only in a block of `tracked_by` that names it.
    """
    if _silent:
        return
    for impl in getattr(registry().manager.hook, f"pricekit_{event}").get_hookimpls():
        if tracker_name(impl.plugin) not in (None, *_trackers):
            continue
        folders = [facts[name] for name in ("folder", "bundle") if name in facts]
        before = _contents(folders)
        try:
            impl.function(**{name: deepcopy(facts[name]) for name in impl.argnames})
        except (Exception, SystemExit) as error:
            message = shorten(str(error), 300)
            reason = message if isinstance(error, PricekitError) else f"{type(error).__name__}: {message}"
            if (impl.plugin_name, event) not in _reported:
                _reported.add((impl.plugin_name, event))
                logger.warning(f"{impl.plugin_name} failed to observe {event}; the run continues: {reason}")
        written = sorted(path for path, state in _contents(folders).items() if before.get(path) != state)
        if written and (impl.plugin_name, "writes") not in _reported:
            _reported.add((impl.plugin_name, "writes"))
            logger.warning(
                f"{impl.plugin_name} wrote {', '.join(written)} when it observed {event}; an observer writes only "
                f"below {facts['folder'] / OBSERVERS / 'NAME'}. If the file is one of pricekit's, the folder is "
                "damaged. Report it to the plugin's author"
            )


def _contents(folders: Iterable[Path]) -> dict[str, tuple[int, ...]]:
    """Return size and time of each file in folders, by its path; () for each folder but that of observers."""
    contents: dict[str, tuple[int, ...]] = {}
    for entry in (entry for folder in folders if folder.is_dir() for entry in os.scandir(folder)):
        if entry.is_dir():
            if entry.name != OBSERVERS:
                contents[entry.path] = ()
        elif not is_temporary(Path(entry.path)):
            state = entry.stat(follow_symlinks=False)
            contents[entry.path] = state.st_size, state.st_mtime_ns
    return contents


@contextmanager
def observed(
    what: Literal["run", "cross_validation"], folder: Path, facts: Mapping[str, Any], *, enabled: bool
) -> Iterator[dict[str, Any]]:
    """Notify observers that a run or a cross-validation starts, and how it ends.

    Args:
        what: starts and ends.
        folder: of it.
        facts: arguments of the hook `pricekit_run_started` or `pricekit_cross_validation_started`; `config` names the
            trackers.
        enabled: False in all but the first of several processes that train together.

    Yields:
        an empty dict, to which the block adds the facts of the hook for the end.
    """
    _reported.clear()
    final: dict[str, Any] = {}
    outcome = "failed"
    with tracked_by(facts["config"].get("track", ())):
        try:
            if enabled:
                notify(f"{what}_started", folder=folder, **facts)
            yield final
            outcome = "finished"
        except KeyboardInterrupt:
            outcome = "interrupted"
            raise
        finally:
            if enabled:
                ended = final if outcome == "finished" else {}
                notify(f"{what}_ended", folder=folder, outcome=outcome, facts=ended)
