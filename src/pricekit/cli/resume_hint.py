"""How to continue after an interruption."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pricekit.cli.options import read_flags
from pricekit.cli.plugin_options import again
from pricekit.cli.terminal import show_result


@contextmanager
def resume_hint(command: str, flags: dict[str, Any], marker: Path) -> Iterator[None]:
    """Print the command that continues what the block does, when it is interrupted after it wrote `marker`."""
    before = _stamp(marker)
    try:
        yield
    except KeyboardInterrupt:
        if flags["resume"] or _stamp(marker) not in (None, before):
            show_result(f"continue with: {_resume_command(command, flags)}")
        raise


def _resume_command(command: str, flags: dict[str, Any]) -> str:
    words = [str(flags["table"]), "--out", str(flags["out"]), "--resume"]
    if flags.get("valid"):
        words += ["--valid", str(flags["valid"])]
    if flags["resume"] and flags["time_budget"]:  # that of the first start is in the configuration
        words += ["--time-budget", flags["time_budget"]]
    words += read_flags(flags) + ["--allow-leak"] * flags["allow_leak"]
    return shlex.join(["pricekit", command, *words]) + again()


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return a fingerprint that changes when a file is replaced; None where there is no file."""
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.is_file() else None
