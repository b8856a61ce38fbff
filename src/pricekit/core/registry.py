"""The registry: which plugins there are, and how one is made from its name and options."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

import pluggy
from pydantic import BaseModel, ValidationError

from pricekit.errors import ConfigError, PluginError, explain_invalid
from pricekit.text import did_you_mean

KINDS = {
    "feature": "pricekit_register_features",
    "backbone": "pricekit_register_backbones",
    "loss": "pricekit_register_losses",
    "policy": "pricekit_register_policies",
    "engine": "pricekit_register_engines",
}
"""Each kind of plugin and the hook that registers it."""

PACKAGES = frozenset({"lightgbm", "lion", "minilm", "openvino"})
"""Plugins in packages of pricekit's own, which are called pricekit-NAME."""
FILE = "file "
"""What the version of a plugin from a single file begins with; a hash of its content follows."""


@dataclass(frozen=True)
class Entry:
    """One registered plugin, not yet imported."""

    kind: str
    name: str
    target: str
    summary: str
    package: str
    version: str

    def facts(self) -> dict[str, str]:
        """Return what a run and a bundle keep of it."""
        return {"kind": self.kind, "name": self.name, "package": self.package, "version": self.version}

    def load(self) -> Any:
        """Import the plugin's class; raises PluginError where that fails."""
        module, _, attribute = self.target.partition(":")
        try:
            with redirect_stdout(sys.stderr):  # stdout is for data
                return getattr(import_module(module), attribute)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"the {self.kind} '{self.name}' of package {self.package} {self.version} cannot be loaded "
                f"from {self.target}: {type(error).__name__}: {error}. "
                f"{cure_of(error, self.package, self.version)}"
            ) from error


@dataclass(frozen=True)
class Broken:
    """A plugin package that failed to load, why, and what to do."""

    name: str
    package: str
    version: str
    reason: str
    cure: str
    traceback: str

    def facts(self) -> dict[str, str]:
        """Return who failed, why, and what to do."""
        return {key: value for key, value in asdict(self).items() if key != "traceback"}


