"""Shared fixtures: a small catalogue, a run trained on it, and its bundle."""

import contextlib
import hashlib
import io
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import cloudpickle
import fsspec
import hypothesis
import numpy as np
import pandas as pd
import pytest
from fsspec import AbstractFileSystem

from pricekit.cli.main import main
from pricekit.config import RunConfig
from pricekit.config.resolve import configure
from pricekit.core.contracts import Batch
from pricekit.core.loader import load, registry, use_plugins
from pricekit.core.registry import Registry
from pricekit.datasets import make_catalog
from pricekit.errors import DataError
from pricekit.evaluation.held_out import HeldOut, write_held_out
from pricekit.io import storage
from pricekit.io.files import write_text
from pricekit.io.locks import owned
from pricekit.io.record import Record, write_record
from pricekit.predict.intervals import INTERVALS, fit_intervals

hypothesis.settings.register_profile("pricekit", deadline=None)  # no timing in tests
hypothesis.settings.load_profile("pricekit")

TINY = {
    "backbone": {"name": "bag", "vocab_size": 1000, "buckets": 512, "width": 8, "members": 2},
    "features": ["optimized22", "columns"],
    "training": {"epochs": 3, "learning_rate": 0.01, "refit": False, "folds": 1},
    "max_length": 64,
}


def write_judged(folder: Path, rows: HeldOut, kind: str = "run") -> None:
    """Write a finished folder that has held-out rows, the intervals that they calibrate, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    write_record(folder, Record(kind, "finished"))
    write_held_out(folder, rows)
    if kind != "cross-validation":
        intervals = fit_intervals([None], rows.predicted, rows.price, rows.spread, rows.weight)
        write_text(folder / INTERVALS, intervals.to_text())


def held_out_rows(
    count: int = 200, *, noise: float = 0.5, seed: int = 0, folds: int = 1, **groups: list[str]
) -> HeldOut:
    """Rows of generated products. Texts and prices depend only on the row numbers, predictions on the seed."""
    rows = np.arange(count)
    price = np.round(np.exp(np.random.default_rng(1).normal(2.5, 1, count)), 2) + 0.01
    predicted = price * np.exp(np.random.default_rng(seed).normal(0, noise, count))
    text = pd.Series([f"Item Name: Product {n}, {n % 40 + 1} Ounce\nGood{' very' * (n % 50)}" for n in rows])
    return HeldOut(
        rows=rows.astype(np.int64),
        ids=pd.Series([f"p{n}" for n in rows], dtype="str"),
        fold=(rows % folds).astype(np.int64),
        text=text.astype("str"),
        price=price,
        predicted=predicted,
        spread=np.ones(count),
        groups=pd.DataFrame(
            {name: pd.Series(values, dtype="str") for name, values in groups.items()}, index=rows
        ),
    )


def tiny_config(*layers: dict) -> RunConfig:
    """The policy quick with a model that trains within a second: a small one without trees."""
    return configure([TINY, *layers])


@pytest.fixture(scope="session")
def rows() -> Callable[..., HeldOut]:
    """Create held-out rows."""
    return held_out_rows


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep caches out of the user's folders, and load no installed plugin packages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PRICEKIT_LOAD_PLUGINS", "")
        yield


@pytest.fixture
def registered() -> Callable[[str], Registry]:
    """Return the plugins after a package in plugins/ is loaded as if it were installed, such as "lion"."""

    def load_package(name: str) -> Registry:
        loaded = load([EntryPoint(name, f"pricekit_{name}", "pricekit")])
        assert not loaded.failed
        return loaded

    return load_package


INTERRUPTING = """
from pathlib import Path
from pricekit.plugin import hookimpl

@hookimpl
def pricekit_epoch_ended(record):
    epoch = Path(__file__).with_name("epoch")
    if epoch.exists() and int(epoch.read_text()) == record["epoch"]:
        epoch.unlink()
        raise KeyboardInterrupt
"""


@pytest.fixture
def interrupt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], None]]:
    """Interrupt the next training after the events of an epoch, before the checkpoint to resume from."""
    file = tmp_path_factory.mktemp("plugins") / "interrupting.py"
    file.write_text(INTERRUPTING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRICEKIT_PLUGIN_FILES", "")
        use_plugins(file)

        def at(epoch: int) -> None:
            file.with_name("epoch").write_text(str(epoch))

        yield at
    registry.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """Sync no file to its disk, which is a third of a small training: only a loss of power would show it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _own_plugins(request: pytest.FixtureRequest) -> Iterator[None]:
    """Load no plugin file and no installed plugin package, except the one in plugins/ whose tests run."""
    folder, name, *_ = request.path.relative_to(Path(__file__).parent).parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRICEKIT_LOAD_PLUGINS", name if folder == "plugins" else "")
        patch.setenv("PRICEKIT_PLUGIN_FILES", "")
        registry.cache_clear()
        yield
    registry.cache_clear()


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 400 invented products."""
    path = tmp_path_factory.mktemp("tables") / "products.csv"
    make_catalog(400, seed=3).to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def run(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; read only."""
    from pricekit.runs.split import Source
    from pricekit.runs.train import train

    out = tmp_path_factory.mktemp("runs") / "run"
    train(Source(catalog), tiny_config(), out)
    return out


