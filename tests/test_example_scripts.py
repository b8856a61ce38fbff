"""Every script in examples/ runs as written, their plugins pass the checks of plugins, and the README names them."""

import runpy
import sys
from pathlib import Path

import pytest

from pricekit.core.loader import registry

pytestmark = pytest.mark.examples

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
PLUGINS = sorted(FOLDER.glob("own_*.py"))


@pytest.fixture
def _no_plugin_files(monkeypatch):
    """Unload the plugins of a script."""
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", "")
    yield
    registry.cache_clear()


@pytest.mark.usefixtures("_no_plugin_files")
@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_an_example_runs(script, monkeypatch, capsys, tmp_path):
    if script.stem == "ray_train":
        pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())  # nothing is left behind


@pytest.mark.parametrize("script", PLUGINS, ids=[script.stem for script in PLUGINS])
def test_the_plugins_of_an_example_pass_their_checks(script, pricekit):
    code, out, err = pricekit("plugins", "check", script)
    assert code == 0, out + err


def test_a_plugin_of_each_kind_has_an_example():
    from pricekit.core.registry import KINDS

    text = "".join(script.read_text("utf-8") for script in PLUGINS)
    kinds = KINDS.keys() - {"kernel"}  # compiled functions
    assert [kind for kind in kinds if f"@pk.plugin.{kind}(" not in text] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_a_script_begins_with_a_title(script):
    """The page of the script on the site has the title; its cells are separated by `# %%`."""
    quote, title, line, *_ = script.read_text("utf-8").splitlines()
    assert quote == '"""'
    assert line == "=" * len(title)


def test_the_readme_names_each_script():
    text = (FOLDER / "README.md").read_text("utf-8")
    assert [script.name for script in SCRIPTS if f"({script.name})" not in text] == []