@dataclass
class Registry:
    """All plugins by kind and name, the packages that failed to load, and the hooks of all others."""

    manager: pluggy.PluginManager
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)
    left_out: str = ""
    """Why packages that are installed may not be here: a part of a sentence."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Add the plugins of one package, all or none; raises PluginError for a name that is taken."""
        new: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            taken = self.entries.get((entry.kind, entry.name)) or new.get((entry.kind, entry.name))
            if taken:
                raise PluginError(
                    f"the {entry.kind} '{entry.name}' is registered twice, by {taken.package} {taken.version} "
                    f"and by {entry.package} {entry.version}; choose another name, or uninstall one of the two"
                )
            new[entry.kind, entry.name] = entry
        self.entries |= new

    def observers(self) -> list[str]:
        """Return the plugin modules that observe runs."""
        hooks = [hook for hook in vars(self.manager.hook).values() if getattr(hook, "spec", None)]
        events = [hook for hook in hooks if hook.name not in KINDS.values()]
        return sorted({impl.plugin_name for hook in events for impl in hook.get_hookimpls()})

    def of_kind(self, kind: str) -> list[Entry]:
        """Return the plugins of a kind, by name."""
        return sorted((e for e in self.entries.values() if e.kind == kind), key=lambda e: e.name)

    def get(self, kind: str, name: str) -> Entry:
        """Return one plugin; raises PluginError that lists what there is and the nearest name."""
        if entry := self.entries.get((kind, name)):
            return entry
        names = [e.name for e in self.of_kind(kind)]
        raise PluginError(
            f"there is no {kind} '{name}'; available: {', '.join(names) or 'none'}."
            f"{did_you_mean(name, names)}{_package_of(name)}{self._broken_note()}"
        )

    def require(self, kind: str, name: str, package: str, version: str) -> None:
        """Raise PluginError where a plugin that a run or a bundle was made with is not there: why, and the cure."""
        if (kind, name) in self.entries:
            return
        for broken in self.broken:
            if broken.package == package:
                raise PluginError(
                    f"this model needs the {kind} '{name}' of {package}, of which version {broken.version} failed to "
                    f"load: {broken.reason}. {broken.cure}"
                )
        raise PluginError(
            f"this model needs the {kind} '{name}' of {package} {version}, which is not loaded; "
            f"{install_line(package, version)}{self.left_out}"
        )

    def _broken_note(self) -> str:
        if not self.broken:
            return ""
        failed = "; ".join(f"{b.package} {b.version} ({b.reason})" for b in self.broken)
        return f" Plugin packages that failed to load and may have held it: {failed}."

    def create(self, kind: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
        """Make a plugin from its name and options.

        Raises:
            PluginError: the name is unknown, or the plugin cannot be imported.
            ConfigError: an option is unknown or of the wrong type.
        """
        plugin = self.get(kind, name).load()
        checked = self._options(kind, name, plugin, options or {})
        try:
            return plugin() if checked is None else plugin(checked)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"the {kind} '{name}' cannot be made: {type(error).__name__}: {error}. It is made as "
                f"{'Plugin()' if checked is None else 'Plugin(options)'}; report it to the plugin's author"
            ) from error

    def resolve(self, kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of a plugin, defaults included, as plain values; raises as `create` does."""
        checked = self._options(kind, name, self.get(kind, name).load(), options)
        return {} if checked is None else checked.model_dump(mode="json")

    def _options(self, kind: str, name: str, plugin: Any, options: Mapping[str, Any]) -> BaseModel | None:
        model = options_model(plugin)
        if model is None and hasattr(plugin, "Options"):
            raise PluginError(
                f"the Options of the {kind} '{name}' are no pydantic model, expected a class derived from "
                "pydantic.BaseModel; report it to the plugin's author"
            )
        if model is None:
            if options:
                raise ConfigError(f"the {kind} '{name}' takes no options, but got {', '.join(options)}")
            return None
        known = list(model.model_fields)
        if "name" in known:
            raise PluginError(
                f"the {kind} '{name}' has an option called 'name', which is the plugin's own; rename it"
            )
        for given in options:
            if given not in known:  # also where the plugin's model would ignore it
                hint = did_you_mean(given, known) or f" There are: {', '.join(known)}."
                raise ConfigError(f"the {kind} '{name}' has no option '{given}'.{hint}")
        try:
            return model(**options)
        except ValidationError as error:
            raise explain_invalid(error, f"{kind} '{name}'", known) from None
        except Exception as error:  # pydantic's, for a model that is not complete
            raise PluginError(
                f"the options of the {kind} '{name}' cannot be made: {type(error).__name__}: {error}; report it to "
                "the plugin's author"
            ) from error


def _package_of(name: str) -> str:
    """Say which of pricekit's own packages has a plugin that is not installed."""
    return f" '{name}' is in the package pricekit-{name}; install that." if name in PACKAGES else ""


def options_model(plugin: Any) -> type[BaseModel] | None:
    """Return the pydantic model of a plugin's options, None where it has none."""
    model = getattr(plugin, "Options", None)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def cure_of(error: BaseException, package: str, version: str) -> str:
    """Return what to do about a plugin that cannot be loaded."""
    missing = (getattr(error, "name", None) or "") if isinstance(error, ModuleNotFoundError) else ""
    top, *inside = missing.split(".")
    if package == "pricekit" and missing and top != "pricekit":
        return f"{missing} is part of an extra: pip install 'pricekit[train]'"
    if top == "pricekit":
        return f"It is written for another version of pricekit: upgrade {package} or pricekit"
    if version.startswith(FILE):
        needed = (
            f"Install what it needs: pip install {top}; where {top} is a file of yours, put it into this one"
        )
        return needed if missing else "Correct the file"
    if missing and not inside and top != re.sub(r"\W", "_", package):
        return f"Install what it needs: pip install {top}"
    return f"Upgrade {package}, or uninstall it: pip uninstall {package}; its author needs the traceback"


def install_line(package: str, version: str) -> str:
    """Return how a plugin that is missing is had."""
    return f"name its file: --plugin {package}" if version.startswith(FILE) else f"pip install {package}"
