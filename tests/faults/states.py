"""kill -9 at each point of the table of states in docs/architecture.md, before or after one call of the system.

The folder is then in the state of the table, and the next command ends as if nothing had happened.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pricekit.io.record import state_of
from tests.faults.campaign import Case
from tests.faults.commands import Command, succeed
from tests.faults.models import (
    assert_equal_files,
    assert_equal_runs,
    assert_nothing_left,
    command_of,
    write_table,
)

REQUIREMENT = "the state of the table; the next command completes it"

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: its first column.
        point: when to kill: `before` or `after`, a call, the end of the path that it changes, and the number of that
            call from 1.
        state: the next columns: state, pass, whether there is a checkpoint, whether there is a replacement.
        command: the command that is killed, of `COMMANDS`.
        then: the option that the next command has instead of `--overwrite`; "": none.
    """

    name: str
    point: str
    state: str
    phase: str
    checkpoint: str
    replacement: str
    command: str
    then: str


TRAIN = command_of("train")
COMMANDS = {kind: command_of(kind) for kind in ("train", "members", "ensemble", "cv", "pretrain", "export")}
COMMANDS |= {
    "one pass": [*TRAIN, "--no-refit"],
    "overwrite": [*TRAIN, "--set", "training.learning_rate=0.02", "--overwrite"],
    "search": [
        *("tune", "table.csv", "--out", "tuned", "--trials", "2", "--folds", "2", "--time-budget", "1h"),
        *("--no-refit", *TRAIN[4:]),
    ],
}
TABLE = """
before the record | before replace run/pricekit.json 1 | absent | first | no | no | train |
after the record | after replace run/pricekit.json 1 | absent | first | no | no | train | --resume
before it is unfinished | before replace run/pricekit.json 2 | absent | first | no | no | train |
before the first checkpoint | after replace run/pricekit.json 2 | unfinished | first | no | no | train | --resume
with a checkpoint | after replace run/last.safetensors 3 | unfinished | first | yes | no | train | --resume
before the only pass is finished | before replace run/pricekit.json 3 | unfinished | first | yes | no | one pass | --resume
before the second pass | before replace run/refit/pricekit.json 1 | unfinished | first | yes | no | train | --resume
while the second pass starts | before replace run/refit/pricekit.json 2 | unfinished | first | yes | no | train | --resume
in the second pass | after replace run/refit/last.safetensors 2 | unfinished | second | yes | no | train | --resume
before the second pass is finished | before replace run/refit/pricekit.json 3 | unfinished | second | yes | no | train | --resume
before the passes change places | after replace run/refit/pricekit.json 3 | unfinished | publishing | yes | no | train | --resume
while the passes change places | after replace run/tokenizer.json 2 | unfinished | publishing | yes | no | train | --resume
before the record changes place | before replace run/pricekit.json 3 | unfinished | publishing | yes | no | train | --resume
after the passes have changed places | after replace run/pricekit.json 3 | finished | second | yes | no | train | --resume
before the replacement is unfinished | before replace .run.new/pricekit.json 2 | finished | second | yes | no | overwrite | --overwrite
in the replacement | after replace .run.new/last.safetensors 2 | finished | second | yes | yes | overwrite | --resume
before the replacement is complete | before replace .run.new/pricekit.json 4 | finished | second | yes | yes | overwrite | --resume
before the folders change places | after replace .run.new/pricekit.json 4 | finished | second | yes | yes | overwrite | --resume
before the old folder is deleted | after exchange run 1 | finished | second | yes | no | overwrite | --resume
after the old folder is deleted | after rmtree .run.new 1 | finished | second | yes | no | overwrite | --resume
while an unfinished run is deleted | before unlink run/config.toml 1 | absent | first | yes | no | overwrite | --overwrite
an ensemble, between its members | after replace members/members/two/pricekit.json 1 | unfinished | first | no | no | members | --resume
an ensemble, before it is finished | before replace members/pricekit.json 3 | unfinished | first | no | no | members | --resume
an ensemble of copies | before rename ensemble 1 | absent | first | no | no | ensemble |
a cross-validation, before its first fold | after replace cv/pricekit.json 2 | unfinished | first | no | no | cv | --resume
a cross-validation, in a fold | after replace cv/fold-1/last.safetensors 2 | unfinished | first | no | no | cv | --resume
a cross-validation, before it is finished | before replace cv/pricekit.json 3 | unfinished | first | no | no | cv | --resume
a search, in a trial | after replace tuned/trials/0-1/last.safetensors 1 | unfinished | first | no | no | search | --resume
a search, before it is finished | before replace tuned/pricekit.json 3 | unfinished | first | no | no | search | --resume
a pretraining, before a checkpoint | after replace weights/pricekit.json 1 | absent | first | no | no | pretrain | --resume
a pretraining, with a checkpoint | after replace weights/pricekit.json 2 | unfinished | first | no | no | pretrain | --resume
a pretraining, before it is finished | before replace weights/pricekit.json 3 | unfinished | first | no | no | pretrain | --resume
a pretraining, after its weights | after replace weights/pricekit.json 3 | finished | first | no | no | pretrain | --resume
a bundle, before its name | before rename bundle 1 | absent | first | no | no | export |
a bundle, after its name | after rename bundle 1 | finished | first | no | no | export | --overwrite
"""  # noqa: E501
"""name | point | state | pass | checkpoint | replacement | command | option of the next command"""
ROWS = [Row(*map(str.strip, line.split("|"))) for line in TABLE.strip().splitlines()]
TRIALS = SHORT = len(ROWS)


