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


DECORATED = """
from pricekit import plugin

@plugin.loss("squares")
class Squares(plugin.LogPrice):
    \"""Mean squared error of the log price.

    More about it.
    \"""

    def terms(self, raw, price):
        return self.distance(raw, price).square()
"""


def test_a_decorated_class_is_registered_with_the_first_line_of_its_docstring(tmp_path):
    (tmp_path / "mine.py").write_text(DECORATED)
    pk.use_plugins(tmp_path / "mine.py")
    entry = registry().get("loss", "squares")
    assert (entry.package, entry.summary) == ("mine.py", "Mean squared error of the log price")
    assert registry().create("loss", "squares").central


def test_a_decorated_class_of_another_module_is_not_registered_again(tmp_path, monkeypatch):
    (tmp_path / "squares_of_mine.py").write_text(DECORATED)
    (tmp_path / "mine.py").write_text(
        "from squares_of_mine import Squares\nfrom pricekit import plugin\n"
        "@plugin.loss('cubes')\nclass Cubes(Squares): 'of another'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    pk.use_plugins(tmp_path / "mine.py")
    assert losses() == {"cubes"}


WRONG = {
    "two of one name": DECORATED + DECORATED.replace("class Squares", "class Again"),
    "a wrong name": DECORATED.replace('"squares"', '"Squared Error"'),
    "a function": "from pricekit import plugin\n@plugin.feature('mine')\ndef mine(table): pass\n",
    "no name": "from pricekit import plugin\n@plugin.feature\nclass Mine(plugin.Feature): pass\n",
    "no name in brackets": "from pricekit import plugin\n@plugin.feature()\nclass Mine(plugin.Feature): pass\n",
    "empty parentheses": "from pricekit import plugin\n@plugin.engine()\nclass Mine(plugin.Engine): pass\n",
    "another kind": "from pricekit import plugin\n@plugin.loss('mine')\nclass Mine(plugin.Feature): pass\n",
    "two kinds": "from pricekit import plugin\n@plugin.engine('mine')\nclass Mine(plugin.Loss): pass\n",
    "a policy as a feature": (
        "from pricekit import plugin\n@plugin.feature('mine')\nclass Mine(plugin.Policy): pass\n"
    ),
}


@pytest.mark.parametrize("way", WRONG)
def test_a_wrong_decorator_is_an_error_that_says_how_to_write_it(tmp_path, raises, way):
    (tmp_path / "mine.py").write_text(WRONG[way])
    with raises(PluginError):
        pk.use_plugins(tmp_path / "mine.py")
