"""The guarded loader: one broken plugin never hurts the others, nor pricekit itself."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import pluggy

from pricekit import __version__
from pricekit.core import hookspecs
from pricekit.core.registry import KINDS, Broken, Entry, Registry
from pricekit.errors import PluginError

GROUP = "pricekit"
BUILTINS = "pricekit.builtins"


@cache
def registry() -> Registry:
    """Return the registry of the built-ins and all installed plugin packages, loaded once."""
    return load(entry_points(group=GROUP))


def load(points: Iterable[EntryPoint]) -> Registry:
    """Load the built-ins, then each entry point by itself; what fails is remembered and said once."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    found = Registry()
    found.add(_register(manager, import_module(BUILTINS), "pricekit", __version__))
    for point in sorted(points, key=lambda p: p.name):
        _load_guarded(manager, found, point)
    return found


def _load_guarded(manager: pluggy.PluginManager, found: Registry, point: EntryPoint) -> None:
    package = point.dist.name if point.dist else point.module
    version = point.dist.version if point.dist else "unknown version"
    module: ModuleType | None = None
    try:
        with redirect_stdout(sys.stderr):  # stdout is for data
            module = point.load()
        found.add(_register(manager, module, package, version))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an extension module may raise anything at import
        if module is not None and manager.is_registered(module):
            manager.unregister(module)
        said = " ".join(str(error).split())
        reason = said if isinstance(error, PluginError) else f"{type(error).__name__}: {said}"
        found.broken.append(Broken(point.name, package, version, reason, traceback.format_exc()))
        print(f"pricekit: plugin {point.name} of {package} {version} is ignored: {reason}", file=sys.stderr)


def _register(manager: pluggy.PluginManager, module: ModuleType, package: str, version: str) -> list[Entry]:
    manager.register(module)
    manager.check_pending()
    entries: list[Entry] = []
    for kind, hook in KINDS.items():
        for impl in getattr(manager.hook, hook).get_hookimpls():
            if impl.plugin is module:
                register = _collector(entries, kind, package, version)
                impl.function(**dict.fromkeys(impl.argnames, register))
    return entries


def _collector(
    entries: list[Entry], kind: str, package: str, version: str
) -> Callable[[str, str, str], None]:
    def register(name: str, target: str, summary: str) -> None:
        if not (isinstance(name, str) and re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name)):
            raise PluginError(f"a {kind} is called {name!r}, expected lower-case letters, digits and hyphens")
        module, _, attribute = str(target).partition(":")
        if not (module and attribute):
            raise PluginError(
                f"the target of {kind} '{name}' is '{target}', expected 'package.module:Attribute'"
            )
        entries.append(Entry(kind, name, target, str(summary), package, version))

    return register