def prepare(folder: Path) -> None:
    """Check that the table has these rows; run each command without a fault."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for row in ROWS:
        facts = f"| {' | '.join([row.name, row.state, row.phase, row.checkpoint, row.replacement])} |"
        assert facts in text, f"docs/architecture.md lacks the row {facts}"
    table = text.partition("| killed |")[2].partition("\n\n")[0]
    assert table.count("\n|") == len(ROWS) + 1, "a row of docs/architecture.md has no trial"
    write_table(folder / "table.csv")
    for kind in ("train", "cv", "ensemble", "members", "export", "pretrain"):
        succeed(*command_of(kind), folder=folder)
    for kind in ("one pass", "overwrite"):
        succeed(*(kind if word == "run" else word for word in COMMANDS[kind]), folder=folder)


def kill_at(point: str) -> None:
    """Kill this process before or after a call of the system, which changes a path that ends with one of the point."""
    when, name, path, number = point.split()
    module: Any = os
    if name in ("exchange", "rmtree"):
        from pricekit.io import files

        module = files if name == "exchange" else shutil
    calls, own = count(1), getattr(module, name)

    def call(*arguments: Any, **options: Any) -> Any:
        changed = os.fspath(arguments[1 if name in ("replace", "rename", "exchange") else 0])
        meant = bool(re.search(rf"(^|/){re.escape(path)}$", changed)) and next(calls) == int(number)
        if meant and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = own(*arguments, **options)
        if meant:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, name, call)


def trial(case: Case) -> str:
    """Kill a command, look at the folder, and run the next command."""
    row, folder, words = ROWS[case.number], case.folder, COMMANDS[ROWS[case.number].command]
    out = folder / words[words.index("--out") + 1]
    (folder / "table.csv").symlink_to(case.shared / "table.csv")
    if row.state == "absent" and row.command == "overwrite":
        _kill(TRAIN, "after replace run/last.safetensors 3", folder)
    else:
        needed = {"overwrite": ["run"], "ensemble": ["run", "cv"], "export": ["run"]}
        for name in needed.get(row.command, []):
            shutil.copytree(case.shared / name, folder / name)
    _kill(words, row.point, folder)
    state = state_of(out)
    yes = {True: "yes", False: "no"}
    facts = (state.name, state.phase, yes[state.checkpoint], yes[state.replacement])
    assert facts == (row.state, row.phase, row.checkpoint, row.replacement), (row.name, facts)
    again = [word for word in words if word != "--overwrite"]
    succeed(*again, *([row.then] if row.then else []), folder=folder)
    assert (state_of(out).name, state_of(out).replacement) == ("finished", False)
    if row.command in ("train", "one pass", "overwrite"):
        assert_equal_runs(out, case.shared / ("run" if row.command == "train" else row.command))
    elif row.command != "search":
        names = {"export": "preprocess.json", "pretrain": "tokenizer.json"}
        assert_equal_files(folder, case.shared, f"{out.name}/{names.get(row.command, 'held_out.parquet')}")
    assert_nothing_left(folder)
    return row.state


def _kill(words: list[str], point: str, folder: Path) -> None:
    ended = Command(*words, folder=folder, before="tests.faults.states:kill_at", value=point).wait()
    assert ended.code == -signal.SIGKILL, ended
