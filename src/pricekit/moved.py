"""Module paths of version 0.1, which import the new path with a warning. The next version removes them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "core.configure": "config.resolve",
    "core.events": "core.calls",
    "core.schema": "config.schema",
    "engines.bound": "engines.ort",
    "engines.opened": "engines.loaded",
    "evaluation.folds": "workflows.folds",
    "evaluation.weights": "workflows.ensemble",
    "export": "exporting",
    "features.lines": "features.labelled_lines",
    "features.names": "features.brand_category",
    "files": "support.files",
    "intervals": "prediction.intervals",
    "manifest": "bundle.manifest",
    "predict": "prediction.predictor",
    "table.reading": "table.source",
    "training.adagrad": "optim.optimizers",
    "training.average": "optim.optimizers",
    "training.backbones": "model.backbones",
    "training.cv": "workflows.cross_validation",
    "training.distill": "runs.pseudo_labels",
    "training.engine": "model.inference",
    "training.ensemble": "workflows.ensemble",
    "training.intervals": "evaluation.calibration",
    "training.losses": "model.losses",
    "training.model": "model.network",
    "training.numeric": "model.network",
    "training.optim": "optim.optimizers",
    "training.policies": "optim.policies",
    "training.pretraining": "workflows.pretraining",
    "training.source": "runs.source",
    "training.train": "runs.train",
}
"""Old to new path, both relative to `pricekit`; the modules of a moved folder move with it."""

SPLIT = {
    "screen": {
        "Advance": "support.progress:Advance",
        "counted": "support.text:counted",
        "mute": "support.log:silence",
        "notice": "support.log:logger.warning",
        "progress": "support.progress:progress",
        "say": "support.log:logger.info",
        "show_table": "cli.terminal:show_table",
        "tracked": "support.progress:tracked",
    },
    "training.run": {
        "BACKBONE": "runs.folder.names:BACKBONE",
        "FILES": "runs.folder.names:FILES",
        "INTERVALS": "runs.folder.names:INTERVALS",
        "OUT_OF_FOLD": "runs.folder.names:OUT_OF_FOLD",
        "SOURCE": "runs.folder.names:SOURCE",
        "build_model": "model.network:build_model",
        "clear_run": "runs.folder.overwrite:clear_run",
        "is_run": "runs.folder.states:is_run",
        "names_rows": "runs.folder.states:names_rows",
        "open_run": "runs.folder.opened:open_run",
        "plugins_of": "runs.setup:plugins_of",
        "read_architecture": "runs.folder.contents:read_architecture",
        "read_preprocessor": "runs.folder.contents:read_preprocessor",
        "read_sample": "runs.folder.opened:read_sample",
        "require_plugins": "runs.folder.contents:require_plugins",
    },
}
"""Modules that were split: each name with its new module and its name there."""


class MovedModules:
    """Finds modules under the paths of version 0.1, as a finder of `sys.meta_path` and a loader.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", DeprecationWarning)
        ...     from pricekit.training.optim import adamw
        >>> adamw.__module__
        'pricekit.optim.optimizers'
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return a spec for an old path, None for others."""
        del path, target
        if not name.startswith("pricekit.") or (new_path(name) is None and _split(name) is None):
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]  # a loader needs no base class

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module at the new path, or one that looks each name up in its new module."""
        new = new_path(spec.name)
        if new is None:
            return _SplitModule(spec.name)
        try:
            module = import_module(new)
        except ModuleNotFoundError as error:
            if error.name == new:
                raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name) from None
            raise
        _warn(spec.name, new)
        module.__dict__["_spec_at_new_path"] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore a module's spec, which the import system has replaced."""
        if "_spec_at_new_path" in module.__dict__:
            module.__spec__ = module.__dict__.pop("_spec_at_new_path")


class _SplitModule(ModuleType):
    """A module of version 0.1 whose names are now in several modules."""

    def __getattr__(self, name: str) -> Any:
        names = _split(self.__name__) or {}
        if name not in names:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, attributes = names[name].partition(":")
        _warn(f"{self.__name__}.{name}", f"pricekit.{module}.{attributes}")
        found: Any = import_module(f"pricekit.{module}")
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
        return found


class _Package(ModuleType):
    """The package `pricekit`: an old module does not replace the function of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in self._PUBLIC and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name: Spark and Ray send the modules that a function uses."""
        return import_module, (self.__name__,)


def new_path(name: str) -> str | None:
    """Return the new path of a module that version 0.1 had under `name`, None for other modules."""
    parts = name.split(".")[1:]
    for length in range(len(parts), 0, -1):
        if moved := MOVED.get(".".join(parts[:length])):
            return ".".join(["pricekit", moved, *parts[length:]])
    return None


def install() -> None:
    """Let `import` find the old paths."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())  # before the finder of files, which would load a module twice
        sys.modules["pricekit"].__class__ = _Package


def _split(name: str) -> dict[str, str] | None:
    return SPLIT.get(name.removeprefix("pricekit."))


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is now {new}; the next version of pricekit removes the old path",
        DeprecationWarning,
        stacklevel=3,
    )
