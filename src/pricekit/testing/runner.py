"""Named checks and their failure messages; checks in a process without torch."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Annotated, Any, NoReturn, TypeGuard

from pydantic import BaseModel, TypeAdapter, ValidationError

from pricekit.config.settings import searched
from pricekit.core.registry import options_model
from pricekit.errors import PricekitError
from pricekit.wording import shorten

CONTRACTS = ("pricekit.core.contracts", "pricekit.io.sources")
"""The modules whose methods a plugin must override."""

Make = Callable[[], Any]
"""Creates a plugin; a class is created with its default options."""

Checks = dict[str, Callable[[Make], None]]
"""What is checked, by name: each function gets what creates the plugin."""

ByHand = tuple[Sequence[float], Sequence[float], Sequence[float], float]
"""Prices to fit a loss on, raw outputs and their true prices, both (B,), and the expected loss."""

_EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "onnx", "onnxscript", "safetensors", "accelerate"), "train"),
    "onnxruntime": "cpu",
}
_LIBRARIES = {
    *("torch", "transformers", "tokenizers", "onnx", "onnxscript", "onnxruntime", "safetensors"),
    *("numpy", "pandas", "pyarrow", "pydantic"),
    *sys.stdlib_module_names,
}


class CheckFailed(AssertionError):  # noqa: N818 (public name)
    """A plugin violates its contract; the message names the cause, what was expected and the fix.

    Example:
        >>> from pricekit.testing import CheckFailed, check_feature
        >>> class Empty:
        ...     pass
        >>> try:
        ...     check_feature(Empty)[0]()
        ... except CheckFailed as error:
        ...     print(error)
        Empty has no method transform; expected the methods transform. Add transform
    """


@dataclass(frozen=True)
class Check:
    """One requirement of a plugin.

    Attributes:
        name: the requirement in a few words.
        run: raises CheckFailed if the plugin does not meet the requirement; leaves nothing behind.

    Example:
        >>> from pricekit.testing import Check
        >>> check = Check("the pack size is positive", lambda: None)
        >>> check()
        >>> str(check)
        'the pack size is positive'
    """

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Run the check.

        Raises:
            CheckFailed: the plugin does not meet the requirement.
        """
        self.run()

    def __str__(self) -> str:
        return self.name


def named(checks: Checks, make: Make) -> list[Check]:
    """Return named checks of one plugin, which seed torch; an exception of the plugin becomes a CheckFailed."""
    return [Check(name, partial(_run, function, make)) for name, function in checks.items()]


def fail(problem: str, expected: str, fix: str) -> NoReturn:
    """Raise CheckFailed with a message from the cause, what was expected and the fix."""
    raise CheckFailed(f"{problem}; expected {expected}. {fix[:1].upper()}{fix[1:]}")


def require_methods(plugin: Any, *names: str) -> None:
    """Fail if the plugin does not define a method, or if its `Options` are unusable."""
    kind = type(plugin).__name__
    for name in names:
        defined = getattr(plugin, name, None)
        if not callable(defined) or getattr(defined, "__module__", "") in CONTRACTS:
            fail(f"{kind} has no method {name}", f"the methods {', '.join(names)}", f"add {name}")
    if hasattr(plugin, "Options"):
        model = options_model(plugin)
        if model is None:
            fail(
                f"{kind}.Options is not a pydantic model",
                "a pydantic model",
                "derive it from pydantic.BaseModel",
            )
        if "name" in model.model_fields:
            fail("an option is called 'name'", "another name: 'name' selects the plugin", "rename the option")
        _require_valid_ranges(model)


def _require_valid_ranges(model: type[BaseModel]) -> None:
    """Fail if an option rejects a value of the range that it declares for a search."""
    for name, search in searched(model).items():
        field = model.model_fields[name]
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if not search.fits(default):
            continue  # the option has no value around which to search
        checked: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]
        for value in search.ends(default):
            try:
                checked.validate_python(value)
            except ValidationError as error:
                reason = error.errors()[0]["msg"]
                fail(
                    f"the option '{name}' declares a range with {value!r}, which it rejects: {reason}",
                    "a range of valid values",
                    "change its Search, or its constraints",
                )


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is an int of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_float32(value: Any, kind: type[Any], shape: tuple[int, ...]) -> bool:
    """Return whether a value is an array, or a tensor, of float32 with a shape."""
    return isinstance(value, kind) and value.shape == shape and str(value.dtype).endswith("float32")


