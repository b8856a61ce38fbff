"""The registry: the available plugins, how to create one from its name and options, and what else packages provide."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pluggy
from pydantic import BaseModel, ValidationError

from pricekit.errors import ConfigError, PluginError, explain_invalid
from pricekit.io.causes import raise_outside_cause
from pricekit.io.log import logger
from pricekit.io.sources import Source
from pricekit.io.storage import PROVIDERS
from pricekit.text.kernel import KERNEL, Kernel
from pricekit.wording import did_you_mean, shorten

KINDS = {
    "feature": "pricekit_register_features",
    "backbone": "pricekit_register_backbones",
    "loss": "pricekit_register_losses",
    "policy": "pricekit_register_policies",
    "engine": "pricekit_register_engines",
    "kernel": "pricekit_register_kernels",
    "source": "pricekit_register_sources",
}
"""The kinds of plugins, each with the hook that registers it."""

BASES = {
    "feature": "pricekit.core.contracts:Feature",
    "backbone": "pricekit.core.contracts:Backbone",
    "loss": "pricekit.core.contracts:Loss",
    "policy": "pricekit.training.policies:Policy",
    "engine": "pricekit.core.contracts:Engine",
    "kernel": "pricekit.text.kernel:Kernel",
    "source": "pricekit.io.sources:Source",
}
"""The base class of each kind, imported on first use."""

PACKAGES = frozenset({"fast", "lightgbm", "lion", "minilm", "mlflow", "openvino", "tensorboard"})
"""Plugins in packages that this project publishes as pricekit-NAME."""

SOURCES = {
    "postgresql": "pricekit-sql",
    "sqlite": "pricekit-sql",
    "duckdb": "pricekit-sql",
    "delta": "pricekit-lake",
    "iceberg": "pricekit-lake",
}
"""The packages of this project that read and write tables at addresses, by the schemes of these."""

_PACKAGE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The name of a package (PEP 508)."""

FILE = "file "
"""Prefix of the version of a plugin from a single file; a hash of the file's content follows."""


@dataclass(frozen=True)
class Entry:
    """A registered plugin, not imported yet."""

    kind: str
    name: str
    target: str
    summary: str
    package: str
    version: str

    def facts(self) -> dict[str, str]:
        """Return the fields that a run and a bundle store."""
        return {"kind": self.kind, "name": self.name, "package": self.package, "version": self.version}

    def load(self) -> Any:
        """Import the plugin's class; raises PluginError if the import fails."""
        try:
            return _import(self.target)
        except (Exception, SystemExit) as error:
            raise_outside_cause(error)
            raise PluginError(
                f"the {self.kind} '{self.name}' of package {self.package} {self.version} cannot be loaded "
                f"from {self.target}: {type(error).__name__}: {error}. "
                f"{remedy_for(error, self.package, self.version)}"
            ) from error


@dataclass(frozen=True)
class FailedPlugin:
    """A plugin package that failed to load, the reason, and what to do."""

    name: str
    package: str
    version: str
    reason: str
    remedy: str
    traceback: str

    def facts(self) -> dict[str, str]:
        """Return name, package, version, reason and remedy."""
        return {key: value for key, value in asdict(self).items() if key != "traceback"}


