"""The guarded loader: one broken plugin never hurts the others, nor pricekit itself.

Which plugins are loaded is told by the environment, so that processes started by this one load the same:

    PRICEKIT_LOAD_PLUGINS=a,b     these packages or entry points alone; empty: none
    PRICEKIT_PLUGIN_FILES=f.py    modules to load beside the packages; several are parted as in PATH
    PRICEKIT_STRICT_PLUGINS=1     a plugin that fails to load is an error
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType, ModuleType

import pluggy

from pricekit import __version__
from pricekit.core import hookspecs
from pricekit.core.registry import FILE, KINDS, Broken, Entry, Registry, cure_of
from pricekit.errors import PluginError

GROUP = "pricekit"
BUILTINS = "pricekit.builtins"
ONLY, FILES, STRICT = "PRICEKIT_LOAD_PLUGINS", "PRICEKIT_PLUGIN_FILES", "PRICEKIT_STRICT_PLUGINS"


@cache
def registry() -> Registry:
    """Return the registry of the built-ins and all plugins that the environment asks for, loaded once.

    Raises:
        PluginError: a plugin file cannot be loaded, or, where the environment says so, any plugin.
    """
    files = [Path(name).absolute() for name in os.environ.get(FILES, "").split(os.pathsep) if name]
    return load(_chosen(entry_points(group=GROUP)), files, strict=os.environ.get(STRICT, "") not in ("", "0"))


def load(points: Iterable[EntryPoint], files: Sequence[Path] = (), *, strict: bool = False) -> Registry:
    """Load the built-ins, then each entry point and each file by itself.

    An entry point that fails is remembered and said once; a file that fails is an error: it was asked for.
    """
    found = Registry(pluggy.PluginManager(GROUP))
    found.manager.add_hookspecs(hookspecs)
    found.add(_register(found.manager, import_module(BUILTINS), "pricekit", __version__))
    for point in sorted(points, key=lambda p: p.name):
        package = point.dist.name if point.dist else point.module
        version = point.dist.version if point.dist else "unknown version"
        if broken := _guarded(found, point.name, package, version, point.load):
            plugin = f"plugin {broken.name} of {package} {version}"
            if strict:
                raise PluginError(f"the {plugin} failed to load: {broken.reason}. {broken.cure}")
            found.broken.append(broken)
            print(f"pricekit: {plugin} is ignored: {broken.reason}", file=sys.stderr)
    if os.environ.get(ONLY) is not None:
        found.left_out = f", and see that {ONLY} or --no-plugins does not leave it out"
    for file in dict.fromkeys(files):
        if not file.is_file():
            state = "is a folder" if file.is_dir() else "is not there"
            raise PluginError(
                f"the plugin file {file} {state}; name a Python file, as in --plugin features.py"
            )
        if broken := _guarded(found, file.name, file.name, FILE + _digest(file), partial(_import_file, file)):
            raise PluginError(f"the plugin {file} cannot be loaded: {broken.reason}. {broken.cure}")
    return found


def _chosen(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return the entry points that are to be loaded; a name that nothing has is said."""
    found = list(points)
    if (only := os.environ.get(ONLY)) is None:
        return found
    names = {name.strip() for name in only.split(",") if name.strip()}
    of = {point: {point.name, point.dist.name if point.dist else point.name} for point in found}
    if absent := sorted(names - set().union(*of.values())):
        print(f"pricekit: {ONLY} names {', '.join(absent)}, which no installed package has", file=sys.stderr)
    return [point for point in found if of[point] & names]


def _guarded(
    found: Registry, name: str, package: str, version: str, importing: Callable[[], ModuleType]
) -> Broken | None:
    """Load one plugin, whole or not at all; return what broke."""
    module: ModuleType | None = None
    try:
        with redirect_stdout(sys.stderr):  # stdout is for data
            module = importing()
            found.add(_register(found.manager, module, package, version))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an extension module may raise anything at import
        if module is not None and found.manager.is_registered(module):
            found.manager.unregister(module)
        said = " ".join(str(error).split())
        reason = said if isinstance(error, PluginError) else f"{type(error).__name__}: {said}"
        if version.startswith(FILE) and (line := _line_in(error, name)):
            reason += f" (line {line})"
        return Broken(
            name, package, version, reason, cure_of(error, package, version), traceback.format_exc()
        )
    return None


def _import_file(path: Path) -> ModuleType:
    """Import a module from a path, under a name of its own, which its targets call `__name__`."""
    stem = re.sub(r"\W", "_", path.stem)
    name = f"pricekit_file_{stem}_{zlib.crc32(os.fsencode(path)):08x}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} is no Python file, expected a name that ends in .py")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _digest(path: Path) -> str:
    """Return a short hash of a file's content: another content is another version."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]


def _line_in(error: BaseException, name: str) -> int | None:
    """Return the line of a plugin file where an error was raised."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if _names(frame, name)]
    return lines[-1] if lines else None


def _names(frame: FrameType, name: str) -> bool:
    return Path(frame.f_code.co_filename).name == name


def _register(manager: pluggy.PluginManager, module: ModuleType, package: str, version: str) -> list[Entry]:
    _check_module(module, package)
    manager.register(module, name=f"{package} {version} ({module.__name__})")
    manager.check_pending()
    entries: list[Entry] = []
    for kind, hook in KINDS.items():
        for impl in getattr(manager.hook, hook).get_hookimpls():
            if impl.plugin is module:
                if impl.wrapper or impl.hookwrapper:
                    raise PluginError(
                        f"its hook {hook} is a wrapper, which registers nothing; make it a plain one"
                    )
                register = _collector(entries, kind, package, version)
                impl.function(**dict.fromkeys(impl.argnames, register))
    return entries


def _check_module(module: ModuleType, package: str) -> None:
    """Refuse a module of another interface, and one whose hooks would never be called."""
    if not isinstance(module, ModuleType):
        raise PluginError(f"its entry point names a {type(module).__name__}, expected a module")
    wanted = getattr(module, "pricekit_api", hookspecs.API)
    if not isinstance(wanted, int):
        raise PluginError(f"its pricekit_api is {wanted!r}, expected a whole number, such as {hookspecs.API}")
    if wanted != hookspecs.API:
        raise PluginError(
            f"it is written for version {wanted} of the plugin interface, this pricekit {__version__} has version "
            f"{hookspecs.API}; upgrade {'pricekit' if wanted > hookspecs.API else package}"
        )
    for name, value in vars(module).items():
        if name.startswith("pricekit_") and callable(value) and not hasattr(value, "pricekit_impl"):
            raise PluginError(f"its function {name} is no hook: put @pricekit.hookimpl over it")


def _collector(
    entries: list[Entry], kind: str, package: str, version: str
) -> Callable[[str, str, str], None]:
    def register(name: str, target: str, summary: str) -> None:
        if not (isinstance(name, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)):
            raise PluginError(f"a {kind} is called {name!r}, expected lower-case letters, digits and hyphens")
        module, _, attribute = str(target).partition(":")
        if not (module and attribute):
            raise PluginError(
                f"the target of {kind} '{name}' is '{target}', expected 'package.module:Attribute'"
            )
        entries.append(Entry(kind, name, target, str(summary), package, version))

    register.__qualname__ = "register"  # as its caller knows it, for what Python says of missing arguments
    return register
