"""A catalogue of Iceberg in a file of SQLite, and a small bundle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FOLDER = tempfile.mkdtemp(prefix="pricekit-lake-")
# pyiceberg reads the environment when it is imported.
os.environ["PYICEBERG_CATALOG__SHOP__URI"] = f"sqlite:///{FOLDER}/catalogue.db"
os.environ["PYICEBERG_CATALOG__SHOP__WAREHOUSE"] = f"file://{FOLDER}/warehouse"


@pytest.fixture(scope="session")
def catalogue():
    """The catalogue `shop` with the namespace `sales`."""
    from pyiceberg.catalog import load_catalog

    loaded = load_catalog("shop")
    loaded.create_namespace("sales")
    yield loaded
    loaded.close()
    shutil.rmtree(FOLDER)


@pytest.fixture(scope="session")
def bundle():
    return Path(__file__).parents[3] / "tests" / "golden" / "bundle"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache of a test, in which interrupted predictions leave their windows."""
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["delta", "iceberg"])
def address(request, tmp_path, catalogue):
    """The address of a table that does not exist yet."""
    if request.param == "delta":
        return f"delta:///{tmp_path}/table"
    return f"iceberg://shop/sales.t{uuid.uuid4().hex}"


@pytest.fixture
def versions(catalogue):
    """Return the number of versions of a table; 0 if there is none."""

    def count(address: str) -> int:
        place = address.partition("?")[0].partition("://")[2]
        if address.startswith("delta"):
            from deltalake import DeltaTable

            path = place[1:]
            return DeltaTable(path).version() + 1 if DeltaTable.is_deltatable(path) else 0
        name = place.partition("/")[2]
        return len(catalogue.load_table(name).snapshots()) if catalogue.table_exists(name) else 0

    return count


@pytest.fixture
def pricekit():
    """Run a command in a process of its own; return its exit code and all that it printed."""

    def run(*words: Any, **variables: str) -> tuple[int, str]:
        done = subprocess.run(
            command(*words), capture_output=True, text=True, env=os.environ | variables, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


def command(*words: Any) -> Sequence[str]:
    return [sys.executable, "-m", "pricekit", *map(str, words)]


@pytest.fixture
def started(bundle, tmp_path):
    """Start a prediction in a process of its own, with temporary files in the folder `temporary` of the test."""
    running = []
    (tmp_path / "temporary").mkdir()

    def start(*words: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command("predict", bundle, *words),
            env=os.environ | {"TMPDIR": str(tmp_path / "temporary")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
