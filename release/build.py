"""Build the wheel and the source distribution of pricekit and of every package in plugins/, twice, and compare.

    python release/build.py FOLDER

FOLDER gets the files and SHA256SUMS, which `sha256sum --check` reads. The time in the archives is that of the last
commit, so the same commit gives the same bytes with the same versions of hatchling and ziglang (constraints.txt). The
compiler of ziglang builds the wheels of pricekit-fast for each of `MACHINES`, wherever it runs.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
COMPILED = ROOT / "plugins" / "pricekit-fast"
MACHINES = ("x86_64", "aarch64")
SUMS = "SHA256SUMS"


def commit_time() -> str:
    """Return the time of the last commit, or $SOURCE_DATE_EPOCH if it is set, in seconds since 1970."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def build(folder: Path) -> dict[str, str]:
    """Build all projects into a folder; return the SHA-256 of each file by its name."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": commit_time()}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    for project in PROJECTS:
        for target in map(_compiler_for, MACHINES) if project == COMPILED else [{}]:
            subprocess.run(
                [*command, str(project)], check=True, env=environment | target, stdout=subprocess.DEVNULL
            )
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def _compiler_for(machine: str) -> dict[str, str]:
    """Return the variables that build a wheel for Linux on a machine, with glibc 2.17 or later (PEP 599)."""
    return {
        "CC": f"{shlex.quote(sys.executable)} -m ziglang cc -target {machine}-linux-gnu.2.17",
        "PRICEKIT_PLATFORM": f"manylinux_2_17_{machine}.manylinux2014_{machine}",
    }


def main() -> None:
    """Build twice; raises SystemExit if a file differs."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise SystemExit(f"{out} is not empty; empty it, or name another folder")
    first = build(out)
    with tempfile.TemporaryDirectory() as other:
        second = build(Path(other))
    if differ := sorted({name for name, _ in first.items() ^ second.items()}):
        raise SystemExit(f"two builds differ: {', '.join(differ)}")
    (out / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in first.items()), "utf-8")
    print(f"{len(first)} files in {out}, the same in both builds")


if __name__ == "__main__":
    main()
