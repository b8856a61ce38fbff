import os
import shutil

import pytest

from pricekit.io import files
from pricekit.io.files import (
    describe_failure,
    publish_folder,
    temporary_folder,
    write_atomically,
    write_text,
)


def test_a_folder_is_written_and_replaced_atomically(tmp_path):
    out = tmp_path / "deep" / "bundle"
    publish_folder(out, {"a": b"1", "b": b"2"})
    publish_folder(out, {"a": b"3"})
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {"a": b"3"}
    assert [p.name for p in out.parent.iterdir()] == ["bundle"]


def test_the_target_of_a_link_is_replaced(tmp_path):
    publish_folder(tmp_path / "real", {"a": b"1"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    publish_folder(tmp_path / "link", {"a": b"2"})
    assert (tmp_path / "real" / "a").read_bytes() == b"2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_between_the_renames_leaves_the_old_folder(tmp_path, monkeypatch, error):
    out = tmp_path / "bundle"
    publish_folder(out, {"a": b"1"})
    rename = os.rename

    def fail(source, target):
        if target == out and (source / "a").read_bytes() == b"2":
            raise error
        rename(source, target)

    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(type(error)) as raised:
        publish_folder(out, {"a": b"2"})
    assert getattr(raised.value, "filename", str(out)) == str(out)
    assert (out / "a").read_bytes() == b"1"
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_a_folder_is_never_missing_while_it_is_replaced(tmp_path, monkeypatch):
    out = tmp_path / "bundle"
    publish_folder(out, {"a": b"1"})
    seen = []
    monkeypatch.setattr(os, "rename", lambda *_: seen.append("rename"))
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: seen.append((path / "a").read_bytes()))
    publish_folder(out, {"a": b"2"})
    assert (out / "a").read_bytes() == b"2"
    assert seen[0] == b"1"  # the old folder has the temporary name


@pytest.mark.parametrize("exchanges", [True, False])
def test_folders_are_exchanged_or_renamed(tmp_path, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    publish_folder(tmp_path / "bundle", {"a": b"1"})
    publish_folder(tmp_path / "bundle", {"a": b"2"})
    assert (tmp_path / "bundle" / "a").read_bytes() == b"2"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert not files.exchange(tmp_path / "bundle", tmp_path / "missing")


def test_a_text_file_is_replaced_atomically_and_readable_by_others(tmp_path):
    write_text(tmp_path / "f", "one")
    write_text(tmp_path / "f", "two\nü")
    assert (tmp_path / "f").read_bytes() == "two\nü".encode()
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o666 & ~umask
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_an_error_of_a_full_disk_names_the_file_and_not_the_temporary_one(tmp_path, raises):
    with raises(OSError) as raised, write_atomically(tmp_path / "f"):
        raise OSError(28, "No space left on device")
    assert raised.value.filename == str(tmp_path / "f")
    with pytest.raises(FileNotFoundError) as missing, write_atomically(tmp_path / "no" / "f"):
        pass
    assert missing.value.filename == str(tmp_path / "no" / "f")


def test_a_failed_copy_names_the_file_that_was_written():
    copying = OSError(28, "No space left on device", "from", None, "to")
    assert describe_failure(copying).startswith("to: No space left on device; free some space")


def test_a_full_disk_for_temporary_files_names_the_folder_and_its_variable(raises):
    with raises(OSError) as raised, temporary_folder() as folder:
        raise OSError(28, "No space left on device")
    assert str(folder) in describe_failure(raised.value)
    assert "TMPDIR" in " ".join(raised.value.__notes__)
    assert not folder.exists()