@pytest.fixture(scope="session")
def bundle(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's bundle; read only."""
    from pricekit.export.export import export_run

    out = tmp_path_factory.mktemp("bundles") / "bundle"
    export_run(run, out)
    return out


class ModelPickler(cloudpickle.Pickler):
    """Pickles equal models to equal bytes; what holds a tensor in memory differs from process to process."""

    def persistent_id(self, value: object) -> object:
        """Return the type, shape and content of a tensor; None for anything else."""
        from torch import Tensor

        if not isinstance(value, Tensor):
            return None
        return str(value.dtype), tuple(value.shape), value.detach().numpy().tobytes()


@pytest.fixture(scope="session", autouse=True)
def _equal_models_are_traced_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copy the graph of a model that was exported before: torch takes seconds to trace one, and tests share runs."""
    from pricekit.export import export

    traced: dict[bytes, Path] = {}

    def export_graph(
        model: object,
        example: Batch,
        path: Path,
        call: Callable[..., None] = export.export_graph,
        **options: object,
    ) -> None:
        pickled = io.BytesIO()
        ModelPickler(pickled).dump((model, options))
        key = hashlib.sha256(pickled.getvalue()).digest()
        if key not in traced:
            call(model, example, path, **options)
            traced[key] = shutil.copytree(path.parent, tmp_path_factory.mktemp("graphs") / "graph")
        shutil.copytree(traced[key], path.parent, dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "export_graph", export_graph)
        yield


MESSAGES = Path(__file__).parent / "tests" / "messages.json"
met: dict[str, list[str]] = {}  # the messages of errors, by test
collected: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes down messages."""
    parser.addoption(
        "--update-messages", action="store_true", help=f"write errors' messages to {MESSAGES.name}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note the tests before any is deselected."""
    collected.update(item.nodeid for item in items)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the messages of a process of pytest-xdist."""
    met.update(getattr(node, "workeroutput", {}).get("messages", {}))
    collected.update(getattr(node, "workeroutput", {}).get("collected", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the messages down, without those of tests that are no longer there."""
    if not session.config.option.update_messages:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput |= {"messages": met, "collected": sorted(collected)}
        return
    by_name = any("::" in argument for argument in session.config.args)
    complete = set() if by_name else {test.partition("::")[0] for test in collected}
    kept = {
        test: messages
        for test, messages in read_messages().items()
        for file in [test.partition("::")[0]]
        if test in collected or (file not in complete and (session.config.rootpath / file).is_file())
    }
    files: dict[str, dict[str, dict[str, list[str]]]] = {}
    for test, messages in (kept | met).items():
        file, _, name = test.partition("::")
        function, bracket, case = name.partition("[")
        files.setdefault(file, {}).setdefault(function, {})[bracket + case] = messages
    text = json.dumps(files, indent=1, ensure_ascii=False, sort_keys=True)
    MESSAGES.write_text(text + "\n", "utf-8")


def read_messages() -> dict[str, list[str]]:
    """Return the messages of errors, by test; the file has them by file, function and case."""
    return {
        f"{file}::{function}{case}": messages
        for file, functions in json.loads(MESSAGES.read_text("utf-8")).items()
        for function, cases in functions.items()
        for case, messages in cases.items()
    }


@pytest.fixture(scope="session")
def written_messages() -> dict[str, list[str]]:
    """The messages of errors, by test."""
    return read_messages()


@pytest.fixture
def raises(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    written_messages: dict[str, list[str]],
) -> Callable[..., contextlib.AbstractContextManager[pytest.ExceptionInfo[Any]]]:
    """Expect an error of this class with these parameters, and among its facts these.

    Its message must be the one in tests/messages.json, which `pytest --update-messages` writes.
    """
    test = request.node.nodeid
    varying = {
        re.escape(str(tmp_path_factory.getbasetemp())) + r"/[\w.-]+": "TMP",
        r"[^\s']*/\.?pricekit-\w{8}\b": "TMP",
        re.escape(sys.executable): "PYTHON",
        re.escape(str(request.config.rootpath)): "ROOT",
        rf"\bon {re.escape(platform.node())}\b": "on HOST",
        r"(127\.0\.0\.1|localhost):\d+": "HOST",
        r"\bPID \d+": "PID 0",
        r"\d\d:\d\d:\d\d": "00:00:00",
        r"\b[0-9a-f]{32,}\b|\b0x[0-9a-f]+\b": "0",
        r"\bline \d+": "line 0",
        r"(?<![\d.])(\d+\.\d{3,}|\d+\.\d+\.\d+)(?![\d.]*\d)": "0.0",  # measured numbers and versions
        r"\b(\d{1,3}(,\d{3})+|\d{5,})\b": "0",  # a graph has more bytes if the paths of its sources are longer
    }
    messages: dict[str, None] = {}  # in order, without repeats

    @contextlib.contextmanager
    def expect(
        kind: type[Exception], /, *parameters: str, **facts: Any
    ) -> Iterator[pytest.ExceptionInfo[Any]]:
        with pytest.raises(kind) as caught:
            yield caught
        error = caught.value
        assert getattr(error, "parameters", ()) == parameters
        assert {name: error.facts.get(name) for name in facts} == facts
        message = str(error)
        for pattern, constant in varying.items():
            message = re.sub(pattern, constant, message)
        messages[message] = None
        if request.config.option.update_messages:
            met[test] = list(messages)
        else:
            expected = written_messages.get(test, [])[: len(messages)]
            assert list(messages) == expected, "the wording of an error has changed; see CONTRIBUTING.md"

    return expect


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AbstractFileSystem:
    """The empty memory file system, without pauses between attempts; the cache is a temporary folder."""
    monkeypatch.setattr(storage, "PAUSE_SECONDS", 0)
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "pricekit-cache"))
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    return system


