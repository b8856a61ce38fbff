"""Compiles the library for the wheel with `$CC` or `cc`, for this machine or `$PRICEKIT_PLATFORM`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = [
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wl,-s",
    "-Wl,--build-id=none",
]


class CompiledLibrary(BuildHookInterface):
    """Adds the library, and names the platform in the wheel: it knows no Python, so one wheel serves all versions."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library; `editable` installs have it beside the sources, too."""
        package = Path(self.root, "src", "pricekit_fast")
        library = package / "_kernel.so"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        if shutil.which(compiler[0]) is None:
            raise SystemExit(
                f"pricekit-fast needs a C compiler, and there is no {compiler[0]}: install gcc or clang"
            )
        subprocess.run([*compiler, *FLAGS, "-o", str(library), str(package / "kernel.c")], check=True)
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ.get('PRICEKIT_PLATFORM', here)}"
        build_data["artifacts"].append("src/pricekit_fast/_kernel.so")
