"""A named check, and what it says when it fails."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from pricekit.core.registry import options_model
from pricekit.errors import PricekitError
from pricekit.text import shorten

Make = Callable[[], Any]
"""Makes a plugin: the class itself where it takes no options."""

ByHand = tuple[Sequence[float], Sequence[float], Sequence[float], float]
"""Prices to fit a loss on, raw outputs and their true prices, both (B,), and the loss that follows from them."""

_EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "onnx", "onnxscript", "safetensors", "accelerate"), "train"),
    "onnxruntime": "cpu",
}
_LIBRARIES = {
    *("torch", "transformers", "tokenizers", "onnx", "onnxscript", "onnxruntime", "safetensors"),
    *("numpy", "pandas", "pyarrow", "pydantic"),
    *sys.stdlib_module_names,
}


class CheckFailed(AssertionError):  # noqa: N818 (it reads as what happened)
    """A plugin breaks its contract; the message says what was found, what was expected and what to do."""


@dataclass(frozen=True)
class Check:
    """One thing that a plugin must do.

    Attributes:
        name: what that is, in a few words.
        run: returns where the plugin does it; raises CheckFailed where it does not, and leaves nothing behind.
    """

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Run the check; raises CheckFailed."""
        self.run()

    def __str__(self) -> str:
        return self.name


def named(checks: Mapping[str, Callable[[Make], None]], make: Make) -> list[Check]:
    """Return checks of one plugin, by name; whatever the plugin raises in one becomes a CheckFailed."""
    return [Check(name, partial(_run, function, make)) for name, function in checks.items()]


def fail(found: str, expected: str, cure: str) -> NoReturn:
    """Raise CheckFailed with a message of those three."""
    raise CheckFailed(f"{found}; expected {expected}. {cure[:1].upper()}{cure[1:]}")


def require_methods(plugin: Any, *names: str) -> None:
    """Refuse a plugin that lacks a method, or whose `Options` pricekit cannot use."""
    kind = type(plugin).__name__
    for name in names:
        if not callable(getattr(plugin, name, None)):
            fail(f"{kind} has no method {name}", f"the methods {', '.join(names)}", f"add {name}")
    if hasattr(plugin, "Options"):
        model = options_model(plugin)
        if model is None:
            fail(f"{kind}.Options is no pydantic model", "one", "derive it from pydantic.BaseModel")
        if "name" in model.model_fields:
            fail("there is an option called 'name'", "another: that is the plugin's own", "rename it")


def shown(value: Any) -> str:
    """Return what a value is, in a few words."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return f"{value!r:.80} ({type(value).__name__})"
    return f"{dtype} of shape {tuple(shape)}"


def _run(function: Callable[[Make], None], make: Make) -> None:
    try:
        function(make)
    except CheckFailed:
        raise
    except (Exception, SystemExit) as error:
        raise CheckFailed(_explained(error)) from error


def _explained(error: BaseException) -> str:
    said = shorten(str(error), 500)
    if isinstance(error, PricekitError):
        return said
    missing = (getattr(error, "name", None) or "") if isinstance(error, ModuleNotFoundError) else ""
    if extra := _EXTRAS.get(missing.partition(".")[0]):
        return f"{missing} is not installed; this check needs it. pip install 'pricekit[{extra}]'"
    return f"{_place(error)} raised {type(error).__name__}: {said}; expected no error. Correct what raises it"


def _place(error: BaseException) -> str:
    """Return where the plugin was when it raised: the innermost line that is neither ours nor a library's."""
    found = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_plugins(frame)]
    if not found:
        return "the plugin"
    code, line = found[-1][0].f_code, found[-1][1]
    return f"{code.co_qualname} ({code.co_filename}, line {line})"


def _is_plugins(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return not module.startswith("pricekit.testing.") and module.partition(".")[0] not in _LIBRARIES
