"""A disk that is full at any write: a small tmpfs where the system permits it, otherwise a failing call."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.faults import kill
from tests.faults.campaign import Case
from tests.faults.commands import Command, Ended
from tests.faults.models import assert_nothing_left

TRIALS, SHORT = 100, 12
REQUIREMENT = (
    "earlier state intact; one paragraph that names the file; the command continues when there is space"
)

KINDS = ("train", "overwrite", "predict", "export", "cv", "re-export", "ensemble", "pretrain")
SIZE = 64 << 20
"""Bytes of the disk."""


def prepare(folder: Path) -> None:
    """Run each command without a fault, and note how much it writes."""
    kill.prepare(folder)
    written = {kind: _used(folder / out) for kind, out in _outputs().items()}
    (folder / "written.json").write_text(json.dumps(written))


def _outputs() -> dict[str, str]:
    return {
        "train": "run", "overwrite": "run", "cv": "cv", "export": "bundle", "re-export": "bundle",
        "predict": "prices.csv", "ensemble": "ensemble", "pretrain": "weights",
    }  # fmt: skip


def _used(path: Path) -> int:
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())


def trial(case: Case) -> str:
    """Fill the disk up to a random number of bytes, run a command, free the disk, and repeat the command."""
    kind = KINDS[case.number % len(KINDS)]
    with _disk(case.folder) as disk:
        inner = replace(case, folder=disk)
        _provide(kind, inner)
        before = _state(disk)
        if os.path.ismount(disk):
            need = json.loads((case.shared / "written.json").read_text())[kind]
            free = int(2.5 * need * case.random.random() ** 2)
            command = _start(kind, case, disk, 0, filler=free)
        else:
            command = _start(kind, case, disk, 0, call=int(40 * case.random.random() ** 2))
        ended = command.wait()
        if ended.code == 0:
            _compare(kind, inner)
            return f"{kind}: enough space"
        _check_explained(ended, disk)
        assert _state(disk).items() >= before.items(), "an earlier file was changed"
        if kind in ("export", "predict", "ensemble"):  # the others leave what can be resumed
            assert not (disk / _outputs()[kind]).exists(), "a part of the output was published"
        (disk / ".filler").unlink(missing_ok=True)
        again = _start(kind, case, disk, 1).wait()
        assert again.code == 0, again
        _compare(kind, inner)
        assert_nothing_left(disk)
    return f"{kind}: full"


def _provide(kind: str, case: Case) -> None:
    kill.provide({"re-export": "export"}.get(kind, kind), case)
    if kind == "re-export":
        shutil.copytree(case.shared / "bundle", case.folder / "bundle")


def _compare(kind: str, case: Case) -> None:
    kill.compare({"re-export": "export"}.get(kind, kind), case)


def _state(disk: Path) -> dict[str, bytes]:
    """Return what must not change: the earlier files, and the inputs."""
    names = [path for path in disk.rglob("*") if path.is_file()]
    return {
        str(file.relative_to(disk)): file.read_bytes()
        for file in names
        if not any(part.startswith(".") for part in file.relative_to(disk).parts)
    }


def _check_explained(ended: Ended, disk: Path) -> None:
    """The command names a file, and exits with the code of a temporary failure."""
    ended.check_explained(4)
    last = ended.output.strip().splitlines()[-1]
    assert "No space left on device" in last, ended.output
    words = [word.strip("'\",;:.()") for word in last.split()]
    outputs = set(_outputs().values())
    named = [
        word for word in words if outputs & set(Path(word).parts) or word.startswith((str(disk), "/tmp"))
    ]
    hidden = [
        word for word in words if word.lstrip(".").split(".")[0] in {Path(name).stem for name in outputs}
    ]
    assert named or hidden, f"no file is named: {ended.output}"
    assert len(last) < 600, ended.output


def _start(kind: str, case: Case, disk: Path, attempt: int, **fault: int) -> Command:
    words = kill.repeated({"re-export": "export"}.get(kind, kind), attempt, disk)
    if kind == "re-export":
        words += ["--overwrite"]
    value = {"disk": str(disk), **fault}
    environment = {"TMPDIR": str(disk)} if case.random.random() < 0.3 and not attempt else {}
    return Command(
        *words,
        folder=case.folder,
        environment=environment,
        before="tests.faults.full_disk:enter",
        value=value,
    )


def enter(value: dict[str, Any]) -> None:
    """Work on the disk, in the process of the command; fill it, or make a call fail."""
    disk = Path(value["disk"])
    os.chdir(disk)
    if "filler" in value:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - value["filler"]
        with (disk / ".filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(free, 1))
    if "call" in value:
        _fail_at(value["call"])


def _fail_at(number: int) -> None:
    """Make the disk full from the nth file that is synced."""
    calls, sync = iter(range(1 << 30)), os.fsync

    def fsync(handle: int) -> None:
        if next(calls) >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    os.fsync = fsync


@contextmanager
def _disk(folder: Path) -> Iterator[Path]:
    """Yield a folder on a small disk, or a plain folder where nothing can be mounted."""
    disk = folder / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
    mounted = shutil.which("mount") and subprocess.run(["mount", *options], capture_output=True, check=False)
    try:
        yield disk
    finally:
        if mounted and not mounted.returncode:
            os.chdir("/")
            subprocess.run(["umount", "-l", str(disk)], check=True)
