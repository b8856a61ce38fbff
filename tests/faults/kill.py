"""kill -9 at a random moment; the command is repeated until it succeeds, and must end as if nothing had happened."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

from pricekit.io.record import state_of
from tests.faults.campaign import Case
from tests.faults.commands import Command, Ended, run, succeed
from tests.faults.models import (
    assert_equal_files,
    assert_equal_runs,
    assert_equal_weights,
    assert_nothing_left,
    command_of,
    write_table,
)

TRIALS, SHORT = 200, 16
REQUIREMENT = "resumes; results equal to an uninterrupted run; nothing left behind"

KINDS = ("train", "cv", "export", "predict", "overwrite", "pretrain", "ensemble", "members")
RESUMED = ("train", "members", "cv", "predict", "pretrain", "overwrite")
KILLS = 2
"""Each command is killed at most this often before it may end."""


def prepare(folder: Path) -> None:
    """Run each command without a fault, and note how long it takes."""
    write_table(folder / "table.csv")
    write_table(folder / "more.csv", 20_000, seed=1)
    succeed("--version", folder=folder)  # starts the server
    seconds = {}
    for kind in ("train", "members", "cv", "ensemble", "export", "predict", "pretrain"):
        began = time.perf_counter()
        succeed(*command_of(kind), folder=folder)
        seconds[kind] = time.perf_counter() - began
    seconds["overwrite"] = seconds["train"]
    (folder / "seconds.json").write_text(json.dumps(seconds))


def trial(case: Case) -> str:
    """Kill a command up to `KILLS` times, repeat it, and compare with the uninterrupted one."""
    kind, folder = KINDS[case.number % len(KINDS)], case.folder
    provide(kind, case)
    seconds = json.loads((case.shared / "seconds.json").read_text())[kind]
    killed = 0
    for attempt in range(KILLS):
        command = Command(*repeated(kind, attempt, folder), folder=folder)
        time.sleep(case.random.uniform(0, 0.8) * seconds)
        command.send(signal.SIGKILL)
        ended = command.wait()
        if ended.code == 0 or is_complete(kind, ended):
            break
        assert ended.code == -signal.SIGKILL, ended
        killed += 1
        if kind == "overwrite" and not _is_replaced(case):
            assert_equal_weights(folder / "run/best.safetensors", case.shared / "run/best.safetensors")
    else:
        ended = run(*repeated(kind, 1, folder), folder=folder)
        assert ended.code == 0 or is_complete(kind, ended), ended
    compare(kind, case)
    assert_nothing_left(folder)
    return f"{kind} killed {killed}x" if killed else f"{kind} ended before"


def is_complete(kind: str, ended: Ended) -> bool:
    """Return whether a command without `--resume` found the output that an earlier one had completed."""
    return kind in ("export", "ensemble") and ended.code == 1 and "already exists" in ended.output


def provide(kind: str, case: Case) -> None:
    """Copy what the command reads."""
    for name in ("table.csv", "more.csv"):
        (case.folder / name).symlink_to(case.shared / name)
    needed = {"export": ["run"], "predict": ["bundle"], "overwrite": ["run"], "ensemble": ["run", "cv"]}
    for name in needed.get(kind, []):
        shutil.copytree(case.shared / name, case.folder / name)


def repeated(kind: str, attempt: int, folder: Path) -> list[str]:
    """Return the command; from the second time on with the option that continues it, if it has one.

    A replacement that has not begun cannot be continued: `--resume` would continue the old run.
    """
    words = command_of("train" if kind == "overwrite" else kind)
    if kind == "overwrite":
        words += ["--overwrite", "--set", "training.learning_rate=0.02"]
    begun = kind != "overwrite" or state_of(folder / "run").replacement
    if attempt and begun and kind in RESUMED:
        words = [word for word in words if word != "--overwrite"] + ["--resume"]
    return words


def compare(kind: str, case: Case) -> None:
    one, other = case.folder, case.shared
    if kind == "train":
        assert_equal_runs(one / "run", other / "run")
    elif kind == "members":
        names = [sorted(path.name for path in folder.glob("members/members/*")) for folder in (one, other)]
        assert names[0] == names[1], names  # a member without a weight is deleted
        for name in names[0]:
            assert_equal_runs(one / "members/members" / name, other / "members/members" / name)
        assert_equal_files(one, other, "members/held_out.parquet", "members/intervals.json")
    elif kind == "cv":
        for fold in ("fold-0", "fold-1"):
            assert_equal_runs(one / "cv" / fold, other / "cv" / fold)
        assert_equal_files(one, other, "cv/held_out.parquet")
    elif kind == "ensemble":
        assert_equal_files(one, other, "ensemble/held_out.parquet", "ensemble/intervals.json")
    elif kind == "export":
        assert_equal_files(one, other, "bundle/model.onnx", "bundle/tokenizer.json", "bundle/preprocess.json")
    elif kind == "predict":
        assert_equal_files(one, other, "prices.csv")
    elif kind == "pretrain":
        assert_equal_weights(one / "weights/model.safetensors", other / "weights/model.safetensors")
    else:
        assert _is_replaced(case)


def _is_replaced(case: Case) -> bool:
    """Return whether the run is a complete one other than the first."""
    facts = [
        json.loads((folder / "run/run.json").read_text("utf-8")) for folder in (case.folder, case.shared)
    ]
    return bool(facts[0]["metrics"] != facts[1]["metrics"])
