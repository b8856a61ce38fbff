"""Bundles that a stranger wrote: valid hashes, hostile contents.

Processes that fork from a warm one inspect each bundle, predict with it, and open it as `pricekit serve` does. Every
tenth inspection has its sandbox in a new process.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

from pricekit.datasets import make_catalog
from pricekit.wording import printable
from tests.faults.campaign import Case
from tests.faults.commands import Command, Ended
from tests.faults.grammar import spoil

TRIALS, SHORT = 1_000, 40
REQUIREMENT = (
    "no code, no outside access, at most 2 GB and 10 s, one paragraph; what inspect accepts, others open"
)

MEMORY = 2_100 << 20
"""Bytes: 2 GiB, and what the limit of a process cannot count, such as pages shared with others."""
SECONDS_TO_INSPECT = 60
"""10 seconds in the sandbox, and the start of processes on a busy machine."""
LONGEST_OUTPUT, LONGEST_ERROR = 20_000, 2_500
"""Characters of all that a command prints, and of one that refuses a bundle."""
REAL = 10
"""One trial in this number starts a new process as its sandbox."""

_ONLY_SANDBOX = ("ends the process", "takes more than", "memory")
"""What only the sandbox survives: predict runs a graph without limits."""

_HERE = "tests.faults.hostile_bundles"


def prepare(folder: Path) -> None:
    """Export a bundle with every built-in feature, formats of columns, a self-test and products."""
    import pricekit

    rows = make_catalog(300).rename(columns={"catalog_content": "description"})
    rows["size"] = [f"{number % 40 + 1} oz" for number in range(len(rows))]
    rows["brand"] = rows["description"].str.split().str[2]
    bag = [f"backbone.{name}" for name in ("vocab_size=300", "buckets=64", "width=2", "members=2")]
    trees = [f"feature_options.trees.{name}" for name in ("rounds=20", "words=100", "neighbours=true")]
    model = pricekit.train(
        rows,
        text=["description", "size", "brand"],
        out=folder / "run",
        epochs=1,
        max_length=64,
        features=["ultra25", "columns", "trees", "neighbours"],
        settings=[*bag, *trees],
    )
    model.export(folder / "bundle", with_comparables=rows.head(100))
    rows.drop(columns="price").head(40).to_csv(folder / "table.csv", index=False)


def trial(case: Case) -> str:
    """Spoil a bundle, and open it with every command, unless only the sandbox survives it."""
    bundle = Path(shutil.copytree(case.shared / "bundle", case.folder / "bundle"))
    shutil.copy(case.shared / "table.csv", case.folder)
    os.mkfifo(case.folder / "secret")  # whoever opens it waits for ever
    rule = spoil(bundle, case.number, case.random)
    inspected = _run(
        case, "bundle", "inspect", "bundle", before=None if case.number % REAL == 0 else "fork_sandbox"
    )
    _check(case, inspected, rule)
    if any(words in inspected.output for words in _ONLY_SANDBOX) and inspected.code:
        return "stopped by the sandbox"
    words = ["predict", "bundle", "table.csv", "--out", "prices.csv", "--engine", "ort-cpu"]
    predicted = _run(case, *words, before="limit")
    _check(case, predicted, rule, *(["prices.csv"] if predicted.code == 0 else []))
    served = _run(case, "--version", before="serve")
    _check(case, served, rule, *(["prices.csv"] if predicted.code == 0 else []))
    if inspected.code == 0:
        for opened in (predicted, served):
            assert opened.code == 0, f"{rule}: inspect accepts what another refuses: {opened.output}"
        return "harmless"
    return "refused" if predicted.code else "refused by inspect only"


def _run(case: Case, *words: str, before: str | None) -> Ended:
    """Run a command on the bundle; return how it ended, without its file of output."""
    function = None if before is None else f"{_HERE}:{before}"
    ended = Command(*words, folder=case.folder, before=function, value=MEMORY).wait(SECONDS_TO_INSPECT)
    for output in case.folder.glob(".output-*"):
        output.unlink()
    return ended


def _check(case: Case, ended: Ended, rule: str, *new: str) -> None:
    """Assert that a command explained itself, printed no control characters, and wrote only the files in `new`."""
    files = {file.name for file in case.folder.iterdir()}
    assert files == {"bundle", "secret", "table.csv", *new}, f"{rule}: found {sorted(files)}"
    assert 0 <= ended.code <= 4, (rule, ended)
    output = ended.output.replace("\r\n", "\n")
    assert printable(output) == output, (rule, output[:2000])
    assert len(output) < (LONGEST_ERROR if ended.code else LONGEST_OUTPUT), (rule, output[:3000])
    if ended.code:
        ended.check_explained()
        assert output.count("\n") <= 3, (rule, output)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert most < MEMORY, f"{rule}: {most / 1e6:,.0f} MB"


def limit(memory: int) -> None:
    """Limit the memory that this process may take from now on."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))


def serve(memory: int) -> None:
    """Open the bundle as `open_model` of pricekit-serve does; end the process if it is refused."""
    import pandas as pd

    from pricekit.cli.common import exit_code
    from pricekit.cli.terminal import logging_to_terminal
    from pricekit.errors import PricekitError
    from pricekit.io.log import logger
    from pricekit.predict.members import read_bundle
    from pricekit.predict.predictor import Predictor

    limit(memory)
    with logging_to_terminal():
        try:
            predictor = Predictor.from_bundle(read_bundle("bundle"), "ort-cpu")
            if predictor.invented is not None:
                predictor.self_test()
            others = () if predictor.sketch is None else predictor.sketch.others
            row = dict.fromkeys([*others, *predictor.columns.text], "")
            predictor.predict(pd.DataFrame([row]))
            predictor.own_products()
        except PricekitError as error:
            logger.error(str(error))
            os._exit(exit_code(error))


def fork_sandbox(_: int) -> None:
    """Let the sandbox of this process be a fork of it: libraries need not be imported again."""
    from pricekit.io import sandbox

    sandbox.subprocess.run = _forked  # type: ignore[assignment]


def _forked(words: list[str], *, cwd: str, timeout: float, **_: object) -> subprocess.CompletedProcess[bytes]:
    """Run the function of a sandbox in a fork, as `subprocess.run` would run it in a new process."""
    from pricekit.io.sandbox import main

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(cwd)
            os.dup2(writing, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            main(*words[4:9])
        finally:
            os._exit(99)
    os.close(writing)
    began, output = time.monotonic(), b""
    while chunk := os.read(reading, 1 << 20):
        output += chunk
        assert time.monotonic() - began < timeout
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return subprocess.CompletedProcess(words, code, output, b"")
