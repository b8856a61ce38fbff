"""The plugin loader. A plugin that fails to load affects neither other plugins nor pricekit.

Environment variables select the plugins, so that child processes load the same ones:

    PRICEKIT_LOAD_PLUGINS=a,b     only these packages or entry points; empty: none
    PRICEKIT_PLUGIN_FILES=f.py    modules to load in addition, separated as in PATH
    PRICEKIT_STRICT_PLUGINS=1     a plugin that fails to load is an error
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pluggy

from pricekit import __version__
from pricekit.core import hookspecs
from pricekit.core.hookspecs import NAMED
from pricekit.core.registry import BASES, FILE, KINDS, Entry, FailedPlugin, Registry, remedy_for, tracker_name
from pricekit.errors import ConfigError, PluginError, path_of
from pricekit.io.causes import raise_outside_cause
from pricekit.io.log import logger
from pricekit.text.kernel import offer

GROUP = "pricekit"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
BUILTINS = "pricekit.builtins"
ONLY, FILES, STRICT = "PRICEKIT_LOAD_PLUGINS", "PRICEKIT_PLUGIN_FILES", "PRICEKIT_STRICT_PLUGINS"


@cache
def registry() -> Registry:
    """Return the registry of the built-ins and the plugins that the environment selects; loaded once.

    Raises:
        PluginError: a plugin file cannot be loaded; with PRICEKIT_STRICT_PLUGINS, any plugin cannot be loaded.
    """
    files = [Path(name).absolute() for name in plugin_files()]
    if files:
        os.environ[FILES] = os.pathsep.join(
            map(str, files)
        )  # also for processes that start in another folder
    loaded = load(
        _chosen(entry_points(group=GROUP)), files, strict=os.environ.get(STRICT, "") not in ("", "0")
    )
    offer(loaded.usable_kernel)
    return loaded


def plugin_files() -> list[str]:
    """Return the plugin files that the environment names."""
    return [name for name in os.environ.get(FILES, "").split(os.pathsep) if name]


def with_files(files: Iterable[str | os.PathLike[str]]) -> str:
    """Return the value of the variable that names plugin files, with more of them; raises ConfigError."""
    paths = [str(path_of(file, "files").absolute()) for file in files]
    if wrong := [path for path in paths if os.pathsep in path]:
        raise ConfigError(
            f"the path {wrong[0]} contains '{os.pathsep}'; move the file", parameters=("files",)
        )
    return os.pathsep.join(dict.fromkeys([*plugin_files(), *paths]))


def use_plugins(*files: str | os.PathLike[str]) -> None:
    """Load plugins from Python files, in this process and in those that it starts.

    A file that was loaded before is loaded again, so a notebook can change it.

    Args:
        files: Python files that register plugins, such as `features.py`.

    Raises:
        PluginError: a file cannot be loaded; then none of them is used.
        ConfigError: a value is no path, or the path contains the separator of PATH.

    Example:
        >>> import pricekit as pk, tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp(), "observer.py")
        >>> _ = file.write_text("def greet(): pass")
        >>> pk.use_plugins(file)
    """
    before, os.environ[FILES] = os.environ.get(FILES, ""), with_files(files)
    registry.cache_clear()
    try:
        registry()
    except PluginError:
        os.environ[FILES] = before
        registry.cache_clear()
        raise


def load(points: Iterable[EntryPoint], files: Sequence[Path] = (), *, strict: bool = False) -> Registry:
    """Load the built-ins, then each entry point and each file separately.

    A failing entry point is recorded and logged once. A failing file is an error, because the user named it.
    """
    loaded = Registry(pluggy.PluginManager(GROUP))
    loaded.manager.add_hookspecs(hookspecs)
    loaded.add(_register(loaded.manager, import_module(BUILTINS), "pricekit", __version__))
    for point in sorted(points, key=lambda p: p.name):
        package = point.dist.name if point.dist else point.module
        version = point.dist.version if point.dist else "unknown version"
        if failed := _load_one(loaded, point.name, package, version, point.load):
            plugin = f"plugin {failed.name} of {package} {version}"
            if strict:
                raise PluginError(f"the {plugin} failed to load: {failed.reason}. {failed.remedy}")
            loaded.failed.append(failed)
            logger.warning(f"{plugin} is ignored: {failed.reason}")
    if os.environ.get(ONLY) is not None:
        loaded.selection_note = f", and check that the environment variable {ONLY} includes it"
    for file in dict.fromkeys(files):
        if not file.is_file():
            state = "is a folder" if file.is_dir() else "does not exist"
            raise PluginError(f"the plugin file {file} {state}; expected a Python file, such as features.py")
        version = FILE + hashlib.sha256(file.read_bytes()).hexdigest()[:8]
        if failed := _load_one(loaded, file.name, file.name, version, partial(_import_file, file)):
            raise PluginError(f"the plugin {file} cannot be loaded: {failed.reason}. {failed.remedy}")
    return loaded


def _chosen(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return the entry points that the environment selects; log names that match none."""
    known = list(points)
    if (only := os.environ.get(ONLY)) is None:
        return known
    names = {name.strip() for name in only.split(",") if name.strip()}
    of = {point: {point.name, point.dist.name if point.dist else point.name} for point in known}
    if absent := sorted(names - set().union(*of.values())):
        logger.warning(f"{ONLY} names {', '.join(absent)}, but no such plugin package is installed")
    return [point for point in known if of[point] & names]


