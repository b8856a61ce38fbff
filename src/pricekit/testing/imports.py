"""Check that plugins work without torch: importing their module, and running in prediction."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pricekit.testing.runner import fail

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
    held = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == TORCH}
    for name in held:
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
        sys.modules.update(held)


class _Absent(MetaPathFinder):
    """An import finder that rejects torch."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Reject torch; leave other modules to the other finders."""
        if fullname.partition(".")[0] == TORCH:
            raise ModuleNotFoundError(f"No module named '{TORCH}'", name=TORCH)
        return None
