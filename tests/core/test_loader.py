"""Plugins from Python files, loaded by a function."""

import os
from pathlib import Path

import pytest

import pricekit as pk
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, PluginError

LOSS = """
import pricekit

class Mine:
    pass

@pricekit.plugin.hookimpl
def pricekit_register_losses(register):
    register("{name}", f"{{__name__}}:Mine", "a toy")
"""


@pytest.fixture(autouse=True)
def _no_files(monkeypatch):
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", "")
    yield
    registry.cache_clear()


def losses() -> set[str]:
    return {entry.name for entry in registry().of_kind("loss") if entry.package != "pricekit"}


def write(path: Path, name: str) -> Path:
    path.write_text(LOSS.format(name=name))
    return path


def test_files_are_loaded_in_addition_to_earlier_ones(tmp_path):
    assert losses() == set()
    pk.use_plugins(write(tmp_path / "one.py", "one"))
    pk.use_plugins(str(write(tmp_path / "two.py", "two")))
    assert losses() == {"one", "two"}


def test_a_relative_path_is_that_of_the_call(tmp_path, monkeypatch):
    write(tmp_path / "one.py", "one")
    monkeypatch.chdir(tmp_path)
    pk.use_plugins("one.py")
    monkeypatch.chdir("/")
    registry.cache_clear()  # as in another process
    assert losses() == {"one"}


def test_a_changed_file_is_loaded_again(tmp_path):
    pk.use_plugins(write(tmp_path / "one.py", "one"))
    pk.use_plugins(write(tmp_path / "one.py", "other"))
    assert losses() == {"other"}


def test_a_file_that_fails_changes_nothing(tmp_path, raises):
    pk.use_plugins(write(tmp_path / "one.py", "one"))
    (tmp_path / "broken.py").write_text("import does_not_exist")
    with raises(PluginError):
        pk.use_plugins(tmp_path / "broken.py")
    with raises(PluginError):
        pk.use_plugins(tmp_path / "absent.py")
    assert losses() == {"one"}


def test_values_that_are_no_usable_path_are_errors(tmp_path, raises):
    with raises(ConfigError, "files"):
        pk.use_plugins(3)
    with raises(ConfigError, "files"):
        pk.use_plugins(tmp_path / f"a{os.pathsep}b.py")