def shown(value: Any) -> str:
    """Describe a value in a few words."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return f"{value!r:.80} ({type(value).__name__})"
    return f"{dtype} of shape {tuple(shape)}"


def _run(function: Callable[[Make], None], make: Make) -> None:
    torch = sys.modules.get(TORCH)
    try:
        with torch.random.fork_rng(devices=[]) if torch else nullcontext():
            if torch:
                torch.manual_seed(0)
            function(make)
    except CheckFailed:
        raise
    except (Exception, SystemExit) as error:
        raise CheckFailed(_explained(error)) from error


def _explained(error: BaseException) -> str:
    message = shorten(str(error), 500)
    if isinstance(error, PricekitError):
        return message
    missing = (getattr(error, "name", None) or "") if isinstance(error, ModuleNotFoundError) else ""
    if extra := _EXTRAS.get(missing.partition(".")[0]):
        return f"this check needs {missing}, which is not installed: pip install 'pricekit[{extra}]'"
    fix = "Fix the exception"
    if isinstance(error, AttributeError) and error.name in ("_modules", "_parameters", "_buffers"):
        fix = "Call super().__init__() first in __init__"
    return f"{_place(error)} raised {type(error).__name__}: {message}; expected no error. {fix}"


def _place(error: BaseException) -> str:
    """Return the location in the plugin: the innermost frame outside of pricekit.testing and libraries."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module, code = str(frame.f_globals.get("__name__", "")), frame.f_code
        if not f"{module}.".startswith("pricekit.testing.") and module.partition(".")[0] not in _LIBRARIES:
            return f"{code.co_qualname} ({code.co_filename}, line {line})"
    return "the plugin"


TORCH = "torch"

# Import by name if the name resolves to the file; else load the file itself, like `--plugin file.py`.
_IMPORTING = """
import importlib.util, sys
name, path = sys.argv[1:]
try:
    spec = importlib.util.find_spec(name)
except (ImportError, ValueError):
    spec = None
if spec is None or spec.origin != path:
    name = "plugin_under_check"
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
else:
    importlib.import_module(name)
print("torch" in sys.modules, end="")
"""


def require_import_without_torch(plugin: Any) -> None:
    """Import the module of a plugin in a new interpreter; fail if that imports torch."""
    kind = type(plugin)
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if path is None:
        fail(f"{kind.__name__} is not defined in a file", "a module", "move it to a module")
    done = subprocess.run(  # noqa: S603 (our own interpreter)
        [sys.executable, "-P", "-c", _IMPORTING, kind.__module__, path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        fail(
            f"{path} cannot be imported on its own: {reason}",
            "no error",
            "import its dependencies in the module",
        )
    if done.stdout.endswith("True"):
        fail(
            f"importing {path} imports torch",
            "no import of torch, because prediction runs without it",
            "move code that needs torch to another module, and import that inside the function that trains",
        )


@contextmanager
def without_torch(doing: str) -> Iterator[None]:
    """Block imports of torch in this context; an attempt raises CheckFailed."""
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == TORCH}
    for name in hidden:
        del sys.modules[name]
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name == TORCH:
            fail(
                f"{doing} imports torch",
                "no import of torch, because prediction runs without it",
                "use numpy or Arrow",
            )
        raise
    finally:
        sys.meta_path.remove(absent)
        sys.modules.update(hidden)


class _Absent(MetaPathFinder):
    """An import finder that rejects torch; without an entry in `sys.modules`, on which libraries would act."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Reject torch; leave other modules to the other finders."""
        if fullname.partition(".")[0] == TORCH:
            raise ModuleNotFoundError(f"No module named '{TORCH}'", name=TORCH)
        return None
