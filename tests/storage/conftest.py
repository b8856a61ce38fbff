"""An empty memory file system for each test, and no pauses between attempts."""

import fsspec
import pytest

from pricekit.storage import connect


@pytest.fixture(autouse=True)
def memory(monkeypatch, tmp_path):
    """The memory file system; the cache is a temporary folder."""
    monkeypatch.setattr(connect, "PAUSE_SECONDS", 0)
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    return system


_CUT = ConnectionError("the connection was reset")


class Failing:
    """Makes calls of a method of the memory file system fail: those whose numbers, from 1, are given."""

    def __init__(self, monkeypatch, method, numbers, error=_CUT):
        self.calls = 0
        kind = type(fsspec.filesystem("memory"))
        original = getattr(kind, method)

        def fail(system, *args, **options):
            self.calls += 1
            if self.calls in numbers:
                raise error
            return original(system, *args, **options)

        monkeypatch.setattr(kind, method, fail)


@pytest.fixture
def failing(monkeypatch):
    """Make calls of a method fail."""
    return lambda method, numbers, *error: Failing(monkeypatch, method, numbers, *error)
