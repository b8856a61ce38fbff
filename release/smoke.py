"""Use pricekit and the packages that are installed with it: plugins load, and a model is trained, exported and used.

    python release/smoke.py PACKAGE...

The arguments are the packages that must be there. Run it outside of the sources.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path


def pricekit(*words: str) -> str:
    """Run a command; return its standard output."""
    command = [sys.executable, "-m", "pricekit", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Run all of it in a temporary folder; raises an error for what does not work."""
    for package in sys.argv[1:]:
        importlib.import_module(package.replace("-", "_"))
        print(f"{package} {version(package)} can be imported")
    print(pricekit("plugins", "doctor"))
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder, "demo")
        pricekit("demo", "--out", str(demo), "--rows", "1000")
        pricekit("bundle", "inspect", str(demo / "bundle"), "--self-test", "--engine", "ort-cpu")
        manifest = json.loads((demo / "bundle" / "manifest.json").read_text("utf-8"))
    if manifest["pricekit_version"] != version("pricekit"):
        raise SystemExit(f"the bundle is of version {manifest['pricekit_version']}")
    print("trained, exported, predicted, inspected")


if __name__ == "__main__":
    main()
