"""Every test has its own memory file system and cache."""

import pytest


@pytest.fixture(autouse=True)
def _own_memory(memory):
    """See the fixture of all tests."""
