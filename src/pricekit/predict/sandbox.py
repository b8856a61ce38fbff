"""Opening a bundle in a process of its own, with limits on time and memory.

The checks of `bundle` bound what a file may contain. What its graph computes, and how libraries written in C++ and Rust
treat odd values, is only known after a trial. The trial happens here: a crash or an endless computation ends the child.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.core import loader
from pricekit.errors import BundleError
from pricekit.io import sandbox
from pricekit.io.cpus import available_memory
from pricekit.io.sandbox import in_sandbox
from pricekit.predict.bundle import Bundle

if TYPE_CHECKING:
    from pricekit.predict.self_test import SelfTestResult


SECONDS = 10
"""Time to open a bundle and price the rows, after the libraries are loaded."""

MEMORY = 2 << 30
"""Bytes of memory, libraries included; a bundle of more than 256 MiB may take four times its size, and 1 GiB.

No bundle may take more than is available on the machine.
"""

ROWS = 8
"""Generated rows that are priced."""


@dataclass(frozen=True)
class Inspection:
    """A bundle whose files match their hashes, and how it opened in a sandbox.

    Attributes:
        bundle: its manifest and files.
        seconds: to open it and to price a few generated rows; None if it was not opened.
        megabytes: of memory at most, libraries included; None if it was not opened.
        note: why it was not opened; "" if it was.
        self_test: what its self-test found; None if it did not run.
    """

    bundle: Bundle
    seconds: float | None = None
    megabytes: float | None = None
    note: str = ""
    self_test: SelfTestResult | None = None

    @property
    def manifest(self) -> dict[str, Any]:
        """The contents of manifest.json."""
        return self.bundle.manifest


def inspect_bundle(bundle: Bundle, *, seconds: int = SECONDS, memory: int = MEMORY) -> Inspection:
    """Open a bundle in a sandbox and price a few generated rows there.

    Args:
        bundle: it is read again from its folder.
        seconds: see `SECONDS`.
        memory: see `MEMORY`.

    Raises:
        BundleError: the bundle cannot be used, or exceeds the limits.
    """
    if sys.platform != "linux":
        return Inspection(bundle, note="only Linux limits the memory of a process")
    if find_spec("onnxruntime") is None:
        return Inspection(bundle, note="onnxruntime is not installed: pip install 'pricekit[cpu]'")
    import resource

    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY  # so the child is, too
    size = sum(map(len, bundle.files.values()))
    usual = memory if size <= memory // 8 else 4 * size + memory // 2
    allowed = int(min(usual, available_memory()))
    outcome = in_sandbox(
        "pricekit.predict.sandbox:load_libraries",
        "pricekit.predict.sandbox:open_and_price",
        [str(bundle.path.absolute())],
        seconds=seconds,
        memory=allowed,
        environment=_plugins(),
    )
    message = outcome.message
    if outcome.failure == sandbox.MEMORY and (allowed < usual or is_limited):
        return Inspection(
            bundle, note="it needs more memory than this process may take; try a larger machine"
        )
    if outcome.failure in ("BundleError", sandbox.MEMORY, sandbox.TIME, sandbox.UNEXPECTED):
        purpose = f" to open it and to price {ROWS} rows" if outcome.failure == sandbox.TIME else ""
        advice = "" if outcome.failure == "BundleError" else ". Do not trust it"
        raise BundleError(
            f"the bundle {bundle.path} was opened in a sandbox, and cannot be used: {message}{purpose}{advice}",
            path=bundle.path,
        )
    if outcome.failure:  # a missing plugin, or a failure of the sandbox
        return Inspection(bundle, note=message)
    return Inspection(bundle, **outcome.facts)


def with_self_test(inspection: Inspection, engine: str | None) -> Inspection:
    """Run the self-test of an inspected bundle in an engine of this process; raises BundleError, PluginError."""
    from pricekit.predict.engines import AUTO
    from pricekit.predict.members import BundleReader
    from pricekit.predict.predictor import Predictor
    from pricekit.predict.self_test import SELF_TEST, require_self_test

    if SELF_TEST not in inspection.bundle.files:  # before `auto` measures engines
        require_self_test(None)
    predictor = Predictor.from_bundle(BundleReader.of(inspection.bundle), engine or AUTO)
    return replace(inspection, self_test=predictor.self_test())


def _plugins() -> dict[str, str]:
    """Return the files of plugins as the child needs them, which has another working directory."""
    files = [name for name in os.environ.get(loader.FILES, "").split(os.pathsep) if name]
    return {loader.FILES: os.pathsep.join(str(Path(name).absolute()) for name in files)} if files else {}


def load_libraries() -> None:
    """Load libraries and plugins before the limits begin; called in the sandbox."""
    for name in ("onnxruntime", "pricekit.datasets", "pricekit.predict.predictor"):
        import_module(name)
    loader.registry()


def open_and_price(path: str) -> tuple[dict[str, float], bytes]:
    """Open a bundle and price rows; called in the sandbox."""
    from pricekit.predict.predictor import Predictor

    began = time.perf_counter()
    _price(Predictor.load(path, "ort-cpu"))
    seconds = time.perf_counter() - began
    # `getrusage` also counts the memory of the parent.
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    most = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    return {"seconds": seconds, "megabytes": most / 1e6}, b""


def _price(predictor: Any) -> None:
    """Price generated rows with every column that the model reads."""
    import pandas as pd

    from pricekit.datasets import make_catalog

    texts = make_catalog(ROWS).iloc[:, 1].astype(str)
    rows = pd.DataFrame(dict.fromkeys(predictor.columns.text, texts))
    if predictor.invented is not None:  # also has the columns that features declare
        rows = rows.join(predictor.invented.frame().drop(columns=rows.columns))
    level = None if predictor.intervals is None else float(predictor.intervals.levels[0])
    predictor.predict(rows, interval=level)
