"""Folders of weights that tests of several files share."""

import pytest

from tests.nets.tiny_weights import write_weights


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Return a function from a family to a folder of its weights, which it writes once."""
    made = {}

    def folder_of(kind):
        if kind not in made:
            made[kind] = write_weights(tmp_path_factory.mktemp(kind), kind)
        return made[kind]

    return folder_of
