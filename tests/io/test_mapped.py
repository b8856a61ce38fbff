"""Files that are mapped into memory."""

import os

import numpy as np
import pytest

from pricekit.io.mapped import folder_for_files, map_file, nameless_file, release_pages, rows_read


def test_a_mapped_file_is_read_after_its_pages_are_released(tmp_path, monkeypatch):
    with nameless_file(tmp_path) as file:
        file.write(np.arange(100_000).tobytes())
        values = np.frombuffer(map_file(file), np.int64)
    assert list(tmp_path.iterdir()) == []
    release_pages()
    assert values.sum() == sum(range(100_000))
    released = []
    monkeypatch.setattr("pricekit.io.mapped.release_pages", lambda: released.append(1))
    for _ in range(4):
        rows_read(1 << 15)
    assert len(released) == 2


def test_an_empty_file_is_mapped(tmp_path):
    with nameless_file(tmp_path) as file:
        assert len(map_file(file)) == 0


@pytest.mark.skipif(os.name == "nt", reason="permissions of Windows")
def test_files_are_in_the_nearest_folder_that_exists(tmp_path):
    assert folder_for_files(tmp_path / "a" / "run") == tmp_path
    (tmp_path / "run").mkdir()
    assert folder_for_files(tmp_path / "run") == tmp_path / "run"
