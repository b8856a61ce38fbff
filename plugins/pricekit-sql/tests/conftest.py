"""A PostgreSQL server, and a small bundle."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from postgresql_server import Server, installed

import pricekit as pk


@pytest.fixture(scope="session")
def server():
    programs = installed()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    started = Server(programs)
    yield started
    started.stop()


@pytest.fixture
def table(server):
    """The address of a table of the server that does not exist yet."""
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    server.execute(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    settings = {"backbone.vocab_size": 300, "backbone.width": 8, "training.refit": False}
    model = pk.train(
        pk.make_catalog(200, seed=1), out=folder / "run", epochs=1, features="fast15", settings=settings
    )
    model.export(folder / "bundle")
    return folder / "bundle"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache of a test, in which interrupted predictions leave their windows."""
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


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
def started(bundle):
    """Start a prediction in a process of its own."""
    running = []

    def start(*words: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command("predict", bundle, *words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()