@dataclass
class Registry:
    """All plugins by kind and name, the packages that failed to load, and the hooks of the others."""

    manager: pluggy.PluginManager
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    failed: list[FailedPlugin] = field(default_factory=list)
    selection_note: str = ""
    """Why installed packages may be missing here: the end of a sentence, or ""."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Add all plugins of one package, or none; raises PluginError if a name is taken."""
        new: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            taken = self.entries.get((entry.kind, entry.name)) or new.get((entry.kind, entry.name))
            if taken:
                twice = f"the {entry.kind} '{entry.name}' is registered twice"
                if entry.package == taken.package:
                    first, second = (each.target.partition(":")[2] for each in (taken, entry))
                    raise PluginError(f"{twice}, as {first} and as {second}; rename one of them")
                raise PluginError(
                    f"{twice}, by {taken.package} {taken.version} and by {entry.package} {entry.version}; rename it, "
                    "or uninstall one of the two packages"
                )
            new[entry.kind, entry.name] = entry
        self.entries |= new

    def require_trackers(self, names: Iterable[str]) -> None:
        """Raise PluginError unless there is a tracker of each name."""
        known = sorted(name for module in self.manager.get_plugins() if (name := tracker_name(module)))
        for name in names:
            if name not in known:
                raise PluginError(
                    f"there is no tracker '{name}'; {self._alternatives(name, known)}",
                    parameters=("track",),
                    name=name,
                    candidates=known,
                )

    def observers(self) -> list[str]:
        """Return the names of the plugin modules that observe runs."""
        hooks = [hook for hook in vars(self.manager.hook).values() if getattr(hook, "spec", None)]
        events = [hook for hook in hooks if hook.name not in KINDS.values()]
        return sorted({impl.plugin_name for hook in events for impl in hook.get_hookimpls()})

    def of_kind(self, kind: str) -> list[Entry]:
        """Return the plugins of a kind, sorted by name."""
        return sorted((e for e in self.entries.values() if e.kind == kind), key=lambda e: e.name)

    def get(self, kind: str, name: str) -> Entry:
        """Return one plugin; raises PluginError with the available names and the nearest one."""
        name = str(name)
        if entry := self.entries.get((kind, name)):
            return entry
        names = [e.name for e in self.of_kind(kind)]
        raise PluginError(
            f"unknown {kind} '{name}'; {self._alternatives(name, names)}",
            parameters=(kind,) if kind != "feature" else ("features",),
            kind=kind,
            name=name,
            candidates=names,
        )

    def require(self, kind: str, name: str, package: str, version: str) -> None:
        """Raise PluginError with reason and remedy if a plugin that a run or a bundle needs is missing."""
        if (kind, name) in self.entries:
            return
        for failed in self.failed:
            if failed.package == package:
                raise PluginError(
                    f"this model needs the {kind} '{name}' of {package}, but {package} {failed.version} failed to "
                    f"load: {failed.reason}. {failed.remedy}"
                )
        raise PluginError(
            f"this model needs the {kind} '{shorten(name)}' of {shorten(package)} {shorten(version)}, which is not "
            "loaded; "
            f"{install_line(package, version)}{'' if version.startswith(FILE) else self.selection_note}",
            parameters=("plugin_files",) if version.startswith(FILE) else (),
        )

    def _alternatives(self, name: str, known: Sequence[str]) -> str:
        """Return the end of a sentence about an unknown name: the known ones, the nearest, and where it may be."""
        package = f" '{name}' is in the package pricekit-{name}; install it." if name in PACKAGES else ""
        failed = "; ".join(f"{f.package} {f.version} ({f.reason})" for f in self.failed)
        note = f" These plugin packages failed to load and may contain it: {failed}." if failed else ""
        return f"available: {', '.join(known) or 'none'}.{did_you_mean(name, known)}{package}{note}"

    def create(self, kind: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
        """Create a plugin from its name and options.

        Raises:
            PluginError: the name is unknown, or the plugin cannot be imported.
            ConfigError: an option is unknown or of the wrong type, or the plugin refuses it.
        """
        plugin = self.get(kind, name).load()
        checked = self._options(kind, name, plugin, options or {})
        try:
            return completed(kind, plugin() if checked is None else plugin(checked))
        except (ConfigError, PluginError):
            raise
        except (Exception, SystemExit) as error:
            raise_outside_cause(error)
            raise PluginError(
                f"the {kind} '{name}' cannot be created by {'Plugin()' if checked is None else 'Plugin(options)'}: "
                f"{type(error).__name__}: {error}. Report it to the plugin's author"
            ) from error

    def source(self, scheme: str, parameter: str) -> Source:
        """Create the source of addresses; raises ConfigError for an unknown scheme, and PluginError.

        Args:
            scheme: of the addresses, and the name of the source.
            parameter: the name of the one that has the address, for the error.
        """
        if ("source", scheme) in self.entries:
            return cast(Source, self.create("source", scheme))
        known = [*PROVIDERS, *SOURCES, *(entry.name for entry in self.of_kind("source"))]
        start = f"the scheme {shorten(scheme)}://"
        if package := SOURCES.get(scheme):
            raise ConfigError(
                f"{start} needs the package {package}: {install_command(package)}{self.selection_note}",
                package=package,
            )
        schemes = ", ".join(f"{name}://" for name in dict.fromkeys(known))
        raise ConfigError(
            f"{start} of an address is unknown; expected a local path, or one of {schemes}."
            f"{did_you_mean(scheme, known)}",
            parameters=(parameter,),
            candidates=known,
        )

    def kernel(self, name: str) -> Kernel:
        """Create a kernel; raises PluginError if it does not fit this version of pricekit or this machine."""
        entry, kernel = self.get("kernel", name), self.create("kernel", name)
        if kernel.version == KERNEL:
            return cast(Kernel, kernel)
        other = entry.package if kernel.version < KERNEL else "pricekit"
        raise PluginError(
            f"the kernel '{name}' of {entry.package} {entry.version} has version {kernel.version}, and this pricekit "
            f"uses version {KERNEL}. Upgrade {other}"
        )

    def usable_kernel(self) -> Kernel | None:
        """Return the first kernel that can be used; None without one. It logs why others cannot be used."""
        for entry in self.of_kind("kernel"):
            try:
                return self.kernel(entry.name)
            except PluginError as error:
                logger.warning(f"Python computes what {entry.package} would: {error}")
        return None

    def resolve(self, kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of a plugin, including defaults, as plain values; raises like `create`."""
        checked = self._options(kind, name, self.get(kind, name).load(), options)
        return {} if checked is None else checked.model_dump(mode="json")

    def _options(self, kind: str, name: str, plugin: Any, options: Mapping[str, Any]) -> BaseModel | None:
        model = options_model(plugin)
        if model is None and hasattr(plugin, "Options"):
            raise PluginError(
                f"the Options of the {kind} '{name}' are not a pydantic model; expected a class derived from "
                "pydantic.BaseModel. Report it to the plugin's author"
            )
        if model is None:
            if options:
                raise ConfigError(
                    f"the {kind} '{name}' takes no options, but got {shorten(', '.join(options), 300)}; remove "
                    "them",
                    parameters=("settings",),
                    setting=next(iter(options)),
                    candidates=[],
                )
            return None
        known = list(model.model_fields)
        if "name" in known:
            raise PluginError(
                f"the {kind} '{name}' has an option 'name', which is reserved for the plugin's name. Report it to "
                "the plugin's author"
            )
        for option in options:
            if option not in known:  # even if the plugin's model ignores unknown options
                hint = did_you_mean(option, known) or f" Available: {', '.join(known)}."
                raise ConfigError(
                    f"the {kind} '{name}' has no option '{option}'.{hint}",
                    parameters=("settings",),
                    setting=option,
                    candidates=known,
                )
        try:
            return model.model_validate(dict(options))
        except ValidationError as error:
            raise explain_invalid(error, f"{kind} '{name}'", known) from None
        except Exception as error:  # such as pydantic's error for an incomplete model
            raise PluginError(
                f"the options of the {kind} '{name}' cannot be created: {type(error).__name__}: {error}. Report it to "
                "the plugin's author"
            ) from error


def tracker_name(module: Any) -> str | None:
    """Return the name by which a run asks for a plugin module that observes it; None for one that always observes."""
    return getattr(module, "pricekit_tracker", None)


def completed(kind: str, plugin: Any) -> Any:
    """Return a plugin with the defaults of its kind, also if its class does not derive from the base class.

    Raises:
        PluginError: its class cannot derive from it.
    """
    base = _import(BASES[kind])
    if not isinstance(plugin, base):
        try:
            object.__setattr__(plugin, "__class__", _with_base(type(plugin), base))  # type: ignore[arg-type]
        except TypeError as error:
            raise PluginError(
                f"{type(plugin).__name__} is no {kind}: {error}; derive it from pricekit.plugin.{base.__name__}"
            ) from None
    return plugin


@cache
def _with_base(own: type, base: type) -> type:
    facts = {name: getattr(own, name) for name in ("__module__", "__doc__", "__qualname__")}
    return type(own)(own.__name__, (own, base), facts)


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def options_model(plugin: Any) -> type[BaseModel] | None:
    """Return the pydantic model of a plugin's options, None if it has none."""
    model = getattr(plugin, "Options", None)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def remedy_for(error: BaseException, package: str, version: str) -> str:
    """Return advice for a plugin that failed to load."""
    missing = (getattr(error, "name", None) or "") if isinstance(error, ModuleNotFoundError) else ""
    top, *inside = missing.split(".")
    if package == "pricekit" and missing and top != "pricekit":
        return f"{missing} is part of an extra: pip install 'pricekit[train]'"
    if top == "pricekit":
        return f"It was written for another version of pricekit: upgrade {package} or pricekit"
    if version.startswith(FILE):
        if not missing:
            return "Fix the file"
        return f"Install its dependency: pip install {top}. If {top} is your own file, move its code into this one"
    if missing and not inside and top != re.sub(r"\W", "_", package):
        return f"Install its dependency: pip install {top}"
    return f"Upgrade {package}, or uninstall it: pip uninstall {package}; report it to its author with the traceback"


def install_line(package: str, version: str) -> str:
    """Return how to get a missing plugin; package and version may come from a stranger's bundle."""
    if version.startswith(FILE):
        return f"load its file {shlex.quote(shorten(package, 200))} (in Python: pricekit.use_plugins)"
    if not _PACKAGE_NAME.fullmatch(package):
        return f"its package has no valid name ({shorten(package)!r}); do not trust the model"
    return install_command(package)


def install_command(package: str) -> str:
    """Return the command that installs a package.

    It names the folder of a package of this project if pricekit itself was installed from its sources. Otherwise, and
    for other packages, it names the package, as in an index. An extra of pricekit needs no such distinction: pip
    installs those of the installed pricekit.

    Args:
        package: a valid name, such as "pricekit-serve".

    Example:
        >>> install_command("some-package")
        'pip install some-package'
    """
    sources = _sources()
    folder = None if sources is None else sources / "plugins" / package
    if folder is not None and (folder / "pyproject.toml").is_file():
        return f"pip install {shlex.quote(str(folder))}"
    return f"pip install {package}"


def _sources() -> Path | None:
    """Return the folder from which pip installed pricekit, as it recorded (PEP 610); None for an index or a wheel."""
    try:
        record = json.loads(distribution("pricekit").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    if "dir_info" not in record or not str(record.get("url")).startswith("file://"):
        return None
    from urllib.request import url2pathname  # imports ssl

    return Path(url2pathname(urlsplit(record["url"]).path))


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
