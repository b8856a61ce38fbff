"""A PostgreSQL server, and a cache for each test."""

import uuid

import pytest
from postgresql_server import Server, installed


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
    """The name of a table of the server that does not exist yet."""
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    server.execute(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    """The cache of a test, in which interrupted predictions leave their windows."""
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "cache"))
