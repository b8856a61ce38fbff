"""Opening a bundle in a process of its own, with limits on time and memory.

The checks of `bundle` bound what a file may contain. What its graph computes, and how libraries written in C++ and Rust
treat odd values, is only known after a trial. The trial happens here: a crash or an endless computation ends the child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pricekit.core import loader
from pricekit.errors import BundleError, PricekitError
from pricekit.io.causes import NO_MEMORY
from pricekit.io.cpus import available_memory
from pricekit.predict.bundle import Bundle
from pricekit.wording import shorten

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

CPUS = 2
"""CPUs that the child uses: each thread takes address space."""

_MEMORY = "memory"
"""The kind of a report on a bundle that needs too much memory, or ends the process."""

_START_SECONDS = 120
_STARTED = "\0started\n"
"""What the child writes when the limits begin; any failure before is not the bundle's fault."""
_REPORT_CHARACTERS = 1_000
_START = (
    "import sys; sys.path[:] = sys.argv[4:]; from pricekit.predict.sandbox import run; run(*sys.argv[1:4])"
)
_OF_LIBRARIES = ("PRICEKIT_", "LD_", "TOKENIZERS_")
"""Beginnings of the environment variables that the child gets: the choice of plugins, and where libraries are."""


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
    report = _run_child(bundle.path, seconds, allowed)
    if report["kind"] == _MEMORY and (allowed < usual or is_limited):
        return Inspection(
            bundle, note="it needs more memory than this process may take; try a larger machine"
        )
    if report["kind"] in ("BundleError", _MEMORY):
        advice = ". Do not trust it" if report["kind"] == _MEMORY else ""
        raise BundleError(
            f"the bundle {bundle.path} was opened in a sandbox, and cannot be used: {report['message']}{advice}",
            path=bundle.path,
        )
    if report["kind"]:  # a missing plugin, or a failure of the sandbox
        return Inspection(bundle, note=report["message"])
    return Inspection(bundle, report["seconds"], report["megabytes"])


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


def _run_child(bundle: Path, seconds: int, memory: int) -> dict[str, Any]:
    """Return the child's report: kind and message of the error, seconds, megabytes."""
    paths = map(os.path.abspath, sys.path)
    with tempfile.TemporaryDirectory(prefix="pricekit-") as home:
        command = [
            sys.executable,
            "-I",
            "-c",
            _START,
            str(bundle.absolute()),
            str(seconds),
            str(memory),
            *paths,
        ]
        try:
            child = subprocess.run(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=home,
                env=_environment(home),
                start_new_session=True,
                timeout=_START_SECONDS + seconds,
                check=False,
            )
            output, code = child.stdout, child.returncode
        except subprocess.TimeoutExpired as error:
            output, code = error.output or b"", -signal.SIGALRM
    return _report(output, code, seconds, memory)


def _environment(home: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(_OF_LIBRARIES)}
    if plugins := kept.get(loader.FILES):  # the child has another working directory
        absolute = [str(Path(name).absolute()) for name in plugins.split(os.pathsep) if name]
        kept[loader.FILES] = os.pathsep.join(absolute)
    threads = {"OMP_NUM_THREADS": str(CPUS), "RAYON_NUM_THREADS": str(CPUS), "MALLOC_ARENA_MAX": "2"}
    return {**kept, **threads, "HOME": home, "TMPDIR": home, "XDG_CACHE_HOME": home}


def _report(output: bytes, code: int, seconds: int, memory: int) -> dict[str, Any]:
    """Return the report that the child wrote, or one about how the child ended."""
    _, started, rest = output.rpartition(_STARTED.encode())
    try:
        report: dict[str, Any] = json.loads(rest)
        return report
    except ValueError:
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    late = code in (-signal.SIGALRM, -signal.SIGXCPU)
    if not started:
        state = f"did not start within {_START_SECONDS} seconds" if late else f"ended at its start ({ended})"
        return _failed_start(f"the sandbox {state}, which is no fault of the bundle; try again")
    needs = f"needs more than {memory >> 20:,} MiB of memory"
    if not late:
        return {"kind": _MEMORY, "message": f"it ends the process that opens it ({ended}), or {needs}"}
    reason = f"it takes more than {seconds} seconds to open it and to price {ROWS} rows"
    return {"kind": "BundleError", "message": f"{reason}. Do not trust it"}


def _failed_start(message: str) -> dict[str, Any]:
    return {"kind": "sandbox", "message": message}


def run(path: str, seconds: str, memory: str) -> None:
    """Open a bundle under limits, and print a report as JSON; the child's main function.

    Libraries and plugins are loaded before the limits begin.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])
    sys.stdout = sys.stderr  # stdout is for the report
    try:
        for name in ("onnxruntime", "pricekit.datasets", "pricekit.predict.predictor"):
            __import__(name)
        loader.registry()
        _set_limits(int(seconds), int(memory))
    except Exception as error:
        reason = "" if isinstance(error, PricekitError) else f"{type(error).__name__}: "
        _end(_failed_start(f"the sandbox cannot start: {reason}{shorten(str(error), _REPORT_CHARACTERS)}"))
    from pricekit.predict.predictor import Predictor

    _write(_STARTED)
    began, kind, message = time.perf_counter(), "", ""
    needs = f"it needs more than {int(memory) >> 20:,} MiB of memory"
    try:
        _price(Predictor.load(path, "ort-cpu"))
    except MemoryError:
        kind, message = _MEMORY, needs
    except PricekitError as error:
        kind, message = type(error).__name__, shorten(str(error), _REPORT_CHARACTERS)
        if NO_MEMORY.search(message):
            kind, message = _MEMORY, needs
    except Exception as error:
        kind, message = "BundleError", f"{type(error).__name__}: {shorten(str(error), 300)}. Do not trust it"
    elapsed = time.perf_counter() - began
    # `getrusage` also counts the memory of the parent.
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    most = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    _end({"kind": kind, "message": message, "seconds": elapsed, "megabytes": most / 1e6})


def _end(report: dict[str, Any]) -> NoReturn:
    """Write a report as JSON, and end the process, in which threads of libraries may still compute."""
    _write(json.dumps(report))
    os._exit(0)


def _write(text: str) -> None:
    sys.__stdout__.write(text)  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


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


def _set_limits(seconds: int, memory: int) -> None:
    """Limit the process from now on: its memory to `memory` bytes in all, its time, and files that it writes."""
    import resource

    page = resource.getpagesize()
    size, resident = (int(pages) * page for pages in Path("/proc/self/statm").read_text().split()[:2])
    for limit, most in (
        (resource.RLIMIT_AS, size + max(0, memory - resident)),
        (resource.RLIMIT_CPU, int(time.process_time()) + seconds * CPUS + 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]  # of the user, who may have limited this process
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    signal.setitimer(signal.ITIMER_REAL, seconds)
