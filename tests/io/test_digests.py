"""Damaged files are found by their digests."""

import contextlib
import errno
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pricekit.io import digests
from pricekit.io.digests import (
    LISTING,
    SEAL,
    DamagedError,
    check_files,
    check_seal,
    list_files,
    read_listing,
    seal,
)


@pytest.fixture
def sealed(tmp_path):
    path = tmp_path / "a.safetensors"
    values = {f"t{i}": np.random.default_rng(i).normal(size=(100, 77)).astype(np.float32) for i in range(8)}
    save_file(values, path, metadata={"pricekit": '{"checksum":"%s"}' % ("0" * 32)} | SEAL)
    seal(path)
    return path


def test_a_sealed_file_is_readable_and_matches(sealed):
    assert check_seal(sealed)
    assert len(load_file(sealed)) == 8


def test_every_flipped_byte_is_found(sealed):
    good = sealed.read_bytes()
    end = 8 + int.from_bytes(good[:8], "little")
    for place in [*range(8, end, 7), *range(end, len(good), 5001), len(good) - 1]:
        damaged = bytearray(good)
        damaged[place] ^= 1 << place % 8
        sealed.write_bytes(damaged)
        found = False
        with contextlib.suppress(DamagedError):
            found = check_seal(sealed)  # False: the name of the entry was flipped, so there is no checksum
        assert not found, place


def test_zeroed_truncated_and_exchanged_blocks_are_found(sealed, raises):
    good = sealed.read_bytes()
    end = 8 + int.from_bytes(good[:8], "little")
    block = good[end + 4096 : end + 8192]
    for content in (
        good[: end + 4096] + bytes(4096) + good[end + 8192 :],
        good[:-1],
        good[:-4096],
        good + b"\0",
        good[:end] + block + good[end + 4096 : end + 4096] + good[end : end + 4096] + good[end + 8192 :],
    ):
        sealed.write_bytes(content)
        with raises(DamagedError):
            check_seal(sealed)


@pytest.mark.parametrize(("number", "found"), [(errno.EMFILE, OSError), (errno.EIO, DamagedError)])
def test_a_file_that_cannot_be_read_now_is_not_called_damaged(tmp_path, monkeypatch, number, found):
    (tmp_path / "a").write_text("x")
    list_files(tmp_path, ["a"])

    def refuse(path):
        raise OSError(number, "refused", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(digests, "_facts_of", refuse)
        with pytest.raises(found):
            check_files(tmp_path, ["a"])
    monkeypatch.setattr(Path, "read_text", lambda self, *_: refuse(self))
    with pytest.raises(found):
        read_listing(tmp_path)


def test_files_without_a_seal_are_not_checked(tmp_path, raises):
    save_file({"t": np.zeros(3)}, tmp_path / "old.safetensors", metadata={"pricekit": "{}"})
    assert not check_seal(tmp_path / "old.safetensors")
    with raises(ValueError):
        seal(tmp_path / "old.safetensors")


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(f"content {name}")
    list_files(tmp_path, ["a", "b", "absent"])
    return tmp_path


def test_listed_files_match_and_others_are_not_checked(folder):
    (folder / "c").write_text("other")
    check_files(folder, ["a", "b", "c"])
    list_files(folder, ["c"])
    assert sorted(read_listing(folder)) == ["a", "b", "c"]
    check_files(folder, ["a", "b", "c"])


@pytest.mark.parametrize("content", [b"", b"content b", b"content A", b"content aa"])
def test_a_damaged_file_is_named(folder, content, raises):
    (folder / "a").write_bytes(content)
    with raises(DamagedError):
        check_files(folder, ["a", "b"])
    check_files(folder, ["b"])


def test_a_missing_file_is_named(folder, raises):
    (folder / "a").unlink()
    with raises(DamagedError):
        check_files(folder, ["a", "b"])


def test_every_flipped_bit_of_the_list_is_found_or_changes_nothing(folder):
    path = folder / LISTING
    good, listed = path.read_bytes(), read_listing(folder)
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << place % 7
        path.write_bytes(damaged)
        with contextlib.suppress(DamagedError):
            assert read_listing(folder) == listed


def test_a_list_of_another_folder_is_named(folder, tmp_path, raises):
    other = tmp_path / "other"
    other.mkdir()
    for name in "ab":
        (other / name).write_text("other")
    list_files(other, "ab")
    (folder / LISTING).write_text((other / LISTING).read_text())
    with raises(DamagedError):
        check_files(folder, ["a", "b"])


def test_folders_without_a_list_are_not_checked(tmp_path):
    check_files(tmp_path, ["a"])
    assert read_listing(tmp_path) is None


def test_a_list_of_another_shape_is_damaged(folder, raises):
    for content in ([], {"files": 3}, {"files": {}, "sha256": 1}, {"files": [1], "sha256": "x"}):
        (folder / LISTING).write_text(json.dumps(content))
        with raises(DamagedError):
            read_listing(folder)