class Failing:
    """Makes calls of a method of the memory file system fail: those whose numbers, from 1, are given."""

    def __init__(
        self, patch: pytest.MonkeyPatch, method: str, numbers: Container[int], error: Exception | None = None
    ) -> None:
        self.calls = 0
        kind = type(fsspec.filesystem("memory"))
        original = getattr(kind, method)

        def fail(system: object, *args: object, **options: object) -> object:
            self.calls += 1
            if self.calls in numbers:
                raise error or ConnectionError("the connection was reset")
            return original(system, *args, **options)

        patch.setattr(kind, method, fail)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Failing]:
    """Make calls of a method of the memory file system fail."""
    return lambda method, numbers, *error: Failing(monkeypatch, method, numbers, *error)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return a function that returns pricekit's log messages since its last call, one per line."""
    caplog.set_level(logging.INFO, "pricekit")

    def since() -> str:
        said = "\n".join(record.getMessage() for record in caplog.records if record.name == "pricekit")
        caplog.clear()
        return said

    return since


@pytest.fixture
def pricekit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command line and return exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pricekit", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


# None in sys.modules would not do for an absent package: scipy takes what it finds there for torch.
PROGRAM = """
import runpy, sys

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = sys.argv.pop(1).split()
sys.meta_path.insert(0, Absent)
try:
    runpy.run_module("pricekit", run_name="__main__", alter_sys=True)
finally:
    print("imported:", *sys.modules)
"""


@pytest.fixture
def program() -> Callable[..., tuple[str, set[str]]]:
    """Run the command line in a new process, where some packages are absent; return its output and its imports."""

    def run(
        *arguments: object, absent: Iterable[str] = (), plugins: str | None = None
    ) -> tuple[str, set[str]]:
        chosen = {} if plugins is None else {"PRICEKIT_LOAD_PLUGINS": plugins}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, " ".join(absent), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=os.environ | chosen,
        )
        assert done.returncode == 0, done.stderr
        output, _, imported = (done.stderr + done.stdout).rpartition("imported:")
        return output, set(imported.split())

    return run


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in a new process, with temporary files in the folder `temporary` of the test."""
    (tmp_path / "temporary").mkdir()
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pricekit", *map(str, arguments)],
            env=os.environ | {"TMPDIR": str(tmp_path / "temporary")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


STUCK = """
import json, sys, time
from contextlib import contextmanager
from pathlib import Path
import pricekit as pk

class Stuck:
    @contextmanager
    def bar(self, title, total, done):
        def advance(units, note=""):
            if title == "pricing":
                records = Path(out, "_pricekit")
                print(next(records.rglob("*.json")).relative_to(records).with_suffix(""), flush=True)
                time.sleep(600)
        yield advance

bundle, source, out, options = sys.argv[1:]
with pk.use_reporter(Stuck()):
    pk.load(bundle, "ort-cpu").predict_file(source, out, **json.loads(options))
"""


@pytest.fixture
def killed_prediction() -> Callable[..., str]:
    """Kill the process that predicts a folder when it knows that a file is complete; return the file's name."""

    def run(bundle: Path, source: Path, out: Path, **options: object) -> str:
        words = [sys.executable, "-c", STUCK, *map(str, (bundle, source, out)), json.dumps(options)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            name = process.stdout.readline().strip()
            process.kill()
        return name

    return run


@pytest.fixture
def being_written() -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """Let a file be one that another command writes, while a block runs."""
    return lambda file: owned(file, "sketch", DataError)