def _load_one(
    loaded: Registry, name: str, package: str, version: str, importing: Callable[[], ModuleType]
) -> FailedPlugin | None:
    """Load one plugin completely or not at all; return the failure."""
    module: ModuleType | None = None
    try:
        module = importing()
        loaded.add(_register(loaded.manager, module, package, version))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an extension module may raise anything at import
        raise_outside_cause(error)
        if module is not None and loaded.manager.is_registered(module):
            loaded.manager.unregister(module)
        message = " ".join(str(error).split())
        reason = message if isinstance(error, PluginError) else f"{type(error).__name__}: {message}"
        if version.startswith(FILE) and (line := _line_in(error, name)):
            reason += f" (line {line})"
        remedy = remedy_for(error, package, version)
        return FailedPlugin(name, package, version, reason, remedy, traceback.format_exc())
    return None


_importing: set[str] = set()
"""The plugin files that are being imported, by the names of their modules."""


def _import_file(path: Path) -> ModuleType:
    """Import a module from a path under a unique name, which is its `__name__`."""
    stem = re.sub(r"\W", "_", path.stem)
    name = f"pricekit_file_{stem}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in _importing:
        raise PluginError(
            f"{path} loads itself; put what the script does below the line if __name__ == '__main__':"
        )
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} is not a Python file; expected a name that ends in .py")
    module = sys.modules[name] = module_from_spec(spec)
    _importing.add(name)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        _importing.remove(name)
    return module


def _line_in(error: BaseException, name: str) -> int | None:
    """Return the line of a plugin file that raised an error."""
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if Path(frame.f_code.co_filename).name == name
    ]
    return lines[-1] if lines else None


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
                        f"its hook {hook} is a wrapper, which registers nothing; remove the wrapper option"
                    )
                register = _collector(entries, kind, package, version)
                impl.function(*[register] * len(impl.argnames))  # a hook may omit the argument
    for value in {id(value): value for value in vars(module).values()}.values():
        if isinstance(value, type) and value.__module__ == module.__name__ and NAMED in vars(value):
            kind, name = getattr(value, NAMED)
            _check_base(value, kind, name)
            summary = (inspect.getdoc(value) or "").partition("\n")[0].rstrip(".")
            _collector(entries, kind, package, version)(
                name, f"{module.__name__}:{value.__qualname__}", summary
            )
    return entries


def _check_base(plugin: type, kind: str, name: str) -> None:
    """Reject a class that derives from the base class of another kind than its decorator names."""
    bases = {f"{base.__module__}:{base.__qualname__}" for base in plugin.__mro__}
    for other, base in BASES.items():
        if other != kind and base in bases:
            raise PluginError(
                f"@plugin.{kind}({name!r}) stands above class {plugin.__name__}, which derives from "
                f"plugin.{other.title()}; write @plugin.{other}({name!r}), or derive it from plugin.{kind.title()}"
            )


def _check_module(module: ModuleType, package: str) -> None:
    """Reject a module for another version of the interface, or with hooks that would never be called."""
    if not isinstance(module, ModuleType):
        raise PluginError(f"its entry point names a {type(module).__name__}; expected a module")
    wanted = getattr(module, "pricekit_api", hookspecs.API)
    if not isinstance(wanted, int):
        raise PluginError(f"its pricekit_api is {wanted!r}, expected an integer, such as {hookspecs.API}")
    if wanted != hookspecs.API:
        raise PluginError(
            f"it was written for version {wanted} of the plugin interface, but pricekit {__version__} has version "
            f"{hookspecs.API}; upgrade {'pricekit' if wanted > hookspecs.API else package}"
        )
    tracker = tracker_name(module)
    if not (tracker is None or (isinstance(tracker, str) and _NAME.fullmatch(tracker))):
        raise PluginError(
            f"its pricekit_tracker is {tracker!r}; expected lower-case letters, digits and hyphens"
        )
    for name, value in vars(module).items():
        if name.startswith("pricekit_") and callable(value) and not hasattr(value, "pricekit_impl"):
            raise PluginError(
                f"its function {name} is not a hook; decorate it with @pricekit.plugin.hookimpl"
            )


def _collector(
    entries: list[Entry], kind: str, package: str, version: str
) -> Callable[[str, str, str], None]:
    def register(name: str, target: str, summary: str) -> None:
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise PluginError(
                f"{name!r} is not a {kind} name; expected lower-case letters, digits and hyphens"
            )
        module, _, attribute = str(target).partition(":")
        if not (module and attribute):
            raise PluginError(
                f"the target of {kind} '{name}' is '{target}'; expected 'package.module:Attribute'"
            )
        entries.append(Entry(kind, name, target, str(summary), package, version))

    register.__qualname__ = "register"  # for Python's messages about wrong arguments
    return register
