"""The registry and the loader, with toy plugins."""

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from pricekit.core.loader import load, registry
from pricekit.core.registry import install_line
from pricekit.errors import ConfigError, PluginError

GOOD = """
import pricekit
from pydantic import BaseModel

class Options(BaseModel, extra="forbid"):
    gamma: float = 2.0

class Mine:
    Options = Options
    def __init__(self, options):
        self.gamma = options.gamma

class Plain:
    pass

@pricekit.plugin.hookimpl
def pricekit_register_losses(register):
    register("mine", "toy_good:Mine", "a toy")
    register("plain", "toy_good:Plain", "a toy without options")
    register("gone", "toy_good:Gone", "a toy that is not there")
"""

BROKEN = {
    "import error": ("import does_not_exist", "No module named 'does_not_exist'"),
    "exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "unknown hook": (
        "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_lossses(register): pass",
        "unknown hook",
    ),
    "wrong argument": (
        "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_losses(rigister): pass",
        "rigister",
    ),
    "failing hook": (
        "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_losses(register): raise OSError('disk')",
        "OSError: disk",
    ),
    "missing argument": (
        "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_losses(register): register('x', 'a:B')",
        r"TypeError: register\(\) missing 1 required positional argument: 'summary'",
    ),
    "bad target": (
        "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_losses(register): register('x', 'y', 'z')",
        "expected 'package.module:Attribute'",
    ),
    "duplicate of a built-in": (
        "import pricekit\n@pricekit.plugin.hookimpl\n"
        "def pricekit_register_losses(register): register('new', 'a:B', ''); register('smape', 'a:B', '')",
        "registered twice, by pricekit .* and by toy_broken",
    ),
}


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Write a plugin module and return its entry point."""

    def write(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return EntryPoint(name, name, "pricekit")

    return write


def test_the_built_ins_exist_and_load():
    for entry in registry().entries.values():
        assert entry.load() is not None
        assert entry.summary
    assert {kind for kind, _ in registry().entries} == {"feature", "backbone", "loss", "policy", "engine"}


def test_a_plugin_registers_and_takes_options(plugin, raises):
    found = load([plugin("toy_good", GOOD)])
    assert found.create("loss", "mine", {"gamma": 1.5}).gamma == 1.5
    assert found.create("loss", "mine").gamma == 2.0
    assert not found.failed
    with raises(ConfigError, "settings", setting="gama", candidates=["gamma"]):
        found.create("loss", "mine", {"gama": 1})
    with raises(ConfigError, "gamma", "settings", setting="gamma", candidates=["gamma"]):
        found.create("loss", "mine", {"gamma": "x"})
    with raises(ConfigError, "settings", setting="gamma", candidates=[]):
        found.create("loss", "plain", {"gamma": 1})
    with raises(ConfigError, "settings", setting="a\r\nb", candidates=[]):  # one line, whatever the name
        found.create("loss", "plain", {"a\r\nb": 1})
    with raises(PluginError):
        found.create("loss", "gone")


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_plugin_does_not_affect_other_plugins(plugin, way, logged, raises):
    source, reason = BROKEN[way]
    found = load([plugin("toy_broken", source), plugin("toy_good", GOOD)])
    assert found.get("loss", "mine")
    assert found.get("loss", "smape").package == "pricekit"
    assert [b.package for b in found.failed] == ["toy_broken"]
    assert re.search(reason, found.failed[0].reason)
    assert len(logged().splitlines()) == 1
    with raises(PluginError, "loss", kind="loss", name="new"):  # nothing of it stays, and the error says so
        found.get("loss", "new")


def test_plugins_of_different_kinds_can_share_a_name(plugin, raises):
    source = """
import pricekit
@pricekit.plugin.hookimpl
def pricekit_register_losses(register):
    register("twin", "a:Loss", "")
@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("twin", "a:Feature", "")
"""
    found = load([plugin("toy_twins", source)])
    assert (found.get("loss", "twin").target, found.get("feature", "twin").target) == ("a:Loss", "a:Feature")
    for name in ("Twin", " twin", "twin loss"):
        with raises(PluginError, "loss", kind="loss"):
            found.get("loss", name)


def test_an_unknown_name_lists_what_there_is(raises):
    with raises(PluginError, "loss", kind="loss", name="smap"):
        registry().get("loss", "smap")


def test_registration_imports_nothing_heavy():
    code = (
        "import sys; from pricekit.core.loader import registry; registry(); import pricekit.predict.predictor;"
        "heavy = {'torch', 'transformers', 'onnx', 'sklearn'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [3, "", "My Loss", "a,b", "Upper"])
def test_names_are_lower_case_words(plugin, name):
    source = f"""
import pricekit
print("noise")
@pricekit.plugin.hookimpl
def pricekit_register_losses(register):
    register({name!r}, "a:B", "a toy")
"""
    found = load([plugin("toy_broken", source)])
    assert "expected lower-case" in found.failed[0].reason


def test_a_base_exception_at_import_does_not_affect_other_plugins(plugin):
    source = "class Panic(BaseException): pass\nraise Panic('rust')"
    assert load([plugin("toy_broken", source)]).failed[0].reason == "Panic: rust"


def test_the_suite_loads_no_installed_package():
    assert os.environ["PRICEKIT_LOAD_PLUGINS"] == ""
    assert {entry.package for entry in registry().entries.values()} == {"pricekit"}


@pytest.mark.parametrize("package", ["evil; rm -rf ~", "a b", "-r list.txt", "../here", ""])
def test_a_hint_from_a_model_contains_no_command(package, raises):
    with raises(PluginError) as raised:
        registry().require("feature", "missing", package, "1.0")
    assert "pip install" not in str(raised.value)
    with raises(PluginError):
        registry().require("feature", "missing", "good.package-1", "1.0")
    with raises(PluginError, "plugin_files"):
        registry().require("feature", "missing", "a; rm b.py", "file 12ab")


def test_the_hint_for_a_plugin_file_is_one_line():
    found = install_line("\x1b[2J\nrm -rf ~\n", "file 123")
    assert "\n" not in found
