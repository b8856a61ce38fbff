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
from pricekit.errors import BundleError, MachineError, PluginError
from pricekit.io import sandbox
from pricekit.io.cpus import available_memory
from pricekit.io.sandbox import in_sandbox
from pricekit.predict.bundle import Bundle

if TYPE_CHECKING:
    from pricekit.predict.predictor import Predictor
    from pricekit.predict.self_test import SelfTestResult


SECONDS = 10
"""Time to open a bundle and to use it once, after the libraries are loaded; as much again for each `LARGE` bytes."""

MEMORY = 2 << 30
"""Bytes of memory, libraries included; a bundle of more than `LARGE` bytes may take four times its size plus 1 GiB.

No bundle may take more than is available on the machine.
"""

LARGE = 256 << 20

ROWS = 8
"""Rows that are priced besides those of the self-test: generated and unusual ones."""

UNUSUAL = "緑茶 20 ☕ café ½ kg \u0301 " * 40
"""A text with characters that a vocabulary may lack."""


@dataclass(frozen=True)
class Inspection:
    """A bundle whose files match their hashes, and how it opened in a sandbox.

    Attributes:
        bundle: its manifest and files.
        seconds: to open it and to use it once; None if only the self-test opened it, without the sandbox.
        megabytes: the most memory that this took, libraries included; None as for `seconds`.
        note: why there was no sandbox; "" if there was.
        self_test: the result of its self-test; None if the self-test is off.
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
    """Open a bundle in a sandbox, and use it as `predict`, `serve` and `comparables` do.

    Args:
        bundle: it is read again from its folder, which must not have changed.
        seconds: see `SECONDS`.
        memory: see `MEMORY`.

    Raises:
        BundleError: the bundle is damaged, or exceeds the limits of the sandbox.
        PluginError: a plugin that it needs, or ONNX Runtime, is missing or fails.
        MachineError: there is no sandbox on this machine, or too little memory for it.
    """
    if sys.platform != "linux":
        raise _unable(
            "only Linux limits the memory of a process. Inspect it in a container or on another machine"
        )
    if find_spec("onnxruntime") is None:
        raise PluginError(
            "the bundle cannot be inspected, because onnxruntime is not installed: pip install 'pricekit[cpu]'"
        )
    size = sum(map(len, bundle.files.values()))
    usual = memory if size <= LARGE else 4 * size + memory // 2
    allowed = int(min(usual, available_memory()))
    outcome = in_sandbox(
        "pricekit.predict.sandbox:load_libraries",
        "pricekit.predict.sandbox:open_and_use",
        [str(bundle.path.absolute()), bundle.digest],
        seconds=seconds * (1 + size // LARGE),
        memory=allowed,
        environment=_plugins(),
    )
    if not outcome.failure:
        return Inspection(bundle, **outcome.facts)
    if outcome.failure == PluginError.__name__:
        raise PluginError(outcome.message)
    if outcome.failure == sandbox.START:
        raise _unable(outcome.message)
    if outcome.failure == sandbox.MEMORY and (allowed < usual or outcome.less):
        raise _unable("the bundle needs more memory than this process may take; try a larger machine")
    fault = "is damaged"
    if outcome.failure in (sandbox.MEMORY, sandbox.TIME):
        fault = "exceeds the limits of the sandbox in which it is opened and prices a few rows"
    raise BundleError(
        f"the bundle {bundle.path} {fault}, do not trust it: {outcome.message}", path=bundle.path
    )


def _unable(reason: str) -> MachineError:
    return MachineError(f"this machine cannot inspect the bundle: {reason}")


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


def open_and_use(path: str, digest: str) -> tuple[dict[str, float], bytes]:
    """Open the bundle with a digest and use it once; called in the sandbox."""
    from pricekit.predict.predictor import Predictor

    began = time.perf_counter()
    predictor = Predictor.load(path, "ort-cpu")
    if predictor.digest != digest:
        raise BundleError("it was replaced while it was inspected; try again")
    _use(predictor)
    seconds = time.perf_counter() - began
    # `getrusage` also counts the memory of the parent.
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    most = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    return {"seconds": seconds, "megabytes": most / 1e6}, b""


def _use(predictor: Predictor) -> None:
    """Use a model as commands do: run its self-test, read its products, price rows with intervals, and count them."""
    import numpy as np
    import pandas as pd

    from pricekit.datasets import make_catalog
    from pricekit.predict.members import table_of

    if predictor.invented is not None:
        predictor.self_test()
    predictor.own_products()
    others = () if predictor.sketch is None else predictor.sketch.others
    texts = [*make_catalog(ROWS - 2)["catalog_content"], "", UNUSUAL]
    rows = pd.DataFrame(
        dict.fromkeys(others, "") | dict.fromkeys(predictor.columns.text, texts), range(len(texts))
    )
    if predictor.invented is not None:  # also has the columns that features declare, perhaps of numbers
        declared = predictor.invented.frame().reindex(rows.index, method="ffill")
        rows = rows.assign(**declared.drop(columns=[*predictor.columns.text]))
    table = table_of(rows, predictor.columns)
    inputs = predictor.prepare(table)
    prices = predictor.price(inputs)
    for row in range(len(table)):
        predictor.prices(table.take(np.array([row])))
    if predictor.intervals is not None:
        spread = predictor.spread(inputs)
        for level in predictor.intervals.levels:
            predictor.intervals.bounds(prices, spread, float(level))
    if predictor.sketch is not None:
        predictor.count(table, inputs, prices)
