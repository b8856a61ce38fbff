"""The one folder while somebody changes it: a link that appears after the check leads nowhere."""

import os

import pytest

from pricekit.plugin import ConfigError, DataError

pytest.importorskip("mcp")

from pricekit_mcp.folder import MOST_DEPTH, Folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "table.csv").write_text("secret")
    return folder


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "shop" / "tables"
    inside.mkdir(parents=True)
    (inside / "table.csv").write_text("ours")
    return Folder(tmp_path / "shop")


@pytest.fixture
def change_after_check(monkeypatch):
    """Call a function once the real path is known, before anything is opened."""

    def arrange(change):
        real = os.path.realpath

        def changing(path):
            resolved = real(path)
            monkeypatch.setattr(os.path, "realpath", real)
            change()
            return resolved

        monkeypatch.setattr(os.path, "realpath", changing)

    return arrange


@pytest.fixture(params=["file", "folder"])
def result(request, tmp_path):
    """What a tool has written."""
    path = tmp_path / "result"
    if request.param == "file":
        path.write_text("prices")
    else:
        path.mkdir()
        (path / "table.csv").write_text("prices")
    return path


def replace_by_link(path, target):
    path.rename(path.with_name("moved"))
    path.symlink_to(target)


@pytest.mark.parametrize("changed", ["tables", "tables/table.csv"])
def test_a_link_that_appears_after_the_check_is_not_read(
    folder, outside, change_after_check, tmp_path, changed, raises
):
    target = outside if changed == "tables" else outside / "table.csv"
    change_after_check(lambda: replace_by_link(folder.path / changed, target))
    with raises(DataError, *(("table",) if changed == "tables" else ())):
        folder.copy_out("tables/table.csv", "table", tmp_path / "copy.csv", 1000)
    assert not (tmp_path / "copy.csv").exists()


def test_a_link_that_appears_after_the_check_is_not_written_through(
    folder, outside, change_after_check, result, raises
):
    change_after_check(lambda: replace_by_link(folder.path / "tables", outside))
    with raises(DataError, "out"):
        folder.copy_in(result, "tables/new", "out")
    (folder.path / "tables").unlink()
    (folder.path / "moved").rename(folder.path / "tables")
    change_after_check(lambda: (folder.path / "tables" / "new").symlink_to(outside / "table.csv"))
    with raises(ConfigError, "out"):
        folder.copy_in(result, "tables/new", "out")
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"table.csv": "secret"}
    assert sorted(path.name for path in (folder.path / "tables").iterdir()) == ["new", "table.csv"]


def test_nothing_is_replaced(folder, result, raises):
    folder.copy_in(result, "new", "out")
    for taken in ("new", "tables", "tables/table.csv"):
        with raises(ConfigError, "out"):
            folder.copy_in(result, taken, "out")
    assert (folder.path / "tables" / "table.csv").read_text() == "ours"
    assert sorted(path.name for path in folder.path.iterdir()) == ["new", "tables"]


def test_a_folder_has_limits(folder, tmp_path, raises):
    with raises(DataError):
        folder.copy_out("tables", "model", tmp_path / "copy", 3)
    folder.path.joinpath("tables", *["deeper"] * (MOST_DEPTH + 1)).mkdir(parents=True)
    with raises(DataError):
        folder.copy_out("tables", "model", tmp_path / "copy2", 1000)


def test_a_link_inside_is_followed(folder, tmp_path):
    (folder.path / "link").symlink_to("tables/table.csv")
    folder.check("link", "table", folder=False, new=False)
    folder.copy_out("./link", "table", tmp_path / "copy.csv", 1000)
    assert (tmp_path / "copy.csv").read_text() == "ours"
